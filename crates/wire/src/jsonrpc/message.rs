//! JSON-RPC messages: the envelope is parsed, payloads stay the received bytes.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

pub use super::payload::{LazyFinder, Payload};

/// The default limit for the size of a received message, in bytes.
pub const DEFAULT_MAX_MESSAGE_SIZE: usize = 64 * 1024 * 1024;

/// A request id. Ours are numbers; the peer may use any JSON value that JSON-RPC allows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RequestId {
    /// A non-negative integer that fits 64 bits.
    Number(u64),
    /// Any other id as raw JSON: a quoted string, a negative number.
    Other(Bytes),
}

impl RequestId {
    /// The id as JSON; null if the raw id is not valid JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            RequestId::Number(number) => (*number).into(),
            RequestId::Other(raw) => serde_json::from_slice(raw).unwrap_or_default(),
        }
    }

    /// Copies an id out of the message that holds it.
    pub(crate) fn from_raw(raw: &RawValue) -> RequestId {
        match raw.get().parse() {
            Ok(number) => RequestId::Number(number),
            Err(_) => RequestId::Other(Bytes::copy_from_slice(raw.get().as_bytes())),
        }
    }

    /// Reads an id that is a member of a payload, such as in `notifications/cancelled`.
    pub fn from_json(json: &serde_json::Value) -> RequestId {
        match json.as_u64() {
            Some(number) => RequestId::Number(number),
            None => RequestId::Other(json.to_string().into()),
        }
    }
}

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("JSON-RPC error {code}: {message}")]
pub struct RpcError {
    /// The JSON-RPC error code.
    pub code: i64,
    /// The error message.
    pub message: String,
    /// Additional data, if the peer sent any.
    pub data: Option<Payload>,
}

/// A message in either direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A request.
    Request {
        /// The id that the response will carry.
        id: RequestId,
        /// The method.
        method: Cow<'static, str>,
        /// Its parameters.
        params: Option<Payload>,
    },
    /// A notification.
    Notification {
        /// The method.
        method: Cow<'static, str>,
        /// Its parameters.
        params: Option<Payload>,
    },
    /// A response.
    Response {
        /// The id of the request; absent if the peer could not read it.
        id: Option<RequestId>,
        /// A result or an error.
        outcome: Result<Payload, RpcError>,
    },
}

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The bytes are not a JSON object.
    #[error("it is not a JSON object")]
    NotJson,
    /// The object has neither a method nor a result nor an error.
    #[error("it is JSON, but not a JSON-RPC message")]
    NotJsonRpc,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawErrorObject<'a> {
    #[serde(default)]
    code: i64,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// Parses one message or a batch. Invalid UTF-8 becomes replacement characters, so that a file name in an old
/// encoding does not leave a call without a response.
pub fn parse(bytes: &Bytes) -> Result<Messages, ParseError> {
    match parse_utf8(bytes) {
        Err(ParseError::NotJson) if std::str::from_utf8(bytes).is_err() => {
            parse_utf8(&Bytes::from(String::from_utf8_lossy(bytes).into_owned()))
        }
        parsed => parsed,
    }
}

fn parse_utf8(bytes: &Bytes) -> Result<Messages, ParseError> {
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let batch: Vec<&RawValue> =
            serde_json::from_slice(bytes).map_err(|_| ParseError::NotJson)?;
        let one = |raw: &&RawValue| parse_one(&bytes.slice_ref(raw.get().as_bytes()));
        return Ok(Messages::Batch(batch.iter().map(one).collect()));
    }
    parse_one(bytes).map(Messages::One)
}

/// The content of one line, frame or event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Messages {
    /// A single message.
    One(Message),
    /// A batch, which protocol version 2025-03-26 allows. Each part is parsed on its own.
    Batch(Vec<Result<Message, ParseError>>),
}

fn parse_one(bytes: &Bytes) -> Result<Message, ParseError> {
    // Serde would read an array as the members of the struct in order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(ParseError::NotJson);
    }
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(|_| ParseError::NotJson)?;
    let payload = |raw: &RawValue| Payload::from_json(bytes.slice_ref(raw.get().as_bytes()));
    let id = envelope.id.map(|raw| parse_id(bytes, raw));
    if let Some(method) = envelope.method {
        let method = Cow::Owned(method.into_owned());
        let params = envelope.params.map(payload);
        return Ok(match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        });
    }
    match (envelope.result, envelope.error) {
        (_, Some(error)) => Ok(Message::Response { id, outcome: Err(parse_error(bytes, error)) }),
        (Some(result), None) => Ok(Message::Response { id, outcome: Ok(payload(result)) }),
        // Serde reads `"result": null` as absent. With an id the message can only be a response.
        (None, None) if id.is_some() => Ok(Message::Response {
            id,
            outcome: Ok(Payload::from_json(Bytes::from_static(b"null"))),
        }),
        (None, None) => Err(ParseError::NotJsonRpc),
    }
}

fn parse_id(bytes: &Bytes, raw: &RawValue) -> RequestId {
    match raw.get().parse() {
        Ok(number) => RequestId::Number(number),
        Err(_) => RequestId::Other(bytes.slice_ref(raw.get().as_bytes())),
    }
}

/// Reads an error object. An invalid one is kept as the data of an error with code 0.
fn parse_error(bytes: &Bytes, raw: &RawValue) -> RpcError {
    let object = raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()));
    match object {
        Some(Ok(RawErrorObject { code, message, data })) => RpcError {
            code,
            message: message.into_owned(),
            data: data.map(|raw| Payload::from_json(bytes.slice_ref(raw.get().as_bytes()))),
        },
        Some(Err(_)) | None => RpcError {
            code: 0,
            message: "an error in an unknown format".to_owned(),
            data: Some(Payload::from_json(bytes.slice_ref(raw.get().as_bytes()))),
        },
    }
}

/// The start of a method name, for logs: the peer may send a name of any length.
pub(crate) fn log_method(method: &str) -> &str {
    const MAX_LENGTH: usize = 100;
    &method[..method.floor_char_boundary(MAX_LENGTH)]
}

impl Message {
    /// Appends the message to a buffer, without a line ending.
    pub fn write_to(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
        match self {
            Message::Request { id, method, params } => {
                write_id(buffer, Some(id));
                write_method(buffer, method, params.as_ref());
            }
            Message::Notification { method, params } => {
                write_method(buffer, method, params.as_ref())
            }
            Message::Response { id, outcome: Ok(result) } => {
                write_id(buffer, id.as_ref());
                buffer.extend_from_slice(b",\"result\":");
                write_raw(buffer, result.as_bytes());
            }
            Message::Response { id, outcome: Err(error) } => {
                write_id(buffer, id.as_ref());
                buffer.extend_from_slice(b",\"error\":{\"code\":");
                buffer.extend_from_slice(error.code.to_string().as_bytes());
                buffer.extend_from_slice(b",\"message\":");
                write_string(buffer, &error.message);
                if let Some(data) = &error.data {
                    buffer.extend_from_slice(b",\"data\":");
                    write_raw(buffer, data.as_bytes());
                }
                buffer.push(b'}');
            }
        }
        buffer.push(b'}');
    }
}

fn write_id(buffer: &mut Vec<u8>, id: Option<&RequestId>) {
    buffer.extend_from_slice(b",\"id\":");
    match id {
        Some(RequestId::Number(number)) => write_number(buffer, *number),
        Some(RequestId::Other(raw)) => write_raw(buffer, raw),
        None => buffer.extend_from_slice(b"null"),
    }
}

fn write_number(buffer: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    buffer.extend_from_slice(&digits[start..]);
}

fn write_method(buffer: &mut Vec<u8>, method: &str, params: Option<&Payload>) {
    buffer.extend_from_slice(b",\"method\":");
    write_string(buffer, method);
    if let Some(params) = params {
        buffer.extend_from_slice(b",\"params\":");
        write_raw(buffer, params.as_bytes());
    }
}

/// Appends raw JSON as one line: line breaks between tokens become spaces. JSON strings contain none.
fn write_raw(buffer: &mut Vec<u8>, json: &[u8]) {
    let start = buffer.len();
    buffer.extend_from_slice(json);
    let mut at = start;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &buffer[at..]) {
        buffer[at + found] = b' ';
        at += found + 1;
    }
}

fn write_string(buffer: &mut Vec<u8>, text: &str) {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        buffer.push(b'"');
        buffer.extend_from_slice(text.as_bytes());
        buffer.push(b'"');
    } else {
        buffer.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn one(text: &str) -> Result<Message, ParseError> {
        match parse(&Bytes::copy_from_slice(text.as_bytes())) {
            Ok(Messages::One(message)) => Ok(message),
            Ok(Messages::Batch(_)) => panic!("one message was expected"),
            Err(malformed) => Err(malformed),
        }
    }

    fn payload(text: &str) -> Payload {
        Payload::from_json(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn payloads_keep_the_received_bytes() {
        let text = r#"{"jsonrpc":"2.0","id":7,"result":{"b": 1.0,  "a":[ ]}}"#;
        let expected = Message::Response {
            id: Some(RequestId::Number(7)),
            outcome: Ok(payload(r#"{"b": 1.0,  "a":[ ]}"#)),
        };
        assert_eq!(one(text), Ok(expected));
    }

    #[test]
    fn an_array_is_neither_a_message_nor_an_error_object() {
        let batch = parse(&Bytes::from_static(br#"[[1,"ping",null,null,null],{"method":"x"}]"#));
        let notification = Message::Notification { method: "x".into(), params: None };
        assert_eq!(batch, Ok(Messages::Batch(vec![Err(ParseError::NotJson), Ok(notification)])));
        let error = RpcError {
            code: 0,
            message: "an error in an unknown format".to_owned(),
            data: Some(payload(r#"[1,"m"]"#)),
        };
        let response = Message::Response { id: Some(RequestId::Number(1)), outcome: Err(error) };
        assert_eq!(one(r#"{"id":1,"error":[1,"m"]}"#), Ok(response));
    }

    #[test]
    fn a_message_is_one_line_even_if_its_id_was_not() {
        let request = one("{\"id\":[1,\r\n2],\"method\":\"x\"}").unwrap();
        let mut line = Vec::new();
        request.write_to(&mut line);
        assert_eq!(line, br#"{"jsonrpc":"2.0","id":[1,  2],"method":"x"}"#);
    }

    #[test]
    fn invalid_utf8_becomes_replacement_characters() {
        let bytes = Bytes::from_static(b"{\"id\":7,\"result\":{\"name\":\"na\xe9\"}}");
        let outcome = Ok(payload("{\"name\":\"na\u{fffd}\"}"));
        let response = Message::Response { id: Some(RequestId::Number(7)), outcome };
        assert_eq!(parse(&bytes), Ok(Messages::One(response)));
        assert_eq!(parse(&Bytes::from_static(b"\xff\xfe")), Err(ParseError::NotJson));
    }

    #[test]
    fn requests_notifications_and_errors_are_distinguished() {
        assert_eq!(
            one(r#"{"method":"roots/list","id":"x\"1"}"#),
            Ok(Message::Request {
                id: RequestId::Other(Bytes::from_static(b"\"x\\\"1\"")),
                method: "roots/list".into(),
                params: None
            })
        );
        assert_eq!(
            one(r#"{"method":"a\u0062","params":[1]}"#),
            Ok(Message::Notification { method: "ab".into(), params: Some(payload("[1]")) })
        );
        let error = RpcError {
            code: -32601,
            message: "no such method".to_owned(),
            data: Some(payload("{}")),
        };
        assert_eq!(
            one(r#"{"id":1,"error":{"code":-32601,"message":"no such method","data":{}}}"#),
            Ok(Message::Response { id: Some(RequestId::Number(1)), outcome: Err(error) })
        );
    }

    #[test]
    fn unusual_responses_are_still_responses() {
        let null =
            Message::Response { id: Some(RequestId::Number(1)), outcome: Ok(payload("null")) };
        assert_eq!(one(r#"{"id":1,"result":null}"#), Ok(null));
        let Ok(Message::Response { id: None, outcome: Err(error) }) =
            one(r#"{"id":null,"error":"boom"}"#)
        else {
            panic!("it is an error without an id");
        };
        assert_eq!(error.data, Some(payload("\"boom\"")));
        let Ok(Message::Response { outcome: Err(error), .. }) =
            one(r#"{"id":1,"result":{},"error":{"code":5}}"#)
        else {
            panic!("an error beside a result is an error");
        };
        assert_eq!(error.code, 5);
    }

    #[test]
    fn invalid_input_has_a_specific_error() {
        for (text, expected) in [
            ("", ParseError::NotJson),
            ("Listening on port 3000", ParseError::NotJson),
            ("{\"id\":1,\"result\":", ParseError::NotJson),
            ("5", ParseError::NotJson),
            ("{}", ParseError::NotJsonRpc),
            ("{\"id\":null}", ParseError::NotJsonRpc),
        ] {
            assert_eq!(one(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_batch_keeps_valid_and_invalid_parts() {
        let batch =
            parse(&Bytes::from_static(b" [{\"id\":1,\"result\":{}}, 5, {\"method\":\"x\"}]"));
        let Ok(Messages::Batch(parts)) = batch else { panic!("it is a batch") };
        assert_eq!(parts.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn a_written_message_is_one_line() {
        let mut buffer = Vec::new();
        let params = Some(payload("{\n  \"a\":\r\n \"b\\n\"}"));
        Message::Notification { method: "x\"y".into(), params }.write_to(&mut buffer);
        assert_eq!(
            String::from_utf8(buffer).expect("text"),
            "{\"jsonrpc\":\"2.0\",\"method\":\"x\\\"y\",\"params\":{   \"a\":   \"b\\n\"}}"
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((".{0,4}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let id = || {
            prop_oneof![
                any::<u64>().prop_map(RequestId::Number),
                ".{0,6}".prop_map(|text| RequestId::Other(Bytes::from(json!(text).to_string())))
            ]
        };
        let payload = || {
            any_json()
                .prop_filter("null params read as none", |json| !json.is_null())
                .prop_map(|json| Payload::encode(&json).expect("JSON"))
        };
        prop_oneof![
            (id(), ".{0,8}", prop::option::of(payload())).prop_map(|(id, method, params)| {
                Message::Request { id, method: method.into(), params }
            }),
            (".{0,8}", prop::option::of(payload())).prop_map(|(method, params)| {
                Message::Notification { method: method.into(), params }
            }),
            (id(), payload())
                .prop_map(|(id, result)| Message::Response { id: Some(id), outcome: Ok(result) }),
            (id(), any::<i64>(), ".{0,8}", prop::option::of(payload())).prop_map(
                |(id, code, message, data)| Message::Response {
                    id: Some(id),
                    outcome: Err(RpcError { code, message, data })
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn every_message_reads_back_as_itself(message in any_message()) {
            let mut buffer = Vec::new();
            message.write_to(&mut buffer);
            prop_assert!(!buffer.contains(&b'\n'));
            prop_assert_eq!(parse(&Bytes::from(buffer)), Ok(Messages::One(message)));
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _whatever_it_is = parse(&Bytes::from(bytes));
        }

        #[test]
        fn no_broken_message_makes_the_parser_panic(message in any_message(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut buffer = Vec::new();
            message.write_to(&mut buffer);
            let at = at.index(buffer.len());
            buffer[at] = byte;
            let _whatever_it_is = parse(&Bytes::from(buffer));
        }
    }
}

//! A question as a server gets it, read only as far as somebody must know: its parameters member by member, and what
//! it says of itself in `_meta`. Values stay the bytes that came.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use crate::client::{METHOD_HEADER, NAME_HEADER, PROTOCOL_VERSION_HEADER, name_param};
use crate::jsonrpc::message::{Payload, RpcError};
use crate::protocol::era::{BATCH_VERSION, LEGACY_VERSIONS, MODERN_VERSIONS, code, key};
use crate::protocol::param_headers::decode_header_text;
use crate::server::{invalid_params, rpc_error, with_data};

/// The members of an object, in their order. Of two with one name the last counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawObject(Vec<(String, Payload)>);

impl RawObject {
    /// Reads an object; absent is empty. None where it is something else.
    pub fn parse(object: Option<&Payload>) -> Option<RawObject> {
        let Some(object) = object else { return Some(RawObject::default()) };
        let bytes = object.as_bytes();
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        let members = reader.deserialize_map(MemberVisitor(bytes)).ok()?;
        reader.end().ok()?;
        Some(RawObject(members))
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Payload> {
        self.0.iter().rev().find(|it| it.0 == name).map(|it| &it.1)
    }

    /// One of them that is text.
    pub fn get_string(&self, name: &str) -> Option<String> {
        self.get(name)?.decode().ok()
    }

    /// Takes one out.
    pub fn remove(&mut self, name: &str) -> Option<Payload> {
        let found = self.get(name).cloned();
        if found.is_some() {
            self.0.retain(|it| it.0 != name);
        }
        found
    }

    /// Puts one in, in place of what had its name.
    pub fn insert(&mut self, name: &str, value: Payload) {
        match self.0.iter_mut().find(|it| it.0 == name) {
            Some(member) => member.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// A copy without the members of these names.
    pub fn without(&self, names: &[&str]) -> RawObject {
        let members = self.0.iter().filter(|it| !names.contains(&it.0.as_str()));
        RawObject(members.cloned().collect())
    }

    /// All of them.
    pub fn into_members(self) -> Vec<(String, Payload)> {
        self.0
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object.
    pub fn to_payload(&self) -> Payload {
        let mut text = vec![b'{'];
        self.write_members(&mut text);
        text.push(b'}');
        Payload::from_json(text.into())
    }

    fn write_members(&self, text: &mut Vec<u8>) {
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend_from_slice(serde_json::Value::from(name.as_str()).to_string().as_bytes());
            text.push(b':');
            text.extend_from_slice(value.as_bytes());
        }
    }
}

struct MemberVisitor<'a>(&'a Bytes);

impl<'de> Visitor<'de> for MemberVisitor<'_> {
    type Value = Vec<(String, Payload)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(4);
        while let Some((name, value)) = map.next_entry::<Cow<'_, str>, &RawValue>()? {
            let value = Payload::from_json(self.0.slice_ref(value.get().as_bytes()));
            members.push((name.into_owned(), value));
        }
        Ok(members)
    }
}

/// What a question says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestMeta {
    /// The version that it is written in, where it says so: then it is a modern one.
    pub protocol_version: Option<String>,
    /// What the client can do, where the question says so.
    pub capabilities: Option<Payload>,
    /// Who the client is, where the question says so.
    pub client_info: Option<Payload>,
    /// What signs of progress have to carry; absent where nobody wants them.
    pub progress_token: Option<Payload>,
    /// How much of what goes on the client wants to hear.
    pub log_level: Option<String>,
    /// Everything else.
    pub other_members: RawObject,
}

impl RequestMeta {
    /// Takes it out of a question's parameters. None where it is no object.
    pub fn take_from(params: &mut RawObject) -> Option<RequestMeta> {
        let Some(raw) = params.remove("_meta") else { return Some(RequestMeta::default()) };
        let mut rest = RawObject::parse(Some(&raw))?;
        Some(RequestMeta {
            protocol_version: rest.remove(key::VERSION).and_then(|it| it.decode().ok()),
            capabilities: rest.remove(key::CAPABILITIES),
            client_info: rest.remove(key::CLIENT_INFO),
            progress_token: rest.remove("progressToken").filter(is_progress_token),
            log_level: rest.remove(key::LOG_LEVEL).and_then(|it| it.decode().ok()),
            other_members: rest,
        })
    }

    /// Everything else, as members of another object, for a server that this is passed on to. A level is said where
    /// there is one.
    pub fn forwarded_members(&self, level: Option<&str>) -> Option<String> {
        let mut text = Vec::new();
        self.other_members.write_members(&mut text);
        if let Some(level) = level {
            if !text.is_empty() {
                text.push(b',');
            }
            text.extend_from_slice(format!("\"{}\":{}", key::LOG_LEVEL, json!(level)).as_bytes());
        }
        Some(text).filter(|it| !it.is_empty()).and_then(|it| String::from_utf8(it).ok())
    }

    /// Lets a modern question in, or says why not: it must say its version and what the client can do.
    pub fn validate_modern(&self) -> Result<(), RpcError> {
        let missing = |key: &str| invalid_params(&format!("`_meta` lacks `{key}`"));
        let version = self.protocol_version.as_deref().ok_or_else(|| missing(key::VERSION))?;
        let is_object = |it: &&Payload| it.as_bytes().starts_with(b"{");
        if self.capabilities.as_ref().filter(is_object).is_none() {
            return Err(missing(key::CAPABILITIES));
        }
        match MODERN_VERSIONS.contains(&version) {
            true => Ok(()),
            false => {
                let error = rpc_error(code::UNSUPPORTED_VERSION, "this version is not spoken here");
                Err(with_data(error, &json!({"supported": MODERN_VERSIONS, "requested": version})))
            }
        }
    }
}

fn is_progress_token(payload: &Payload) -> bool {
    payload.as_bytes().first().is_some_and(|it| matches!(it, b'"' | b'-' | b'0'..=b'9'))
}

/// Is this what a header says of the version, and is that a modern one?
pub fn has_modern_version_header(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION_HEADER).and_then(|it| it.to_str().ok());
    version.is_some_and(|it| {
        MODERN_VERSIONS.contains(&it.trim()) || !LEGACY_VERSIONS.contains(&it.trim())
    })
}

/// Is this a version of the legacy era that is spoken here?
pub fn is_legacy_version(version: &str) -> bool {
    LEGACY_VERSIONS.contains(&version)
}

/// May clients of this version send several messages at once?
pub fn supports_batches(version: &str) -> bool {
    version == BATCH_VERSION
}

/// Compares the version that a header says with what a modern question says itself.
pub fn check_version_header(headers: &HeaderMap, meta: &RequestMeta) -> Result<(), RpcError> {
    match &meta.protocol_version {
        Some(version) => check(headers, &PROTOCOL_VERSION_HEADER, version),
        None => Ok(()),
    }
}

/// Compares what headers say of a modern question with what it says itself.
pub fn check_method_headers(
    headers: &HeaderMap,
    method: &str,
    params: &RawObject,
) -> Result<(), RpcError> {
    check(headers, &METHOD_HEADER, method)?;
    match name_param(method).and_then(|it| params.get_string(it)) {
        Some(name) => check(headers, &NAME_HEADER, &name),
        None => Ok(()),
    }
}

fn check(headers: &HeaderMap, name: &HeaderName, expected: &str) -> Result<(), RpcError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().and_then(decode_header_value);
    match value.as_deref() == Some(expected) && values.next().is_none() {
        true => Ok(()),
        false => Err(header_mismatch(name)),
    }
}

/// What a header says, without what was put around it for the way.
pub(crate) fn decode_header_value(value: &HeaderValue) -> Option<String> {
    decode_header_text(value.to_str().ok()?.trim_matches([' ', '\t']))
}

/// A header and the question say different things.
pub(crate) fn header_mismatch(name: &HeaderName) -> RpcError {
    let message = format!("the header `{name}` is missing, or is not what the question says");
    rpc_error(code::HEADER_MISMATCH, &message)
}

/// The status that goes with an error to a modern question.
pub fn http_status(error: &RpcError) -> u16 {
    match error.code {
        code::METHOD_NOT_FOUND => 404,
        code::HEADER_MISMATCH
        | code::MISSING_CAPABILITY
        | code::UNSUPPORTED_VERSION
        | code::INVALID_REQUEST
        | code::PARSE => 400,
        _ => 200,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    fn payload(json: &Json) -> Payload {
        Payload::encode(json).expect("JSON")
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn members_keep_their_bytes_and_the_last_duplicate_wins() {
        let object = Payload::from_json(Bytes::from_static(br#"{"a": 1.0 ,"b":{ },"a":[2 ]}"#));
        let mut members = RawObject::parse(Some(&object)).expect("an object");
        assert_eq!(members.get("a").expect("it is there").as_bytes().as_ref(), b"[2 ]");
        assert_eq!(members.remove("a").expect("it is there").as_bytes().as_ref(), b"[2 ]");
        assert_eq!(members.to_payload().as_bytes().as_ref(), br#"{"b":{ }}"#);
        assert_eq!(RawObject::parse(Some(&payload(&json!([1])))), None);
        assert!(RawObject::parse(None).expect("nothing").is_empty());
    }

    #[test]
    fn known_meta_members_are_taken_and_the_others_are_forwarded() {
        let params = json!({"name": "t", "_meta": {
            key::VERSION: MODERN_VERSIONS[0], key::CAPABILITIES: {}, "progressToken": "p",
            key::LOG_LEVEL: "info", "traceparent": "00-1",
        }});
        let mut params = RawObject::parse(Some(&payload(&params))).expect("an object");
        let meta = RequestMeta::take_from(&mut params).expect("an object");
        assert_eq!(meta.progress_token, Some(payload(&json!("p"))));
        assert_eq!(meta.forwarded_members(None).as_deref(), Some(r#""traceparent":"00-1""#));
        let expected = format!(r#""traceparent":"00-1","{}":"info""#, key::LOG_LEVEL);
        assert_eq!(meta.forwarded_members(Some("info")), Some(expected));
        assert_eq!(meta.validate_modern(), Ok(()));
        assert_eq!(params.get("_meta"), None);
        assert_eq!(
            RequestMeta::default().validate_modern().expect_err("nothing is said").code,
            -32602
        );
        let strange = RequestMeta { protocol_version: Some("2999-01-01".to_owned()), ..meta };
        assert_eq!(strange.validate_modern().expect_err("unknown").code, -32022);
    }

    #[test]
    fn headers_must_match_the_request() {
        let params = json!({"name": "Grüße", "_meta": {key::VERSION: MODERN_VERSIONS[0]}});
        let mut params = RawObject::parse(Some(&payload(&params))).expect("an object");
        let meta = RequestMeta::take_from(&mut params).expect("an object");
        let version = ("mcp-protocol-version", MODERN_VERSIONS[0]);
        let name = ("mcp-name", "=?base64?R3LDvMOfZQ==?=");
        let check = |pairs: &[(&'static str, &'static str)]| {
            let headers = headers(pairs);
            let checked = check_version_header(&headers, &meta);
            let checked =
                checked.and_then(|()| check_method_headers(&headers, "tools/call", &params));
            checked.map_err(|it| it.code)
        };
        assert_eq!(check(&[version, ("mcp-method", "tools/call"), name]), Ok(()));
        assert_eq!(check(&[version, ("mcp-method", "TOOLS/CALL"), name]), Err(-32020));
        assert_eq!(check(&[version, name]), Err(-32020));
        assert_eq!(check(&[version, ("mcp-method", "tools/call")]), Err(-32020));
        assert_eq!(check(&[("mcp-method", "tools/call"), name]), Err(-32020));
    }
}

//! Reads the messages and answers of channels. Everything in them is untrusted. Pure.

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use switchboard_wire::jsonrpc::message::Payload;

use super::counts::ChannelDrop;

/// The largest content of a message, in bytes.
const MAX_CONTENT_BYTES: usize = 64 * 1024;
/// The largest parameters of a message, in bytes of JSON. Escapes make text longer.
const MAX_PARAMS_BYTES: usize = 8 * MAX_CONTENT_BYTES;
/// How many members of `meta` are kept.
const MAX_META_MEMBERS: usize = 32;
/// The longest name of a member, in bytes.
const MAX_META_NAME_BYTES: usize = 64;
/// The longest value of a member, in bytes.
const MAX_META_VALUE_BYTES: usize = 1024;
/// The attribute that says which channel a message is from.
const SOURCE: &str = "source";
/// The letters of a request's id. `l` is not one of them, because it looks like `1` and `I`.
pub(super) const ID_LETTERS: &[u8; 25] = b"abcdefghijkmnopqrstuvwxyz";
/// The number of letters in a request's id.
pub(super) const ID_LENGTH: usize = 5;

/// A message as the server sent it, within limits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReceivedMessage {
    pub(super) content: String,
    pub(super) meta: Vec<(String, String)>,
    /// How many members of `meta` were left out.
    pub(super) left_out: usize,
}

/// What a channel answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayVerdict {
    /// The call is allowed, once.
    Allow,
    /// The call is denied.
    Deny,
}

/// An answer to a permission request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReceivedAnswer {
    pub(super) request_id: String,
    pub(super) verdict: RelayVerdict,
}

#[derive(Deserialize)]
struct MessageParams {
    content: String,
    #[serde(default)]
    meta: Option<Map<String, Json>>,
}

#[derive(Deserialize)]
struct AnswerParams {
    request_id: String,
    behavior: String,
}

/// Reads a message.
pub(super) fn parse_message(params: Option<&Payload>) -> Result<ReceivedMessage, ChannelDrop> {
    let params = params.ok_or(ChannelDrop::WrongShape)?;
    if params.as_bytes().len() > MAX_PARAMS_BYTES {
        return Err(ChannelDrop::TooLarge);
    }
    let params: MessageParams = params.decode().map_err(|_| ChannelDrop::WrongShape)?;
    if params.content.len() > MAX_CONTENT_BYTES {
        return Err(ChannelDrop::TooLarge);
    }
    let members = params.meta.unwrap_or_default();
    let all = members.len();
    let meta: Vec<(String, String)> =
        members.into_iter().filter_map(attribute).take(MAX_META_MEMBERS).collect();
    let left_out = all - meta.len();
    Ok(ReceivedMessage { content: params.content, meta, left_out })
}

/// A member of `meta` that becomes an attribute. `source` does not: it says where the message is from.
fn attribute((name, value): (String, Json)) -> Option<(String, String)> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = !name.is_empty()
        && name.len() <= MAX_META_NAME_BYTES
        && name.bytes().all(is_letter)
        && !name.eq_ignore_ascii_case(SOURCE);
    let value = match value {
        Json::String(text) => text,
        Json::Number(number) => number.to_string(),
        Json::Bool(value) => value.to_string(),
        Json::Null | Json::Array(_) | Json::Object(_) => return None,
    };
    (is_name && value.len() <= MAX_META_VALUE_BYTES).then_some((name, value))
}

/// Reads an answer.
pub(super) fn parse_answer(params: Option<&Payload>) -> Result<ReceivedAnswer, ChannelDrop> {
    let params = params.filter(|it| it.as_bytes().len() <= MAX_PARAMS_BYTES);
    let params = params.and_then(|it| it.decode::<AnswerParams>().ok());
    let AnswerParams { request_id, behavior } = params.ok_or(ChannelDrop::WrongShape)?;
    let is_id =
        request_id.len() == ID_LENGTH && request_id.bytes().all(|it| ID_LETTERS.contains(&it));
    let verdict = match behavior.as_str() {
        "allow" if is_id => RelayVerdict::Allow,
        "deny" if is_id => RelayVerdict::Deny,
        _ => return Err(ChannelDrop::WrongShape),
    };
    Ok(ReceivedAnswer { request_id, verdict })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(params: &Json) -> Result<ReceivedMessage, ChannelDrop> {
        parse_message(Some(&Payload::encode(params).expect("JSON")))
    }

    fn answer(params: &Json) -> Result<ReceivedAnswer, ChannelDrop> {
        parse_answer(Some(&Payload::encode(params).expect("JSON")))
    }

    #[test]
    fn a_message_is_a_text_with_attributes() {
        let params = json!({"content": "hi", "meta": {"user": "ann", "n": 3, "is_bot": false}});
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let meta = [("user", "ann"), ("n", "3"), ("is_bot", "false")].map(owned).to_vec();
        let expected = ReceivedMessage { content: "hi".to_owned(), meta, left_out: 0 };
        assert_eq!(message(&params), Ok(expected));
        let plain = ReceivedMessage { content: String::new(), meta: Vec::new(), left_out: 0 };
        assert_eq!(message(&json!({"content": ""})), Ok(plain));
        assert!(message(&json!({"content": "x", "meta": null, "more": 1})).is_ok());
    }

    #[test]
    fn members_that_are_no_attributes_are_left_out() {
        let names = ["", "a b", "a\"b", "é", "a>b", "on-click", "source", "Source", "x=y"];
        let mut meta: Map<String, Json> =
            names.map(|name| (name.to_owned(), "v".into())).into_iter().collect();
        meta.insert("list".to_owned(), json!(["v"]));
        meta.insert("long".to_owned(), "v".repeat(2000).into());
        meta.insert("n".repeat(65), "v".into());
        meta.insert("kept".to_owned(), "v".into());
        let read = message(&json!({"content": "x", "meta": meta})).expect("a message");
        assert_eq!(read.meta, [("kept".to_owned(), "v".to_owned())]);
        assert_eq!(read.left_out, names.len() + 3);
        let many: Map<String, Json> = (0..100).map(|n| (format!("k{n}"), "v".into())).collect();
        let read = message(&json!({"content": "x", "meta": many})).expect("a message");
        assert_eq!((read.meta.len(), read.left_out), (32, 68));
    }

    #[test]
    fn other_shapes_and_too_large_ones_are_dropped() {
        for wrong in [
            json!({}),
            json!([]),
            json!("x"),
            json!({"content": 3}),
            json!({"content": "x", "meta": 3}),
        ] {
            assert_eq!(message(&wrong), Err(ChannelDrop::WrongShape), "{wrong}");
        }
        assert_eq!(parse_message(None), Err(ChannelDrop::WrongShape));
        assert!(message(&json!({"content": "x".repeat(MAX_CONTENT_BYTES)})).is_ok());
        let large = json!({"content": "x".repeat(MAX_CONTENT_BYTES + 1)});
        assert_eq!(message(&large), Err(ChannelDrop::TooLarge));
        let huge = json!({"content": "x", "other": "y".repeat(MAX_PARAMS_BYTES)});
        assert_eq!(message(&huge), Err(ChannelDrop::TooLarge));
    }

    #[test]
    fn an_answer_names_a_request_by_its_five_letters() {
        let allow = ReceivedAnswer { request_id: "abcde".to_owned(), verdict: RelayVerdict::Allow };
        assert_eq!(answer(&json!({"request_id": "abcde", "behavior": "allow"})), Ok(allow));
        for (id, behavior) in [
            ("abcde", "always"),
            ("abcde", ""),
            ("abcdl", "allow"),
            ("ABCDE", "allow"),
            ("abcd", "allow"),
            ("abcdef", "deny"),
            ("", "deny"),
            ("*", "allow"),
        ] {
            let wrong = json!({"request_id": id, "behavior": behavior});
            assert_eq!(answer(&wrong), Err(ChannelDrop::WrongShape), "{wrong}");
        }
        assert_eq!(answer(&json!({"behavior": "allow"})), Err(ChannelDrop::WrongShape));
        assert_eq!(parse_answer(None), Err(ChannelDrop::WrongShape));
    }
}

//! The members of messages that name other messages. A program that forwards messages of several clients over one
//! connection replaces them, because each client chooses its own.

use super::meta_key;
use crate::jsonrpc::message::RequestId;
use crate::jsonrpc::payload::{LazyFinder, Payload};
use crate::jsonrpc::raw_object::RawObject;

const META: &str = "_meta";
const PROGRESS_TOKEN: &str = "progressToken";

/// Most requests have no token, and need no decoding.
static TOKEN_FINDER: LazyFinder =
    LazyFinder::new(|| memchr::memmem::Finder::new(PROGRESS_TOKEN.as_bytes()));
static SUBSCRIPTION_FINDER: LazyFinder =
    LazyFinder::new(|| memchr::memmem::Finder::new(meta_key::SUBSCRIPTION_ID.as_bytes()));

/// Replaces the progress token of a request. Returns the new parameters and the old token, or `None` if the request
/// has no token.
pub fn replace_progress_token(params: &Payload, token: u64) -> Option<(Payload, Payload)> {
    if !params.contains(&TOKEN_FINDER) {
        return None;
    }
    replace_meta_member(params, PROGRESS_TOKEN, &RequestId::Number(token))
}

/// The token of a progress notification, if it is a number. Some servers return a number as a string.
pub fn progress_token(params: &Payload) -> Option<u64> {
    let token = RawObject::parse(Some(params))?.get(PROGRESS_TOKEN)?.clone();
    let text = std::str::from_utf8(token.as_bytes()).ok()?;
    text.trim_matches('"').parse().ok()
}

/// The parameters of a progress notification with another token.
pub fn with_progress_token(params: &Payload, token: Payload) -> Option<Payload> {
    let mut members = RawObject::parse(Some(params))?;
    members.insert(PROGRESS_TOKEN, token);
    Some(members.to_payload())
}

/// The request whose subscription a notification or a result belongs to.
pub fn subscription_id(params: &Payload) -> Option<RequestId> {
    if !params.contains(&SUBSCRIPTION_FINDER) {
        return None;
    }
    let meta = RawObject::parse(Some(params))?.get(META)?.clone();
    let id = RawObject::parse(Some(&meta))?.get(meta_key::SUBSCRIPTION_ID)?.decode().ok()?;
    Some(RequestId::from_json(&id))
}

/// Replaces the subscription of a notification or a result; unchanged if it names none.
pub fn with_subscription_id(params: &Payload, id: &RequestId) -> Payload {
    replace_meta_member(params, meta_key::SUBSCRIPTION_ID, id)
        .map_or_else(|| params.clone(), |replaced| replaced.0)
}

/// Replaces a member of `_meta`. Returns the new parameters and the old value, if there was one.
fn replace_meta_member(
    params: &Payload,
    name: &str,
    value: &RequestId,
) -> Option<(Payload, Payload)> {
    let mut members = RawObject::parse(Some(params))?;
    let mut meta = RawObject::parse(Some(members.get(META)?))?;
    let old = meta.get(name)?.clone();
    meta.insert(name, Payload::from_json(value.to_json().to_string().into()));
    members.insert(META, meta.to_payload());
    Some((members.to_payload(), old))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payload(json: &serde_json::Value) -> Payload {
        Payload::encode(json).expect("JSON")
    }

    #[test]
    fn the_token_of_a_request_is_replaced_and_returned() {
        let params = payload(&json!({"name": "t", "_meta": {"a": 1, "progressToken": "mine"}}));
        let (replaced, old) = replace_progress_token(&params, 7).expect("there is a token");
        let expected = json!({"name": "t", "_meta": {"a": 1, "progressToken": 7}});
        assert_eq!((replaced, old), (payload(&expected), payload(&json!("mine"))));
        for without in [json!({"progressToken": 1}), json!({"_meta": {}}), json!([1])] {
            assert_eq!(replace_progress_token(&payload(&without), 7), None, "{without}");
        }
    }

    #[test]
    fn the_token_of_a_notification_is_read_and_replaced() {
        for token in [json!(7), json!("7")] {
            let params = payload(&json!({"progressToken": token, "progress": 1}));
            assert_eq!(progress_token(&params), Some(7));
            let replaced = with_progress_token(&params, payload(&json!("mine")));
            assert_eq!(replaced, Some(payload(&json!({"progressToken": "mine", "progress": 1}))));
        }
        assert_eq!(progress_token(&payload(&json!({"progressToken": "other"}))), None);
    }

    #[test]
    fn the_subscription_of_a_notification_is_read_and_replaced() {
        let params = payload(&json!({"uri": "u", "_meta": {meta_key::SUBSCRIPTION_ID: 5}}));
        assert_eq!(subscription_id(&params), Some(RequestId::Number(5)));
        let id = RequestId::Other("\"listen\"".into());
        let replaced =
            payload(&json!({"uri": "u", "_meta": {meta_key::SUBSCRIPTION_ID: "listen"}}));
        assert_eq!(with_subscription_id(&params, &id), replaced);
        let other = payload(&json!({"uri": "u"}));
        assert_eq!((subscription_id(&other), with_subscription_id(&other, &id)), (None, other));
    }
}

//! Results and errors as the modern era wants them, whatever era they come from. What is there already stays.

use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::protocol::request_meta::RawObject;

/// What a legacy server answers for a resource that it does not have; the modern era counts that among the parameters.
const RESOURCE_NOT_FOUND: i64 = -32002;
const INVALID_PARAMS: i64 = -32602;

/// A result with what is missing put in front.
pub(super) fn to_modern_result(method: &str, result: Payload) -> Payload {
    let bytes = result.as_bytes();
    // Looking for the word first keeps large results unread; it may also stand somewhere inside.
    let has = |name: &str| {
        memchr::memmem::find(bytes, name.as_bytes()).is_some()
            && RawObject::parse(Some(&result)).is_some_and(|it| it.get(name).is_some())
    };
    let mut missing = Vec::new();
    if !has("resultType") {
        missing.extend_from_slice(br#""resultType":"complete","#);
    }
    let is_cacheable = method == "resources/read" || method.ends_with("/list");
    if is_cacheable && !has("ttlMs") {
        missing.extend_from_slice(br#""ttlMs":0,"cacheScope":"private","#);
    }
    let Some(rest) = bytes.strip_prefix(b"{").filter(|_| !missing.is_empty()) else {
        return result;
    };
    if rest.trim_ascii_start().starts_with(b"}") {
        missing.pop();
    }
    let mut text = Vec::with_capacity(bytes.len() + missing.len());
    text.push(b'{');
    text.extend_from_slice(&missing);
    text.extend_from_slice(rest);
    Payload::from_json(text.into())
}

/// An error with the code that the era has for it.
pub(super) fn to_modern_error(error: RpcError) -> RpcError {
    match error.code {
        RESOURCE_NOT_FOUND => RpcError { code: INVALID_PARAMS, ..error },
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[track_caller]
    fn check(method: &str, result: &Json, expected: &Json) {
        let adapted = to_modern_result(method, Payload::encode(result).expect("JSON"));
        assert_eq!(adapted.decode::<Json>().expect("JSON"), *expected);
    }

    #[test]
    fn a_legacy_result_gets_what_it_lacks_and_a_modern_one_stays() {
        check("tools/call", &json!({}), &json!({"resultType": "complete"}));
        check("tools/call", &json!({"a": 1}), &json!({"resultType": "complete", "a": 1}));
        let read =
            json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "contents": []});
        check("resources/read", &json!({"contents": []}), &read);
        let nested_result = json!({"structuredContent": {"resultType": "x"}});
        let adapted = json!({"resultType": "complete", "structuredContent": {"resultType": "x"}});
        check("tools/call", &nested_result, &adapted);
        let modern_task = json!({"resultType": "task", "taskId": "x", "ttlMs": 5});
        check("tools/call", &modern_task, &modern_task);
    }
}

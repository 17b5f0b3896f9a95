//! Adapts results and errors of legacy servers to the modern era. Members that are present stay as they are.

use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::protocol::request_meta::RawObject;

use crate::method::Method;

/// The legacy error code for a missing resource. The modern era uses the code for invalid parameters.
const RESOURCE_NOT_FOUND: i64 = -32002;
const INVALID_PARAMS: i64 = -32602;

/// Inserts the members that the modern era requires and the result lacks.
pub(super) fn to_modern_result(method: &Method, result: Payload) -> Payload {
    let bytes = result.as_bytes();
    // The search skips parsing of most large results. The name may also occur in nested members.
    let has = |name: &str| {
        memchr::memmem::find(bytes, name.as_bytes()).is_some()
            && RawObject::parse(Some(&result)).is_some_and(|it| it.get(name).is_some())
    };
    let mut missing = Vec::new();
    if !has("resultType") {
        missing.extend_from_slice(br#""resultType":"complete","#);
    }
    if method.is_cacheable() && !has("ttlMs") {
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

/// An error with the code of the modern era.
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
    fn check(method: &'static str, result: &Json, expected: &Json) {
        let adapted =
            to_modern_result(&Method::parse(method.into()), Payload::encode(result).expect("JSON"));
        assert_eq!(adapted.decode::<Json>().expect("JSON"), *expected);
    }

    #[test]
    fn a_legacy_result_gets_missing_members_and_a_modern_result_stays() {
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

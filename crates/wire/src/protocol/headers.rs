//! HTTP headers that repeat parts of a modern request: names, value encoding, and comparison with the body.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::era::{LEGACY_VERSIONS, MODERN_VERSIONS};
use super::errors::{code, rpc_error};
use crate::jsonrpc::message::RpcError;
use crate::jsonrpc::raw_object::RawObject;

pub(crate) const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) const PROTOCOL_VERSION_HEADER: HeaderName =
    HeaderName::from_static("mcp-protocol-version");

/// Which of a method's parameters says what it is about.
pub(crate) fn name_param(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// The text that a header's value stands for. None where it is wrapped and cannot be unwrapped.
pub(crate) fn decode_header_text(value: &str) -> Option<String> {
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match inner {
        None => Some(value.to_owned()),
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok(),
    }
}

/// A text as the value of a header: as it is where it can travel so, else wrapped.
pub(crate) fn encode_header_value(text: &str) -> HeaderValue {
    let bytes = text.as_bytes();
    let is_padded = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    let is_printable = bytes.iter().all(|byte| matches!(byte, 0x20..=0x7e));
    let is_sent_as_is =
        is_printable && !is_padded(bytes.first()) && !is_padded(bytes.last()) && !looks_encoded;
    let encoded = || format!("=?base64?{}?=", BASE64_STANDARD.encode(text));
    let value = if is_sent_as_is { text.to_owned() } else { encoded() };
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""))
}

/// Is this what a header says of the version, and is that a modern one?
pub fn has_modern_version_header(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION_HEADER).and_then(|it| it.to_str().ok());
    version.is_some_and(|it| {
        MODERN_VERSIONS.contains(&it.trim()) || !LEGACY_VERSIONS.contains(&it.trim())
    })
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

pub(super) fn check(
    headers: &HeaderMap,
    name: &HeaderName,
    expected: &str,
) -> Result<(), RpcError> {
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

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

/// The parameter of a method that names its object, repeated in `Mcp-Name`.
pub(crate) fn name_param(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Decodes a header value that may be base64-encoded. Returns `None` if the encoding is invalid.
pub(crate) fn decode_header_text(value: &str) -> Option<String> {
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match inner {
        None => Some(value.to_owned()),
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok(),
    }
}

/// Encodes a text as a header value: unchanged if it is printable ASCII without surrounding blanks, else in base64.
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

/// Whether the version header names a modern version, or one that is not known as legacy.
pub fn has_modern_version_header(headers: &HeaderMap) -> bool {
    let version = headers.get(PROTOCOL_VERSION_HEADER).and_then(|it| it.to_str().ok());
    version.is_some_and(|it| {
        MODERN_VERSIONS.contains(&it.trim()) || !LEGACY_VERSIONS.contains(&it.trim())
    })
}

/// Checks that the method and name headers of a modern request match its body.
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

/// Decodes a header value, without surrounding blanks.
pub(crate) fn decode_header_value(value: &HeaderValue) -> Option<String> {
    decode_header_text(value.to_str().ok()?.trim_matches([' ', '\t']))
}

/// The error for a header that does not match the body.
pub(crate) fn header_mismatch(name: &HeaderName) -> RpcError {
    let message = format!("the header `{name}` is missing or does not match the request");
    rpc_error(code::HEADER_MISMATCH, &message)
}

//! Checks the headers that repeat parts of a modern request's body.

use serde_json::Value;

use super::super::http_state::HttpRequest;
use crate::scripted::protocol;
use crate::scripted::protocol::RpcError;
use crate::scripted::tools;

/// Checks all headers.
pub fn check(http_request: &HttpRequest, method: &str, params: &Value) -> Result<(), RpcError> {
    check_header(http_request, "mcp-protocol-version", protocol::request_version(params))?;
    check_header(http_request, "mcp-method", Some(method))?;
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ => None,
    };
    if name.is_some() {
        check_header(http_request, "mcp-name", name)?;
    }
    if method == "tools/call"
        && let Some((header, value)) = tools::param_header(params)
    {
        check_header(http_request, header, value.as_deref())?;
    }
    Ok(())
}

/// A header must match the body, and occur exactly once if the body has the value.
fn check_header(
    http_request: &HttpRequest,
    header: &str,
    expected: Option<&str>,
) -> Result<(), RpcError> {
    let mut values = http_request.parts.headers.get_all(header).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(RpcError::header_mismatch(format!(
            "the header `{header}` occurs more than once"
        )));
    }
    let received = value.map(|it| decode_value(&String::from_utf8_lossy(it.as_bytes())));
    match (received, expected) {
        // A body without a version is rejected by the rules of the era instead.
        (None, None) => Ok(()),
        (Some(_), None) if header == "mcp-protocol-version" => Ok(()),
        (Some(Some(received)), Some(expected)) if received == expected => Ok(()),
        (None, Some(_)) => {
            Err(RpcError::header_mismatch(format!("the header `{header}` is missing")))
        }
        (Some(_), Some(_) | None) => {
            Err(RpcError::header_mismatch(format!("the header `{header}` does not match the body")))
        }
    }
}

/// Decodes a header value: `=?base64?…?=` encodes any text.
fn decode_value(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|it| it.strip_suffix("?=")) {
        None => Some(value.to_owned()),
        Some(encoded) => String::from_utf8(decode_base64(encoded)?).ok(),
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for character in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|&it| it == character)?;
        bits = (bits << 6) | u32::try_from(value).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_header_values_are_decoded() {
        assert_eq!(decode_value("plain"), Some("plain".to_owned()));
        assert_eq!(decode_value("=?base64?w6nDqQ==?="), Some("éé".to_owned()));
        assert_eq!(decode_value("=?base64?aGFsbG8=?="), Some("hallo".to_owned()));
        assert_eq!(decode_value("=?base64?!?="), None);
    }
}

//! The `_meta` object of a request, as a server receives it: known members are decoded, the others are forwarded as
//! bytes.

use http::HeaderMap;
use serde_json::json;

use super::era::MODERN_VERSIONS;
use super::errors::{code, invalid_params, rpc_error, with_data};
use super::headers::{PROTOCOL_VERSION_HEADER, check};
use super::meta_key;
use crate::jsonrpc::message::{Payload, RpcError};

pub use super::era::{is_legacy_version, supports_batches, supports_priming_event};
pub use super::errors::http_status;
pub use super::headers::{check_method_headers, has_modern_version_header};
pub use crate::jsonrpc::raw_object::RawObject;

/// The metadata of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestMeta {
    /// The protocol version. A request that has one is a modern request.
    pub protocol_version: Option<String>,
    /// The client capabilities.
    pub capabilities: Option<Payload>,
    /// The description of the client.
    pub client_info: Option<Payload>,
    /// The token that progress notifications carry; absent if the client wants none.
    pub progress_token: Option<Payload>,
    /// The lowest level of log messages that the client wants.
    pub log_level: Option<String>,
    /// All other members.
    pub other_members: RawObject,
}

impl RequestMeta {
    /// Takes `_meta` out of the parameters. Returns `None` if it is not an object.
    pub fn take_from(params: &mut RawObject) -> Option<RequestMeta> {
        let Some(raw) = params.remove("_meta") else { return Some(RequestMeta::default()) };
        let mut rest = RawObject::parse(Some(&raw))?;
        Some(RequestMeta {
            protocol_version: rest.remove(meta_key::VERSION).and_then(|it| it.decode().ok()),
            capabilities: rest.remove(meta_key::CAPABILITIES),
            client_info: rest.remove(meta_key::CLIENT_INFO),
            progress_token: rest.remove("progressToken").filter(is_progress_token),
            log_level: rest.remove(meta_key::LOG_LEVEL).and_then(|it| it.decode().ok()),
            other_members: rest,
        })
    }

    /// The other members for a request to another server, as JSON without the braces, with the given log level.
    pub fn forwarded_members(&self, level: Option<&str>) -> Option<String> {
        let mut text = Vec::new();
        self.other_members.write_members(&mut text);
        if let Some(level) = level {
            if !text.is_empty() {
                text.push(b',');
            }
            text.extend_from_slice(
                format!("\"{}\":{}", meta_key::LOG_LEVEL, json!(level)).as_bytes(),
            );
        }
        Some(text).filter(|it| !it.is_empty()).and_then(|it| String::from_utf8(it).ok())
    }

    /// Checks that a modern request has a supported version and client capabilities.
    pub fn validate_modern(&self) -> Result<(), RpcError> {
        let missing = |key: &str| invalid_params(&format!("`_meta` lacks `{key}`"));
        let version = self.protocol_version.as_deref().ok_or_else(|| missing(meta_key::VERSION))?;
        let is_object = |it: &&Payload| it.as_bytes().starts_with(b"{");
        if self.capabilities.as_ref().filter(is_object).is_none() {
            return Err(missing(meta_key::CAPABILITIES));
        }
        match MODERN_VERSIONS.contains(&version) {
            true => Ok(()),
            false => {
                let error =
                    rpc_error(code::UNSUPPORTED_VERSION, "this protocol version is not supported");
                Err(with_data(error, &json!({"supported": MODERN_VERSIONS, "requested": version})))
            }
        }
    }
}

fn is_progress_token(payload: &Payload) -> bool {
    payload.as_bytes().first().is_some_and(|it| matches!(it, b'"' | b'-' | b'0'..=b'9'))
}

/// Checks that the version header of a modern request matches its `_meta`.
pub fn check_version_header(headers: &HeaderMap, meta: &RequestMeta) -> Result<(), RpcError> {
    match &meta.protocol_version {
        Some(version) => check(headers, &PROTOCOL_VERSION_HEADER, version),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
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
    fn known_meta_members_are_taken_and_the_others_are_forwarded() {
        let params = json!({"name": "t", "_meta": {
            meta_key::VERSION: MODERN_VERSIONS[0], meta_key::CAPABILITIES: {}, "progressToken": "p",
            meta_key::LOG_LEVEL: "info", "traceparent": "00-1",
        }});
        let mut params = RawObject::parse(Some(&payload(&params))).expect("an object");
        let meta = RequestMeta::take_from(&mut params).expect("an object");
        assert_eq!(meta.progress_token, Some(payload(&json!("p"))));
        assert_eq!(meta.forwarded_members(None).as_deref(), Some(r#""traceparent":"00-1""#));
        let expected = format!(r#""traceparent":"00-1","{}":"info""#, meta_key::LOG_LEVEL);
        assert_eq!(meta.forwarded_members(Some("info")), Some(expected));
        assert_eq!(meta.validate_modern(), Ok(()));
        assert_eq!(params.get("_meta"), None);
        assert_eq!(
            RequestMeta::default().validate_modern().expect_err("the version is missing").code,
            -32602
        );
        let strange = RequestMeta { protocol_version: Some("2999-01-01".to_owned()), ..meta };
        assert_eq!(strange.validate_modern().expect_err("unknown").code, -32022);
    }

    #[test]
    fn headers_must_match_the_request() {
        let params = json!({"name": "Grüße", "_meta": {meta_key::VERSION: MODERN_VERSIONS[0]}});
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

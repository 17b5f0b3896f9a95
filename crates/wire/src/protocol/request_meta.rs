//! A question as a server gets it, read only as far as somebody must know: its parameters member by member, and what
//! it says of itself in `_meta`. Values stay the bytes that came.

use http::HeaderMap;
use serde_json::json;

use super::era::MODERN_VERSIONS;
use super::errors::{code, invalid_params, rpc_error, with_data};
use super::headers::{PROTOCOL_VERSION_HEADER, check};
use super::meta_key;
use crate::jsonrpc::message::{Payload, RpcError};

pub use super::era::{is_legacy_version, supports_batches};
pub use super::errors::http_status;
pub use super::headers::{check_method_headers, has_modern_version_header};
pub use crate::jsonrpc::raw_object::RawObject;

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
            protocol_version: rest.remove(meta_key::VERSION).and_then(|it| it.decode().ok()),
            capabilities: rest.remove(meta_key::CAPABILITIES),
            client_info: rest.remove(meta_key::CLIENT_INFO),
            progress_token: rest.remove("progressToken").filter(is_progress_token),
            log_level: rest.remove(meta_key::LOG_LEVEL).and_then(|it| it.decode().ok()),
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
            text.extend_from_slice(
                format!("\"{}\":{}", meta_key::LOG_LEVEL, json!(level)).as_bytes(),
            );
        }
        Some(text).filter(|it| !it.is_empty()).and_then(|it| String::from_utf8(it).ok())
    }

    /// Lets a modern question in, or says why not: it must say its version and what the client can do.
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
                let error = rpc_error(code::UNSUPPORTED_VERSION, "this version is not spoken here");
                Err(with_data(error, &json!({"supported": MODERN_VERSIONS, "requested": version})))
            }
        }
    }
}

fn is_progress_token(payload: &Payload) -> bool {
    payload.as_bytes().first().is_some_and(|it| matches!(it, b'"' | b'-' | b'0'..=b'9'))
}

/// Compares the version that a header says with what a modern question says itself.
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
            RequestMeta::default().validate_modern().expect_err("nothing is said").code,
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

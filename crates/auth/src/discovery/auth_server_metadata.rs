//! Authorization server metadata (RFC 8414, OpenID Connect Discovery), parsed and checked.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

use crate::fetch::origin_guard::{CheckedUrl, OriginGuard, UrlError};
use crate::scopes::Scopes;
use crate::untrusted_text::sanitize_for_display;

/// The metadata of an authorization server. Endpoints are checked when the document is parsed, and again when
/// they are used, because the record may come from disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthServerMetadata {
    /// The issuer identifier, unchanged.
    pub issuer: String,
    /// The authorization endpoint.
    pub authorization_endpoint: Option<String>,
    /// The token endpoint.
    pub token_endpoint: String,
    /// The registration endpoint (RFC 7591).
    pub registration_endpoint: Option<String>,
    /// The device authorization endpoint (RFC 8628).
    pub device_authorization_endpoint: Option<String>,
    /// The revocation endpoint (RFC 7009).
    pub revocation_endpoint: Option<String>,
    /// The supported scopes.
    pub scopes_supported: Option<Scopes>,
    /// The supported client authentication methods.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Whether a client ID may be the URL of a client metadata document.
    #[serde(default)]
    pub client_id_metadata_document_supported: bool,
    /// Whether authorization responses contain `iss` (RFC 9207).
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
    /// The supported algorithms of DPoP proofs.
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// The supported PKCE methods.
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// The supported grant types.
    #[serde(default)]
    pub grant_types_supported: Option<Vec<String>>,
}

impl AuthServerMetadata {
    /// Whether it issues tokens to clients but not to users.
    pub fn is_client_credentials_only(&self) -> bool {
        let grants = self.grant_types_supported.as_deref().unwrap_or_default();
        let has = |name: &str| grants.iter().any(|it| it == name);
        has("client_credentials") && !has("authorization_code")
    }
}

/// Why authorization server metadata is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthServerMetadataError {
    /// The document is not authorization server metadata.
    #[error("it is not authorization server metadata")]
    Malformed,
    /// The document belongs to another issuer.
    #[error("it belongs to `{0}`")]
    WrongIssuer(String),
    /// An endpoint URL is refused.
    #[error("its {name} is refused")]
    Endpoint {
        /// The name of the endpoint.
        name: &'static str,
        /// Why the URL is refused.
        #[source]
        source: UrlError,
    },
    /// PKCE with `S256` is not supported.
    #[error("it does not support PKCE with S256")]
    NoPkceS256,
}

/// The issuer that a document must name.
#[derive(Debug, Clone, Copy)]
pub enum ExpectedIssuer<'a> {
    /// Exactly this issuer.
    Exactly(&'a str),
    /// Any issuer: the user configured the URL, or it is the default location of protocol version 2025-03-26.
    Any,
}

/// Parses and checks a metadata document.
pub fn parse_auth_server_metadata(
    body: &[u8],
    expected: ExpectedIssuer<'_>,
    guard: &OriginGuard,
) -> Result<AuthServerMetadata, AuthServerMetadataError> {
    let mut metadata: AuthServerMetadata =
        serde_json::from_slice(body).map_err(|_| AuthServerMetadataError::Malformed)?;
    match expected {
        ExpectedIssuer::Exactly(issuer) if !is_same_issuer(issuer, &metadata.issuer) => {
            return Err(AuthServerMetadataError::WrongIssuer(sanitize_for_display(
                &metadata.issuer,
            )));
        }
        ExpectedIssuer::Exactly(_) | ExpectedIssuer::Any => {}
    }
    let methods = metadata.code_challenge_methods_supported.as_deref();
    if methods.is_some_and(|methods| !methods.iter().any(|method| method == "S256")) {
        return Err(AuthServerMetadataError::NoPkceS256);
    }
    metadata.token_endpoint(guard)?;
    if metadata.authorization_endpoint.is_some() {
        metadata.authorization_endpoint(guard)?;
    }
    // Optional endpoints: drop those that are refused.
    for endpoint in [
        &mut metadata.registration_endpoint,
        &mut metadata.device_authorization_endpoint,
        &mut metadata.revocation_endpoint,
    ] {
        *endpoint = endpoint.take().filter(|text| guard.check(text).is_ok());
    }
    metadata.scopes_supported = metadata.scopes_supported.map(|raw| Scopes::new(raw.iter()));
    Ok(metadata)
}

/// Compares issuers exactly, except for a trailing slash.
pub(crate) fn is_same_issuer(one: &str, other: &str) -> bool {
    let bare = |text: &str| text.strip_suffix('/').unwrap_or(text).to_owned();
    one == other || bare(one) == bare(other)
}

impl AuthServerMetadata {
    /// The endpoints to assume without a metadata document, as protocol version 2025-03-26 defines them.
    pub fn legacy_fallback(base: &Url) -> AuthServerMetadata {
        let at = |path: &str| base.join(path).map_or_else(|_| String::new(), String::from);
        AuthServerMetadata {
            issuer: base.as_str().trim_end_matches('/').to_owned(),
            authorization_endpoint: Some(at("/authorize")),
            token_endpoint: at("/token"),
            registration_endpoint: Some(at("/register")),
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: None,
            token_endpoint_auth_methods_supported: None,
            client_id_metadata_document_supported: false,
            authorization_response_iss_parameter_supported: false,
            dpop_signing_alg_values_supported: None,
            code_challenge_methods_supported: None,
            grant_types_supported: None,
        }
    }

    /// The checked token endpoint.
    pub fn token_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("token endpoint", Some(&self.token_endpoint), guard)
    }

    /// The checked authorization endpoint.
    pub fn authorization_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("authorization endpoint", self.authorization_endpoint.as_deref(), guard)
    }

    /// The checked registration endpoint.
    pub fn registration_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("registration endpoint", self.registration_endpoint.as_deref(), guard)
    }

    /// The checked device authorization endpoint.
    pub fn device_authorization_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("device endpoint", self.device_authorization_endpoint.as_deref(), guard)
    }

    /// The checked revocation endpoint.
    pub fn revocation_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("revocation endpoint", self.revocation_endpoint.as_deref(), guard)
    }

    /// Whether it accepts DPoP proofs signed with ES256, as ours are.
    pub fn supports_dpop(&self) -> bool {
        let offered = self.dpop_signing_alg_values_supported.as_deref().unwrap_or_default();
        offered.iter().any(|algorithm| algorithm == "ES256")
    }
}

fn checked_endpoint(
    name: &'static str,
    text: Option<&str>,
    guard: &OriginGuard,
) -> Result<CheckedUrl, AuthServerMetadataError> {
    let text = text.unwrap_or_default();
    guard.check(text).map_err(|source| AuthServerMetadataError::Endpoint { name, source })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn guard() -> OriginGuard {
        OriginGuard::new(&Url::parse("https://mcp.example.com/").expect("a URL"), &[])
    }

    fn check(issuer: &str, change: Value) -> Result<AuthServerMetadata, AuthServerMetadataError> {
        let mut document = json!({
            "issuer": "https://as.example.com",
            "authorization_endpoint": "https://as.example.com/authorize",
            "token_endpoint": "https://as.example.com/token",
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        let map = document.as_object_mut().expect("an object");
        for (key, value) in change.as_object().expect("an object") {
            map.insert(key.clone(), value.clone());
        }
        parse_auth_server_metadata(
            document.to_string().as_bytes(),
            ExpectedIssuer::Exactly(issuer),
            &guard(),
        )
    }

    #[test]
    fn the_issuer_must_be_the_expected_one() {
        assert!(check("https://as.example.com", json!({})).is_ok());
        assert!(check("https://as.example.com/", json!({})).is_ok());
        for issuer in
            ["https://evil.example", "https://as.example.com/x", "http://as.example.com", ""]
        {
            let error = AuthServerMetadataError::WrongIssuer("https://as.example.com".to_owned());
            assert_eq!(check(issuer, json!({})), Err(error), "{issuer}");
        }
    }

    #[test]
    fn hostile_endpoints_are_refused_or_dropped() {
        for (text, source) in [
            ("javascript:alert(1)", UrlError::Scheme),
            ("file:///bin/sh", UrlError::Scheme),
            ("$(calc)", UrlError::Malformed),
            ("--flag", UrlError::Malformed),
            ("https://as.example.com/\n", UrlError::Malformed),
            ("http://as.example.com/", UrlError::Unencrypted),
            ("https://169.254.169.254/", UrlError::PrivateAddress),
        ] {
            for (key, name) in [
                ("token_endpoint", "token endpoint"),
                ("authorization_endpoint", "authorization endpoint"),
            ] {
                let read = check("https://as.example.com", json!({ key: text }));
                assert_eq!(read, Err(AuthServerMetadataError::Endpoint { name, source }), "{text}");
            }
            let change = json!({ "registration_endpoint": text, "revocation_endpoint": text });
            let read = check("https://as.example.com", change).expect("the rest is good");
            assert_eq!((read.registration_endpoint, read.revocation_endpoint), (None, None));
        }
    }

    #[test]
    fn announced_pkce_methods_must_include_s256() {
        let with = |methods: Value| {
            check("https://as.example.com", json!({ "code_challenge_methods_supported": methods }))
        };
        assert!(with(Value::Null).is_ok() && with(json!(["S256"])).is_ok());
        assert_eq!(with(json!(["plain"])), Err(AuthServerMetadataError::NoPkceS256));
        assert_eq!(with(json!([])), Err(AuthServerMetadataError::NoPkceS256));
    }

    #[test]
    fn other_documents_are_not_metadata() {
        let read = |body: &[u8]| parse_auth_server_metadata(body, ExpectedIssuer::Any, &guard());
        for body in [&b""[..], b"null", b"{}", b"{\"issuer\":\"x\"}", b"<html>", b"\xff"] {
            assert_eq!(read(body), Err(AuthServerMetadataError::Malformed));
        }
    }

    #[test]
    fn without_a_document_there_are_three_endpoints_at_the_root() {
        let assumed = AuthServerMetadata::legacy_fallback(
            &Url::parse("https://mcp.example.com/").expect("one"),
        );
        assert_eq!(assumed.issuer, "https://mcp.example.com");
        assert_eq!(assumed.token_endpoint, "https://mcp.example.com/token");
        assert_eq!(
            (assumed.authorization_endpoint.as_deref(), assumed.registration_endpoint.as_deref()),
            (Some("https://mcp.example.com/authorize"), Some("https://mcp.example.com/register"))
        );
    }
}

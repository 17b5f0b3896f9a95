//! What an authorization server says about itself (RFC 8414, OpenID Connect Discovery), checked.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

use crate::fetch::origin_guard::{CheckedUrl, OriginGuard, UrlError};
use crate::scopes::Scopes;
use crate::untrusted_text::sanitize_for_display;

/// An authorization server's metadata. Every endpoint was checked when it was read, and is checked again when
/// it is used, because it may have lain on a disk since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthServerMetadata {
    /// Who it is, to the letter.
    pub issuer: String,
    /// Where people sign in.
    pub authorization_endpoint: Option<String>,
    /// Where tokens are.
    pub token_endpoint: String,
    /// Where clients register.
    pub registration_endpoint: Option<String>,
    /// Where a device begins to sign in.
    pub device_authorization_endpoint: Option<String>,
    /// Where tokens are given back.
    pub revocation_endpoint: Option<String>,
    /// The scopes there are.
    pub scopes_supported: Option<Scopes>,
    /// How a client may show who it is.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Does it take the URL of a document as a client's name?
    #[serde(default)]
    pub client_id_metadata_document_supported: bool,
    /// Does it say who it is when it sends a person back?
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
    /// How proofs may be signed.
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// How the proof of PKCE may be made.
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// In which ways tokens are had.
    #[serde(default)]
    pub grant_types_supported: Option<Vec<String>>,
}

impl AuthServerMetadata {
    /// Does it sign in programs, and no people?
    pub fn is_client_credentials_only(&self) -> bool {
        let grants = self.grant_types_supported.as_deref().unwrap_or_default();
        let has = |name: &str| grants.iter().any(|it| it == name);
        has("client_credentials") && !has("authorization_code")
    }
}

/// Why an authorization server's metadata is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthServerMetadataError {
    /// It is no such document.
    #[error("it is not metadata of an authorization server")]
    Malformed,
    /// It is another's.
    #[error("it is that of `{0}`")]
    WrongIssuer(String),
    /// One of its endpoints is not to be gone to.
    #[error("its {name} is refused")]
    Endpoint {
        /// Which one.
        name: &'static str,
        /// Why.
        #[source]
        source: UrlError,
    },
    /// It offers no proof that we would take.
    #[error("it does not offer PKCE with S256")]
    NoPkceS256,
}

/// Who should be behind a document.
#[derive(Debug, Clone, Copy)]
pub enum ExpectedIssuer<'a> {
    /// This issuer.
    Exactly(&'a str),
    /// Whoever it says: a person typed its place, or it lies where 2025-03-26 wants it.
    Any,
}

/// Reads metadata.
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
    // These are done without where they are bad.
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

/// Issuers are compared to the letter, but for the slash that a URL without a path has or has not.
pub(crate) fn is_same_issuer(one: &str, other: &str) -> bool {
    let bare = |text: &str| text.strip_suffix('/').unwrap_or(text).to_owned();
    one == other || bare(one) == bare(other)
}

impl AuthServerMetadata {
    /// What is assumed where there is no document, as protocol version 2025-03-26 had it.
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

    /// Where tokens are.
    pub fn token_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("token endpoint", Some(&self.token_endpoint), guard)
    }

    /// Where people sign in.
    pub fn authorization_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("authorization endpoint", self.authorization_endpoint.as_deref(), guard)
    }

    /// Where clients register.
    pub fn registration_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("registration endpoint", self.registration_endpoint.as_deref(), guard)
    }

    /// Where a device begins to sign in.
    pub fn device_authorization_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("device endpoint", self.device_authorization_endpoint.as_deref(), guard)
    }

    /// Where tokens are given back.
    pub fn revocation_endpoint(
        &self,
        guard: &OriginGuard,
    ) -> Result<CheckedUrl, AuthServerMetadataError> {
        checked_endpoint("revocation endpoint", self.revocation_endpoint.as_deref(), guard)
    }

    /// Does it take proofs of the kind that we make?
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
    guard.check(text).map_err(|why| AuthServerMetadataError::Endpoint { name, source: why })
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
    fn the_issuer_must_be_who_was_asked() {
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
    fn hostile_endpoints_are_refused_or_done_without() {
        for (text, why) in [
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
                assert_eq!(
                    read,
                    Err(AuthServerMetadataError::Endpoint { name, source: why }),
                    "{text}"
                );
            }
            let change = json!({ "registration_endpoint": text, "revocation_endpoint": text });
            let read = check("https://as.example.com", change).expect("the rest is good");
            assert_eq!((read.registration_endpoint, read.revocation_endpoint), (None, None));
        }
    }

    #[test]
    fn where_anything_is_said_about_pkce_it_must_be_s256() {
        let with = |methods: Value| {
            check("https://as.example.com", json!({ "code_challenge_methods_supported": methods }))
        };
        assert!(with(Value::Null).is_ok() && with(json!(["S256"])).is_ok());
        assert_eq!(with(json!(["plain"])), Err(AuthServerMetadataError::NoPkceS256));
        assert_eq!(with(json!([])), Err(AuthServerMetadataError::NoPkceS256));
    }

    #[test]
    fn what_is_no_metadata_is_not_taken_for_it() {
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

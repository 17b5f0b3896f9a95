//! What we say about ourselves (RFC 9728), and what we say to whom we turn away (RFC 6750, RFC 9449).

use http::HeaderValue;
use serde_json::{Value, json};
use url::Url;

use super::auth_error::AuthError;
use super::jws::SUPPORTED_ALGORITHMS;
use crate::discovery::resource_metadata_urls;
use crate::scopes::Scopes;

/// Us, as tokens and clients know us.
#[derive(Debug, Clone)]
pub struct ProtectedResource {
    /// As a person typed it.
    identifier: String,
    url: Url,
    metadata_url: Url,
    scopes: Scopes,
}

impl ProtectedResource {
    /// A server at this address, where everybody needs these scopes.
    pub(crate) fn new(text: &str, url: Url, scopes: Scopes) -> ProtectedResource {
        let metadata_url = resource_metadata_urls(&url).swap_remove(0);
        ProtectedResource { identifier: text.to_owned(), url, metadata_url, scopes }
    }

    /// Our address.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Our address, as it was typed.
    pub(crate) fn identifier(&self) -> &str {
        &self.identifier
    }

    /// What everybody needs.
    pub(crate) fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// Where the document about us lies.
    pub fn metadata_url(&self) -> &Url {
        &self.metadata_url
    }

    /// The document about us.
    pub fn metadata_document(&self, issuer: &str) -> Value {
        let mut document = json!({
            "resource": self.identifier,
            "authorization_servers": [issuer],
            "bearer_methods_supported": ["header"],
            "dpop_signing_alg_values_supported": SUPPORTED_ALGORITHMS,
            "resource_name": "Switchboard",
        });
        if !self.scopes.is_empty() {
            document["scopes_supported"] = json!(self.scopes);
        }
        document
    }
}

/// The `WWW-Authenticate` of a refusal; `None` where a token would not help. Without a resource there is nobody to get
/// a token from, and so nothing is said of it.
pub(crate) fn www_authenticate(
    refusal: &AuthError,
    resource: Option<&ProtectedResource>,
) -> Option<HeaderValue> {
    let (scheme, error) = match refusal {
        AuthError::MissingToken => ("Bearer", None),
        AuthError::Malformed => ("Bearer", Some("invalid_request")),
        AuthError::Token(_) => ("Bearer", Some("invalid_token")),
        AuthError::Proof(_) => ("DPoP", Some("invalid_dpop_proof")),
        AuthError::InsufficientScope(_) => ("Bearer", Some("insufficient_scope")),
        AuthError::IssuerUnavailable(_) => return None,
    };
    let scopes = match refusal {
        AuthError::InsufficientScope(needed) => Some(needed),
        AuthError::MissingToken
        | AuthError::Malformed
        | AuthError::Token(_)
        | AuthError::Proof(_) => resource.map(ProtectedResource::scopes),
        AuthError::IssuerUnavailable(_) => None,
    };
    let mut parameters = Vec::new();
    // No quote and no backslash can be in any of these: a URL escapes them, and no scope has one.
    parameters.extend(resource.map(|it| format!("resource_metadata=\"{}\"", it.metadata_url)));
    if let Some(error) = error {
        parameters.push(format!("error=\"{error}\", error_description=\"{refusal}\""));
    }
    parameters.extend(scopes.filter(|it| !it.is_empty()).map(|it| format!("scope=\"{it}\"")));
    if scheme == "DPoP" {
        parameters.push(format!("algs=\"{}\"", SUPPORTED_ALGORITHMS.join(" ")));
    }
    let text = format!("{scheme} {}", parameters.join(", "));
    HeaderValue::from_str(text.trim_end()).ok()
}

//! Our protected resource metadata (RFC 9728), and the challenges for refused requests (RFC 6750, RFC 9449).

use http::HeaderValue;
use serde_json::{Value, json};
use url::Url;

use super::auth_error::AuthError;
use super::jws::SUPPORTED_ALGORITHMS;
use crate::discovery::resource_metadata_urls;
use crate::scopes::Scopes;

/// Our server as a protected resource.
#[derive(Debug, Clone)]
pub struct ProtectedResource {
    /// The identifier as configured.
    identifier: String,
    url: Url,
    metadata_url: Url,
    scopes: Scopes,
}

impl ProtectedResource {
    /// A resource at this URL, with the scopes that every request needs.
    pub(crate) fn new(text: &str, url: Url, scopes: Scopes) -> ProtectedResource {
        let metadata_url = resource_metadata_urls(&url).swap_remove(0);
        ProtectedResource { identifier: text.to_owned(), url, metadata_url, scopes }
    }

    /// The URL of the resource.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The identifier as configured.
    pub(crate) fn identifier(&self) -> &str {
        &self.identifier
    }

    /// The scopes that every request needs.
    pub(crate) fn scopes(&self) -> &Scopes {
        &self.scopes
    }

    /// The URL of the metadata document.
    pub fn metadata_url(&self) -> &Url {
        &self.metadata_url
    }

    /// The metadata document.
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

/// The `WWW-Authenticate` header of a refusal; `None` where a token would not help. Without a resource there is
/// no issuer to name.
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
        AuthError::IssuerUnavailable(_)
        | AuthError::RevocationsUnknown
        | AuthError::MissingCertificate => return None,
    };
    let scopes = match refusal {
        AuthError::InsufficientScope(needed) => Some(needed),
        AuthError::MissingToken
        | AuthError::Malformed
        | AuthError::Token(_)
        | AuthError::Proof(_) => resource.map(ProtectedResource::scopes),
        AuthError::IssuerUnavailable(_)
        | AuthError::RevocationsUnknown
        | AuthError::MissingCertificate => None,
    };
    let mut parameters = Vec::new();
    // None of these can contain a quote or a backslash: a URL escapes them, and scopes exclude them.
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

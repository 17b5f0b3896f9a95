//! Dynamic client registration (RFC 7591): the request, and the response of the authorization server.

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::choice::secret_auth_method;
use super::client::{ClientAuthMethod, ClientProvenance, OAuthClient};
use crate::discovery::auth_server_metadata::AuthServerMetadata;
use crate::fetch::origin_guard::CheckedUrl;
use crate::fetch::{FetchRequest, FetchResponse};
use crate::scopes::Scopes;
use crate::secret::Secret;
use crate::untrusted_text::sanitize_for_display;

/// The maximum length of a client ID and of a client secret from a server.
const MAX_VALUE_LENGTH: usize = 8 * 1024;

/// The content of a registration.
#[derive(Debug)]
pub struct RegistrationRequest<'a> {
    /// The display name.
    pub client_name: &'a str,
    /// The redirect URI.
    pub redirect_uri: Option<&'a str>,
    /// The client authentication method.
    pub auth_method: ClientAuthMethod,
    /// The scopes that the client will request.
    pub scopes: Option<&'a Scopes>,
    /// The grant types that the client will use.
    pub grant_types: &'a [&'a str],
}

/// Builds the registration request.
pub fn registration_request(
    at: CheckedUrl,
    registration: &RegistrationRequest<'_>,
) -> FetchRequest {
    let mut body = json!({
        "client_name": registration.client_name,
        "grant_types": registration.grant_types,
        "token_endpoint_auth_method": registration.auth_method.name(),
        "application_type": "native",
    });
    if let Some(redirect) = registration.redirect_uri {
        body["redirect_uris"] = json!([redirect]);
        body["response_types"] = json!(["code"]);
    }
    if let Some(scopes) = registration.scopes {
        body["scope"] = Value::String(scopes.to_string());
    }
    FetchRequest::post_json(at, &body)
}

/// Why a registration failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistrationError {
    /// The authorization server refused.
    #[error("the authorization server refused to register us: HTTP {status} {error}")]
    Refused {
        /// The status code.
        status: u16,
        /// The error code and description.
        error: String,
    },
    /// The response is not a registration.
    #[error("the authorization server's response is not a registration")]
    Malformed,
}

#[derive(Deserialize)]
struct RawRegistration {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// Parses the response to a registration.
pub fn parse_registration(
    response: &FetchResponse,
    server: &AuthServerMetadata,
    registration: &RegistrationRequest<'_>,
) -> Result<OAuthClient, RegistrationError> {
    if !response.is_success() {
        let body: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let field = |key: &str| body.get(key).and_then(Value::as_str).map(sanitize_for_display);
        let error = [field("error"), field("error_description")];
        let error = error.into_iter().flatten().collect::<Vec<_>>().join(": ");
        return Err(RegistrationError::Refused { status: response.status, error });
    }
    let raw: RawRegistration =
        serde_json::from_slice(&response.body).map_err(|_| RegistrationError::Malformed)?;
    let is_good = |text: &str| {
        !text.is_empty() && text.len() <= MAX_VALUE_LENGTH && !text.chars().any(char::is_control)
    };
    let secret = raw.client_secret.filter(|secret| !secret.is_empty());
    if !is_good(&raw.client_id) || secret.as_deref().is_some_and(|secret| !is_good(secret)) {
        return Err(RegistrationError::Malformed);
    }
    let assigned = raw.token_endpoint_auth_method.as_deref().and_then(ClientAuthMethod::parse);
    let method = match (assigned, &secret) {
        (Some(ClientAuthMethod::ClientSecretBasic | ClientAuthMethod::ClientSecretPost), None)
        | (Some(ClientAuthMethod::PrivateKeyJwt), _)
        | (None, None) => ClientAuthMethod::None,
        (Some(assigned), _) => assigned,
        (None, Some(_)) => match registration.auth_method {
            ClientAuthMethod::None | ClientAuthMethod::PrivateKeyJwt => secret_auth_method(server),
            ClientAuthMethod::ClientSecretBasic | ClientAuthMethod::ClientSecretPost => {
                registration.auth_method
            }
        },
    };
    Ok(OAuthClient {
        id: raw.client_id,
        secret: secret.map(Secret::new),
        method,
        issuer: server.issuer.clone(),
        redirect: registration.redirect_uri.map(str::to_owned),
        provenance: ClientProvenance::Registered,
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use url::Url;

    use super::*;
    use crate::fetch::origin_guard::AllowedAddresses;

    const REDIRECT: &str = "http://127.0.0.1:7000/callback";

    fn server() -> AuthServerMetadata {
        let base = Url::parse("https://as.example.com/").expect("a URL");
        AuthServerMetadata::legacy_fallback(&base)
    }

    fn registration() -> RegistrationRequest<'static> {
        RegistrationRequest {
            client_name: "Switchboard",
            redirect_uri: Some(REDIRECT),
            auth_method: ClientAuthMethod::None,
            scopes: None,
            grant_types: &["authorization_code", "refresh_token"],
        }
    }

    #[test]
    fn a_registration_describes_a_native_client() {
        let url = Url::parse("https://as.example.com/register").expect("a URL");
        let request = registration_request(
            CheckedUrl { url, allowed: AllowedAddresses::Public },
            &registration(),
        );
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        assert_eq!(
            body,
            json!({
                "client_name": "Switchboard",
                "grant_types": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_method": "none",
                "application_type": "native",
                "redirect_uris": [REDIRECT],
                "response_types": ["code"],
            })
        );
    }

    fn check(status: u16, body: &str) -> Result<(String, ClientAuthMethod), RegistrationError> {
        let body = body.to_owned().into();
        let response = FetchResponse { status, headers: HeaderMap::new(), body };
        parse_registration(&response, &server(), &registration())
            .map(|client| (client.id, client.method))
    }

    #[test]
    fn registration_responses_are_parsed() {
        let good = |method| Ok(("x".to_owned(), method));
        for (body, expected) in [
            (r#"{"client_id":"x"}"#, good(ClientAuthMethod::None)),
            (r#"{"client_id":"x","client_secret":""}"#, good(ClientAuthMethod::None)),
            (r#"{"client_id":"x","client_secret":"s"}"#, good(ClientAuthMethod::ClientSecretBasic)),
            (
                r#"{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}"#,
                good(ClientAuthMethod::ClientSecretPost),
            ),
            (
                r#"{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"none"}"#,
                good(ClientAuthMethod::None),
            ),
            (
                r#"{"client_id":"x","token_endpoint_auth_method":"client_secret_basic"}"#,
                good(ClientAuthMethod::None),
            ),
            (r#"{"client_id":""}"#, Err(RegistrationError::Malformed)),
            (r#"{"client_id":"a\nb"}"#, Err(RegistrationError::Malformed)),
            (r#"{"client_id":7}"#, Err(RegistrationError::Malformed)),
            ("", Err(RegistrationError::Malformed)),
        ] {
            assert_eq!(check(201, body), expected, "{body}");
        }
        let error = "invalid_redirect_uri: no[31m".to_owned();
        let body = "{\"error\":\"invalid_redirect_uri\",\"error_description\":\"no\\u001b[31m\"}";
        assert_eq!(check(400, body), Err(RegistrationError::Refused { status: 400, error }));
    }
}

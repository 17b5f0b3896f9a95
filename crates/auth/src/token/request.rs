//! A request to a token endpoint, repeated where the endpoint demands a DPoP nonce. Pure: the caller sends it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, header};
use url::form_urlencoded::byte_serialize;

use crate::crypto::dpop::{DpopKey, ProofTarget};
use crate::crypto::signing_key::{CLIENT_ASSERTION_TYPE, SigningKey};
use crate::fetch::origin_guard::CheckedUrl;
use crate::fetch::{FetchRequest, FetchResponse};
use crate::registration::{ClientAuthMethod, OAuthClient};
use crate::scopes::Scopes;
use crate::time_and_random::TimeAndRandom;
use crate::token::grant::Grant;
use crate::token::response;
use crate::token::response::{TokenError, TokenErrorCode, TokenResponse};

const DPOP: HeaderName = HeaderName::from_static("dpop");
/// How many times a request is repeated with a new nonce.
const MAX_NONCE_RETRIES: u32 = 2;
/// How many leading characters identify a secret in an error text.
const REDACTION_PREFIX: usize = 12;

/// A request to a token endpoint.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// The token endpoint.
    pub endpoint: CheckedUrl,
    /// The grant.
    pub grant: Grant,
    /// The client. Its issuer owns the endpoint.
    pub client: OAuthClient,
    /// The key for client assertions.
    pub signing_key: Option<SigningKey>,
    /// The key to bind the tokens to.
    pub dpop_key: Option<DpopKey>,
    /// The scopes to request, where the grant does not imply them.
    pub scopes: Option<Scopes>,
    /// The resource identifier of the server.
    pub resource: Option<String>,
    /// The nonce for the next proof.
    pub nonce: Option<String>,
    /// How many times the request was repeated with a new nonce.
    pub nonce_retries: u32,
}

/// The result of a response.
#[derive(Debug)]
pub enum TokenOutcome {
    /// Send this request instead.
    Retry(FetchRequest),
    /// The tokens.
    Tokens(Box<TokenResponse>),
    /// The server refused.
    Refused(TokenError),
}

impl TokenRequest {
    /// A request without optional fields.
    pub fn new(endpoint: CheckedUrl, grant: Grant, client: OAuthClient) -> TokenRequest {
        TokenRequest {
            endpoint,
            grant,
            client,
            signing_key: None,
            dpop_key: None,
            scopes: None,
            resource: None,
            nonce: None,
            nonce_retries: 0,
        }
    }

    /// Builds the HTTP request.
    pub fn to_fetch_request(&self, inputs: &mut TimeAndRandom<'_>) -> FetchRequest {
        let mut fields = self.grant.form_fields(self.scopes.as_ref(), self.resource.as_deref());
        let client = &self.client;
        let secret = client.secret.as_ref().map(|secret| secret.reveal());
        let mut basic = None;
        match (client.method, secret, &self.signing_key) {
            (ClientAuthMethod::ClientSecretBasic, Some(secret), _) => {
                // RFC 6749, section 2.3.1: form-encoded before Base64.
                let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let both = format!("{}:{}", encode(&client.id), encode(secret));
                basic = Some(format!("Basic {}", STANDARD.encode(both)));
            }
            (ClientAuthMethod::ClientSecretPost, Some(secret), _) => fields.extend([
                ("client_id", client.id.as_str().into()),
                ("client_secret", secret.into()),
            ]),
            (ClientAuthMethod::PrivateKeyJwt, _, Some(key)) => {
                let assertion = key.client_assertion(&client.id, &client.issuer, inputs);
                fields.extend([
                    ("client_id", client.id.as_str().into()),
                    ("client_assertion_type", CLIENT_ASSERTION_TYPE.into()),
                    ("client_assertion", assertion.reveal().to_owned().into()),
                ]);
            }
            (
                ClientAuthMethod::None
                | ClientAuthMethod::ClientSecretBasic
                | ClientAuthMethod::ClientSecretPost
                | ClientAuthMethod::PrivateKeyJwt,
                _,
                _,
            ) => fields.push(("client_id", client.id.as_str().into())),
        }
        let pairs: Vec<(&str, &str)> = fields.iter().map(|(name, it)| (*name, &**it)).collect();
        let mut request = FetchRequest::post_form(self.endpoint.clone(), &pairs);
        if let Some(basic) = basic {
            request = request.with_secret_header(header::AUTHORIZATION, &basic);
        }
        if let Some(proof) = &self.dpop_key {
            let nonce = self.nonce.as_deref();
            let url = &self.endpoint.url;
            let target = ProofTarget { method: "POST", url, nonce, token: None };
            request = request.with_secret_header(DPOP, proof.sign_proof(target, inputs).reveal());
        }
        request
    }

    /// Evaluates a response.
    pub fn on(&mut self, response: &FetchResponse, inputs: &mut TimeAndRandom<'_>) -> TokenOutcome {
        let read = response::parse_token_response(response);
        let nonce = response.dpop_nonce();
        let wants_nonce = match &read {
            Err(error) => error.code() == Some(TokenErrorCode::UseDpopNonce),
            Ok(_) => false,
        };
        if wants_nonce
            && self.dpop_key.is_some()
            && self.nonce_retries < MAX_NONCE_RETRIES
            && nonce.is_some()
        {
            self.nonce_retries += 1;
            self.nonce = nonce;
            return TokenOutcome::Retry(self.to_fetch_request(inputs));
        }
        if nonce.is_some() {
            self.nonce = nonce;
        }
        match read {
            Ok(tokens) => TokenOutcome::Tokens(Box::new(tokens)),
            Err(error) => TokenOutcome::Refused(self.redact_secrets(error)),
        }
    }

    /// Some servers repeat the request in their error text: cuts the text at the first secret.
    fn redact_secrets(&self, refusal: TokenError) -> TokenError {
        let TokenError::Refused { code, error, description } = refusal else {
            return refusal;
        };
        let mut secrets = self.grant.secrets();
        secrets.extend(self.client.secret.as_ref().map(|secret| secret.reveal()));
        let clean = |mut text: String| {
            for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
                // Error texts are truncated, and so may be a repeated secret.
                let beginning: String = secret.chars().take(REDACTION_PREFIX).collect();
                if let Some(at) = text.find(&beginning) {
                    text.truncate(at);
                    text.push('…');
                }
            }
            text
        };
        TokenError::Refused { code, error: clean(error), description: clean(description) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use http::HeaderMap;
    use url::Url;

    use super::*;
    use crate::fetch::origin_guard::AllowedAddresses;
    use crate::registration::ClientProvenance;
    use crate::secret::Secret;
    use crate::time_and_random::with_system_random;

    fn token_request(method: ClientAuthMethod, secret: Option<&str>) -> TokenRequest {
        let url = Url::parse("https://as.example.com/token").expect("a URL");
        let client = OAuthClient {
            id: "me:/ä".to_owned(),
            secret: secret.map(Secret::new),
            method,
            issuer: "https://as.example.com".to_owned(),
            redirect: None,
            provenance: ClientProvenance::Configured,
        };
        let endpoint = CheckedUrl { url, allowed: AllowedAddresses::Public };
        TokenRequest::new(endpoint, Grant::ClientCredentials, client)
    }

    fn form(request: &FetchRequest) -> HashMap<String, String> {
        url::form_urlencoded::parse(&request.body).into_owned().collect()
    }

    #[test]
    fn a_client_authenticates_with_one_method() {
        for (method, secret, fields, has_header) in [
            (ClientAuthMethod::None, None, &["client_id", "grant_type"][..], false),
            (ClientAuthMethod::None, Some("s"), &["client_id", "grant_type"], false),
            (
                ClientAuthMethod::ClientSecretPost,
                Some("s"),
                &["client_id", "client_secret", "grant_type"],
                false,
            ),
            (ClientAuthMethod::ClientSecretBasic, Some("s"), &["grant_type"], true),
            (ClientAuthMethod::ClientSecretBasic, None, &["client_id", "grant_type"], false),
            (ClientAuthMethod::PrivateKeyJwt, None, &["client_id", "grant_type"], false),
        ] {
            let request = with_system_random(0, |inputs| {
                token_request(method, secret).to_fetch_request(inputs)
            });
            let mut names: Vec<_> = form(&request).into_keys().collect();
            names.sort();
            assert_eq!(names, fields, "{method:?}");
            assert_eq!(request.headers.contains_key("authorization"), has_header);
        }
        let request = with_system_random(0, |inputs| {
            token_request(ClientAuthMethod::ClientSecretBasic, Some("a b+"))
                .to_fetch_request(inputs)
        });
        let expected = format!("Basic {}", STANDARD.encode("me%3A%2F%C3%A4:a+b%2B"));
        assert_eq!(request.headers["authorization"], expected);
        assert!(request.headers["authorization"].is_sensitive());
    }

    fn refusal(nonce: Option<&str>) -> FetchResponse {
        let mut headers = HeaderMap::new();
        if let Some(nonce) = nonce {
            headers.insert("dpop-nonce", nonce.parse().expect("a value"));
        }
        let body = r#"{"error":"use_dpop_nonce"}"#.into();
        FetchResponse { status: 400, headers, body }
    }

    #[test]
    fn a_nonce_is_added_to_the_proof_a_limited_number_of_times() {
        let mut token_request = token_request(ClientAuthMethod::None, None);
        token_request.dpop_key = Some(DpopKey::generate());
        with_system_random(0, |inputs| {
            for number in ["one", "two"] {
                let TokenOutcome::Retry(request) = token_request.on(&refusal(Some(number)), inputs)
                else {
                    panic!("the request is repeated")
                };
                assert!(request.headers.contains_key("dpop"));
                assert_eq!(token_request.nonce.as_deref(), Some(number));
            }
            assert!(matches!(
                token_request.on(&refusal(Some("three")), inputs),
                TokenOutcome::Refused(_)
            ));
        });
    }

    #[test]
    fn an_error_text_that_repeats_a_secret_is_cut() {
        let mut token_request =
            token_request(ClientAuthMethod::ClientSecretPost, Some("client-canary"));
        token_request.grant = Grant::RefreshToken(Secret::new("refresh-canary-and-a-long-rest"));
        for (description, expected) in [
            ("token refresh-canary-and-a-long-rest is unknown", "token …"),
            ("token refresh-canary-and", "token …"),
            ("secret client-canary and more", "secret …"),
            ("nothing of that", "nothing of that"),
        ] {
            let body = serde_json::json!({
                "error": "invalid_grant", "error_description": description,
            });
            let body = body.to_string().into();
            let response = FetchResponse { status: 400, headers: HeaderMap::new(), body };
            let reply = with_system_random(0, |inputs| token_request.on(&response, inputs));
            let TokenOutcome::Refused(TokenError::Refused { code, description, .. }) = reply else {
                panic!("it is refused")
            };
            assert_eq!((code, description.as_str()), (TokenErrorCode::InvalidGrant, expected));
        }
    }

    #[test]
    fn without_a_key_or_a_nonce_the_request_is_not_repeated() {
        with_system_random(0, |inputs| {
            let mut without = token_request(ClientAuthMethod::None, None);
            assert!(matches!(without.on(&refusal(Some("n")), inputs), TokenOutcome::Refused(_)));
            let mut with = token_request(ClientAuthMethod::None, None);
            with.dpop_key = Some(DpopKey::generate());
            assert!(matches!(with.on(&refusal(None), inputs), TokenOutcome::Refused(_)));
        });
    }
}

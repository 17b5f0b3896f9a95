//! One question to a token endpoint, asked again where the endpoint wants its number in the proof.
//! Pure: what to send comes out, what came back goes in.

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
/// How often a question is asked with another number.
const MAX_NONCE_RETRIES: u32 = 2;
/// By how many of its characters a secret is recognised in a complaint.
const REDACTION_PREFIX: usize = 12;

/// A question to a token endpoint.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// Where it is asked.
    pub endpoint: CheckedUrl,
    /// With what.
    pub grant: Grant,
    /// By whom. Its issuer is the one that the endpoint belongs to.
    pub client: OAuthClient,
    /// What the client signs with, where it does.
    pub signing_key: Option<SigningKey>,
    /// What the tokens are to be bound to.
    pub dpop_key: Option<DpopKey>,
    /// What is asked for, where the grant does not say.
    pub scopes: Option<Scopes>,
    /// For which server.
    pub resource: Option<String>,
    /// The number that the endpoint wants to see.
    pub nonce: Option<String>,
    /// How often it was asked with another.
    pub nonce_retries: u32,
}

/// What an answer comes to.
#[derive(Debug)]
pub enum TokenOutcome {
    /// It must be asked again.
    Retry(FetchRequest),
    /// Here they are.
    Tokens(Box<TokenResponse>),
    /// There are none.
    Refused(TokenError),
}

impl TokenRequest {
    /// A question without anything special.
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

    /// What to send.
    pub fn to_fetch_request(&self, inputs: &mut TimeAndRandom<'_>) -> FetchRequest {
        let mut fields = self.grant.form_fields(self.scopes.as_ref(), self.resource.as_deref());
        let client = &self.client;
        let secret = client.secret.as_ref().map(|secret| secret.reveal());
        let mut basic = None;
        match (client.method, secret, &self.signing_key) {
            (ClientAuthMethod::ClientSecretBasic, Some(secret), _) => {
                // RFC 6749, section 2.3.1: encoded as in a form, and then again.
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

    /// What came back.
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

    /// Some servers repeat in their complaint what they were sent. That is for nobody's eyes.
    fn redact_secrets(&self, refusal: TokenError) -> TokenError {
        let TokenError::Refused { code, error, description } = refusal else {
            return refusal;
        };
        let mut secrets = self.grant.secrets();
        secrets.extend(self.client.secret.as_ref().map(|secret| secret.reveal()));
        let clean = |mut text: String| {
            for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
                // Complaints are cut, and so may be what they repeat.
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
    fn a_client_shows_itself_in_one_way_only() {
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
    fn a_number_is_put_into_the_proof_and_that_comes_to_an_end() {
        let mut token_request = token_request(ClientAuthMethod::None, None);
        token_request.dpop_key = Some(DpopKey::generate());
        with_system_random(0, |inputs| {
            for number in ["one", "two"] {
                let TokenOutcome::Retry(request) = token_request.on(&refusal(Some(number)), inputs)
                else {
                    panic!("it is asked again")
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
    fn a_complaint_that_repeats_a_secret_is_cut_short() {
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
    fn without_a_key_or_a_number_there_is_no_second_question() {
        with_system_random(0, |inputs| {
            let mut without = token_request(ClientAuthMethod::None, None);
            assert!(matches!(without.on(&refusal(Some("n")), inputs), TokenOutcome::Refused(_)));
            let mut with = token_request(ClientAuthMethod::None, None);
            with.dpop_key = Some(DpopKey::generate());
            assert!(matches!(with.on(&refusal(None), inputs), TokenOutcome::Refused(_)));
        });
    }
}

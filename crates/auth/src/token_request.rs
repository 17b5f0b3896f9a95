//! One question to a token endpoint, asked again where the endpoint wants its number in the proof.
//! Pure: what to send comes out, what came back goes in.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, header};
use url::form_urlencoded::byte_serialize;

use crate::assertion::{ASSERTION_TYPE, SigningKey};
use crate::dpop::{ProofKey, Proven};
use crate::fetch::{Answer, Request};
use crate::grant::Grant;
use crate::origin_guard::Checked;
use crate::pkce::Moment;
use crate::registration::{Client, Method};
use crate::scopes::Scopes;
use crate::token::{self, Complaint, TokenError, Tokens};

const DPOP: HeaderName = HeaderName::from_static("dpop");
/// How often a question is asked with another number.
const NONCES: u32 = 2;
/// By how many of its characters a secret is recognised in a complaint.
const ECHO: usize = 12;

/// A question to a token endpoint.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// Where it is asked.
    pub endpoint: Checked,
    /// With what.
    pub grant: Grant,
    /// By whom. Its issuer is the one that the endpoint belongs to.
    pub client: Client,
    /// What the client signs with, where it does.
    pub key: Option<SigningKey>,
    /// What the tokens are to be bound to.
    pub proof: Option<ProofKey>,
    /// What is asked for, where the grant does not say.
    pub scopes: Option<Scopes>,
    /// For which server.
    pub resource: Option<String>,
    /// The number that the endpoint wants to see.
    pub nonce: Option<String>,
    /// How often it was asked with another.
    pub nonces: u32,
}

/// What an answer comes to.
#[derive(Debug)]
pub enum Reply {
    /// It must be asked again.
    Again(Request),
    /// Here they are.
    Tokens(Box<Tokens>),
    /// There are none.
    Refused(TokenError),
}

impl TokenRequest {
    /// A question without anything special.
    pub fn new(endpoint: Checked, grant: Grant, client: Client) -> TokenRequest {
        TokenRequest {
            endpoint,
            grant,
            client,
            key: None,
            proof: None,
            scopes: None,
            resource: None,
            nonce: None,
            nonces: 0,
        }
    }

    /// What to send.
    pub fn request(&self, moment: &mut Moment<'_>) -> Request {
        let mut fields = self.grant.fields(self.scopes.as_ref(), self.resource.as_deref());
        let client = &self.client;
        let secret = client.secret.as_ref().map(|secret| secret.reveal());
        let mut basic = None;
        match (client.method, secret, &self.key) {
            (Method::ClientSecretBasic, Some(secret), _) => {
                // RFC 6749, section 2.3.1: encoded as in a form, and then again.
                let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let both = format!("{}:{}", encode(&client.id), encode(secret));
                basic = Some(format!("Basic {}", STANDARD.encode(both)));
            }
            (Method::ClientSecretPost, Some(secret), _) => fields.extend([
                ("client_id", client.id.as_str().into()),
                ("client_secret", secret.into()),
            ]),
            (Method::PrivateKeyJwt, _, Some(key)) => {
                let assertion = key.assert(&client.id, &client.issuer, moment);
                fields.extend([
                    ("client_id", client.id.as_str().into()),
                    ("client_assertion_type", ASSERTION_TYPE.into()),
                    ("client_assertion", assertion.reveal().to_owned().into()),
                ]);
            }
            (
                Method::None
                | Method::ClientSecretBasic
                | Method::ClientSecretPost
                | Method::PrivateKeyJwt,
                _,
                _,
            ) => fields.push(("client_id", client.id.as_str().into())),
        }
        let pairs: Vec<(&str, &str)> = fields.iter().map(|(name, it)| (*name, &**it)).collect();
        let mut request = Request::post_form(self.endpoint.clone(), &pairs);
        if let Some(basic) = basic {
            request = request.with_secret(header::AUTHORIZATION, &basic);
        }
        if let Some(proof) = &self.proof {
            let nonce = self.nonce.as_deref();
            let url = &self.endpoint.url;
            let proven = Proven { method: "POST", url, nonce, token: None };
            request = request.with_secret(DPOP, proof.prove(proven, moment).reveal());
        }
        request
    }

    /// What came back.
    pub fn on(&mut self, answer: &Answer, moment: &mut Moment<'_>) -> Reply {
        let read = token::read(answer);
        let nonce = answer.dpop_nonce();
        let wants_nonce = match &read {
            Err(error) => error.complaint() == Some(Complaint::UseDpopNonce),
            Ok(_) => false,
        };
        if wants_nonce && self.proof.is_some() && self.nonces < NONCES && nonce.is_some() {
            self.nonces += 1;
            self.nonce = nonce;
            return Reply::Again(self.request(moment));
        }
        if nonce.is_some() {
            self.nonce = nonce;
        }
        match read {
            Ok(tokens) => Reply::Tokens(Box::new(tokens)),
            Err(error) => Reply::Refused(self.without_echo(error)),
        }
    }

    /// Some servers repeat in their complaint what they were sent. That is for nobody's eyes.
    fn without_echo(&self, error: TokenError) -> TokenError {
        let TokenError::Refused { complaint, word, description } = error else { return error };
        let mut secrets = self.grant.secrets();
        secrets.extend(self.client.secret.as_ref().map(|secret| secret.reveal()));
        let clean = |mut text: String| {
            for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
                // Complaints are cut, and so may be what they repeat.
                let beginning: String = secret.chars().take(ECHO).collect();
                if let Some(at) = text.find(&beginning) {
                    text.truncate(at);
                    text.push('…');
                }
            }
            text
        };
        TokenError::Refused { complaint, word: clean(word), description: clean(description) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use http::HeaderMap;
    use url::Url;

    use super::*;
    use crate::confidential::Secret;
    use crate::origin_guard::Reach;
    use crate::pkce::at_present;
    use crate::registration::Provenance;

    fn asked(method: Method, secret: Option<&str>) -> TokenRequest {
        let url = Url::parse("https://as.example.com/token").expect("a URL");
        let client = Client {
            id: "me:/ä".to_owned(),
            secret: secret.map(Secret::new),
            method,
            issuer: "https://as.example.com".to_owned(),
            redirect: None,
            provenance: Provenance::Configured,
        };
        let endpoint = Checked { url, reach: Reach::Public };
        TokenRequest::new(endpoint, Grant::ClientCredentials, client)
    }

    fn form(request: &Request) -> HashMap<String, String> {
        url::form_urlencoded::parse(&request.body).into_owned().collect()
    }

    #[test]
    fn a_client_shows_itself_in_one_way_only() {
        for (method, secret, fields, has_header) in [
            (Method::None, None, &["client_id", "grant_type"][..], false),
            (Method::None, Some("s"), &["client_id", "grant_type"], false),
            (
                Method::ClientSecretPost,
                Some("s"),
                &["client_id", "client_secret", "grant_type"],
                false,
            ),
            (Method::ClientSecretBasic, Some("s"), &["grant_type"], true),
            (Method::ClientSecretBasic, None, &["client_id", "grant_type"], false),
            (Method::PrivateKeyJwt, None, &["client_id", "grant_type"], false),
        ] {
            let request = at_present(0, |moment| asked(method, secret).request(moment));
            let mut names: Vec<_> = form(&request).into_keys().collect();
            names.sort();
            assert_eq!(names, fields, "{method:?}");
            assert_eq!(request.headers.contains_key("authorization"), has_header);
        }
        let request =
            at_present(0, |moment| asked(Method::ClientSecretBasic, Some("a b+")).request(moment));
        let expected = format!("Basic {}", STANDARD.encode("me%3A%2F%C3%A4:a+b%2B"));
        assert_eq!(request.headers["authorization"], expected);
        assert!(request.headers["authorization"].is_sensitive());
    }

    fn refusal(nonce: Option<&str>) -> Answer {
        let mut headers = HeaderMap::new();
        if let Some(nonce) = nonce {
            headers.insert("dpop-nonce", nonce.parse().expect("a value"));
        }
        let body = r#"{"error":"use_dpop_nonce"}"#.into();
        Answer { status: 400, headers, body }
    }

    #[test]
    fn a_number_is_put_into_the_proof_and_that_comes_to_an_end() {
        let mut asked = asked(Method::None, None);
        asked.proof = Some(ProofKey::generate());
        at_present(0, |moment| {
            for number in ["one", "two"] {
                let Reply::Again(request) = asked.on(&refusal(Some(number)), moment) else {
                    panic!("it is asked again")
                };
                assert!(request.headers.contains_key("dpop"));
                assert_eq!(asked.nonce.as_deref(), Some(number));
            }
            assert!(matches!(asked.on(&refusal(Some("three")), moment), Reply::Refused(_)));
        });
    }

    #[test]
    fn a_complaint_that_repeats_a_secret_is_cut_short() {
        let mut asked = asked(Method::ClientSecretPost, Some("client-canary"));
        asked.grant = Grant::Refresh(Secret::new("refresh-canary-and-a-long-rest"));
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
            let answer = Answer { status: 400, headers: HeaderMap::new(), body };
            let reply = at_present(0, |moment| asked.on(&answer, moment));
            let Reply::Refused(TokenError::Refused { complaint, description, .. }) = reply else {
                panic!("it is refused")
            };
            assert_eq!((complaint, description.as_str()), (Complaint::InvalidGrant, expected));
        }
    }

    #[test]
    fn without_a_key_or_a_number_there_is_no_second_question() {
        at_present(0, |moment| {
            let mut without = asked(Method::None, None);
            assert!(matches!(without.on(&refusal(Some("n")), moment), Reply::Refused(_)));
            let mut with = asked(Method::None, None);
            with.proof = Some(ProofKey::generate());
            assert!(matches!(with.on(&refusal(None), moment), Reply::Refused(_)));
        });
    }
}

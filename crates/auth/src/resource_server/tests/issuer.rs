//! An in-memory issuer, keys of every type, and an authenticator that trusts the issuer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
    ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Uri};
use serde_json::{Value, json};

use crate::fetch::{Fetch, FetchError, FetchFuture, FetchRequest, FetchResponse};
use crate::resource_server::{
    AuthError, Authenticator, JwtPolicy, JwtVerifier, Principal, RequestHead,
};
use crate::scopes::Scopes;
use crate::time_and_random::unix_now;

pub const ISSUER: &str = "https://as.example.com";
pub const RESOURCE: &str = "https://mcp.example.com/mcp";

pub fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A private key.
pub enum Signer {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl Signer {
    pub fn generate(algorithm: &str) -> Signer {
        let curve = |how| Signer::Ecdsa(EcdsaKeyPair::generate(how).expect("a key"));
        match algorithm {
            "ES256" => curve(&ECDSA_P256_SHA256_FIXED_SIGNING),
            "ES384" => curve(&ECDSA_P384_SHA384_FIXED_SIGNING),
            "ES512" => curve(&ECDSA_P521_SHA512_FIXED_SIGNING),
            "EdDSA" => Signer::Ed25519(Ed25519KeyPair::generate().expect("a key")),
            _ => Signer::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")),
        }
    }

    pub fn jwk(&self) -> Value {
        match self {
            Signer::Ecdsa(pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let curve = match x.len() {
                    32 => "P-256",
                    48 => "P-384",
                    _ => "P-521",
                };
                json!({ "kty": "EC", "crv": curve, "x": base64url(x), "y": base64url(y) })
            }
            Signer::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": base64url(pair.public_key()) })
            }
            Signer::Rsa(pair) => {
                // PKCS#1: the prefix of a 256-byte modulus has a fixed length, and the exponent comes last.
                let der = pair.public_key().as_ref();
                let (n, e) = (base64url(&der[9..265]), base64url(&der[der.len() - 3..]));
                json!({ "kty": "RSA", "n": n, "e": e })
            }
        }
    }

    /// Signs with this key, whatever algorithm the header names.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let signing_input =
            format!("{}.{}", base64url(header.to_string()), base64url(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match self {
            Signer::Ecdsa(pair) => {
                pair.sign(&random, signing_input.as_bytes()).expect("signed").as_ref().to_vec()
            }
            Signer::Ed25519(pair) => pair.sign(signing_input.as_bytes()).as_ref().to_vec(),
            Signer::Rsa(pair) => {
                let how = match header["alg"].as_str() {
                    Some("RS384") => &RSA_PKCS1_SHA384,
                    Some("RS512") => &RSA_PKCS1_SHA512,
                    Some("PS256") => &RSA_PSS_SHA256,
                    Some("PS384") => &RSA_PSS_SHA384,
                    Some("PS512") => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(how, &random, signing_input.as_bytes(), &mut signature).expect("signed");
                signature
            }
        };
        format!("{signing_input}.{}", base64url(signature))
    }
}

/// How the issuer behaves.
#[derive(Clone)]
pub enum IssuerBehavior {
    Good,
    Down,
    Hangs,
    /// Sends this body for every request.
    Returns(Value),
}

/// An issuer with one P-256 key.
pub struct Issuer {
    pub key: Signer,
    pub behavior: Mutex<IssuerBehavior>,
    pub keys: Mutex<Vec<Value>>,
    pub name: Mutex<String>,
    /// The number of fetches of its keys, and of all fetches.
    pub key_fetches: AtomicUsize,
    pub fetches: AtomicUsize,
}

impl Issuer {
    pub fn new() -> Arc<Issuer> {
        let key = Signer::generate("ES256");
        let keys = Mutex::new(vec![jwk_with_kid(&key, "k1")]);
        Arc::new(Issuer {
            key,
            behavior: Mutex::new(IssuerBehavior::Good),
            keys,
            name: Mutex::new(ISSUER.to_owned()),
            key_fetches: AtomicUsize::new(0),
            fetches: AtomicUsize::new(0),
        })
    }

    pub fn set_behavior(&self, behavior: IssuerBehavior) {
        *self.behavior.lock().expect("unpoisoned") = behavior;
    }

    pub fn set_keys(&self, keys: &[Value]) {
        *self.keys.lock().expect("unpoisoned") = keys.to_vec();
    }

    pub fn key_fetches(&self) -> usize {
        self.key_fetches.load(Ordering::SeqCst)
    }

    /// A valid token with changed claims; `null` removes a claim.
    pub fn token(&self, changes: Value) -> String {
        self.key.sign(&json!({ "typ": "at+jwt", "alg": "ES256", "kid": "k1" }), &claims(changes))
    }

    pub fn authenticator(self: &Arc<Issuer>) -> Authenticator {
        self.authenticator_requiring("")
    }

    /// An authenticator that requires scopes.
    pub fn authenticator_requiring(self: &Arc<Issuer>, scopes: &str) -> Authenticator {
        let policy = JwtPolicy {
            issuer: ISSUER.to_owned(),
            resource: RESOURCE.to_owned(),
            audiences: Vec::new(),
            scopes: Scopes::parse(scopes),
        };
        let check = JwtVerifier::new(policy, self.clone(), &[]).expect("good terms");
        Authenticator::Jwt(Box::new(check))
    }
}

pub fn jwk_with_kid(key: &Signer, kid: &str) -> Value {
    let mut jwk = key.jwk();
    jwk["kid"] = json!(kid);
    jwk
}

pub fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER,
        "sub": "ada",
        "aud": RESOURCE,
        "exp": unix_now() + 600,
        "iat": unix_now(),
        "client_id": "editor",
        "scope": "tools read",
    });
    let map = claims.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        match value.is_null() {
            true => map.shift_remove(name),
            false => map.insert(name.clone(), value.clone()),
        };
    }
    claims
}

impl Fetch for Issuer {
    fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a> {
        Box::pin(async move {
            // Let other tasks run.
            tokio::task::yield_now().await;
            self.fetches.fetch_add(1, Ordering::SeqCst);
            let is_keys = request.url.path() == "/jwks";
            if is_keys {
                self.key_fetches.fetch_add(1, Ordering::SeqCst);
            }
            let behavior = self.behavior.lock().expect("unpoisoned").clone();
            let body = match behavior {
                IssuerBehavior::Down => {
                    let origin = ISSUER.to_owned();
                    return Err(FetchError::Unreachable { origin, detail: "down".to_owned() });
                }
                IssuerBehavior::Hangs => return std::future::pending().await,
                IssuerBehavior::Returns(body) => body,
                IssuerBehavior::Good if is_keys => {
                    json!({ "keys": *self.keys.lock().expect("unpoisoned") })
                }
                IssuerBehavior::Good => {
                    let name = self.name.lock().expect("unpoisoned");
                    json!({ "issuer": *name, "jwks_uri": format!("{ISSUER}/jwks") })
                }
            };
            let body = Bytes::from(body.to_string());
            Ok(FetchResponse { status: 200, headers: HeaderMap::new(), body })
        })
    }
}

/// Authenticates `POST /mcp` with these headers.
pub async fn authenticate(
    authenticator: &Authenticator,
    headers: &[(&'static str, &str)],
) -> Result<Principal, AuthError> {
    let headers = header_map(headers);
    let target = Uri::from_static("/mcp?x=y");
    authenticator
        .authenticate(RequestHead { headers: &headers, method: &Method::POST, uri: &target })
        .await
}

pub fn header_map(all: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(*name, HeaderValue::from_str(value).expect("a value"));
    }
    headers
}

/// Authenticates with a bearer token.
pub async fn authenticate_bearer(
    authenticator: &Authenticator,
    token: &str,
) -> Result<Principal, AuthError> {
    authenticate(authenticator, &[("authorization", &format!("Bearer {token}"))]).await
}

//! Verifies access tokens of one issuer (RFC 9068): signature, issuer, audience, lifetime. Verified tokens are
//! cached by digest until they expire or the issuer's keys change.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;
use url::Url;

use super::auth_error::{AccessTokenError, AuthError};
use super::credentials::{AuthScheme, PresentedToken, RequestHead};
use super::dpop_verifier::{DpopProofError, DpopVerifier, ExpectedProof};
use super::jwks::{CachedJwks, JwksCache};
use super::jws::Jws;
use super::principal::{Principal, TokenFacts};
use super::protected_resource::ProtectedResource;
use super::verified_token_cache::{VerifiedToken, VerifiedTokenCache};
use crate::crypto::digest::sha256;
use crate::fetch::Fetch;
use crate::scopes::Scopes;
use crate::time_and_random::unix_now;

/// The tolerated clock difference in seconds.
const LEEWAY: u64 = 60;
const MAX_SUBJECT_LENGTH: usize = 256;
const MAX_AUDIENCES: usize = 64;

/// The requirements for tokens.
#[derive(Debug, Clone)]
pub struct JwtPolicy {
    /// The issuer.
    pub issuer: String,
    /// The URL of our server, as clients see it.
    pub resource: String,
    /// Other accepted audiences. Some issuers use their own names for resources.
    pub audiences: Vec<String>,
    /// The scopes that every token needs.
    pub scopes: Scopes,
}

/// Why a policy is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JwtPolicyError {
    /// The issuer is not a suitable URL.
    #[error("the issuer is not an http or https URL without user, query and fragment")]
    Issuer,
    /// The resource is not a suitable URL.
    #[error("the resource is not an http or https URL without user and fragment")]
    Resource,
}

/// Verifies the tokens of one issuer.
pub struct JwtVerifier {
    resource: ProtectedResource,
    issuer: String,
    audiences: Vec<String>,
    jwks: JwksCache,
    cache: RwLock<VerifiedTokenCache>,
    dpop: DpopVerifier,
}

impl fmt::Debug for JwtVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtVerifier")
            .field("issuer", &self.issuer)
            .field("resource", &self.resource.identifier())
            .finish_non_exhaustive()
    }
}

impl JwtVerifier {
    /// A verifier for this policy. The issuer's keys are fetched with the first token. `proxies` are the hosts
    /// of our proxies, which no issuer may name.
    pub fn new(
        policy: JwtPolicy,
        fetch: Arc<dyn Fetch>,
        proxies: &[String],
    ) -> Result<JwtVerifier, JwtPolicyError> {
        let issuer = parse_http_url(&policy.issuer).filter(|url| url.query().is_none());
        let issuer = issuer.ok_or(JwtPolicyError::Issuer)?;
        let resource = parse_http_url(&policy.resource).ok_or(JwtPolicyError::Resource)?;
        let mut audiences = policy.audiences;
        audiences.push(policy.resource.clone());
        Ok(JwtVerifier {
            resource: ProtectedResource::new(&policy.resource, resource, policy.scopes),
            jwks: JwksCache::new(&policy.issuer, issuer, fetch, proxies),
            issuer: policy.issuer,
            audiences,
            cache: RwLock::default(),
            dpop: DpopVerifier::default(),
        })
    }

    /// Our server as a protected resource.
    pub(crate) fn resource(&self) -> &ProtectedResource {
        &self.resource
    }

    /// Our protected resource metadata, with the issuer's own spelling of its identifier.
    pub(crate) fn metadata_document(&self) -> Value {
        let keys = self.jwks.current();
        self.resource.metadata_document(keys.as_ref().map_or(&self.issuer, |keys| &keys.issuer))
    }

    /// The principal of a cached token that is not bound to a key.
    pub(crate) fn cached_bearer(&self, token: &str) -> Option<Principal> {
        let (principal, key) = self.cached(token)?;
        let is_free = key.is_none() && principal.has_scopes(self.resource.scopes());
        is_free.then_some(principal)
    }

    fn cached(&self, token: &str) -> Option<(Principal, Option<Arc<str>>)> {
        let revision = self.jwks.current()?.revision;
        let cache = self.cache.read().unwrap_or_else(PoisonError::into_inner);
        let cached = cache.find(&sha256(token.as_bytes()))?;
        let is_good = cached.revision == revision && unix_now() < cached.expires_at;
        is_good.then(|| (cached.principal.clone(), cached.jkt.clone()))
    }

    /// Verifies a token, and its proof if it is bound.
    pub(crate) async fn verify(
        &self,
        presented: PresentedToken<'_>,
        request: RequestHead<'_>,
    ) -> Result<Principal, AuthError> {
        let (principal, key) = match self.cached(presented.token) {
            Some(cached) => cached,
            None => self.verify_token(presented.token).await?,
        };
        match (presented.scheme, key) {
            (AuthScheme::Bearer, None) => {}
            (AuthScheme::Dpop, Some(key)) => {
                self.verify_dpop(presented.token, &key, request).map_err(AuthError::Proof)?;
            }
            (AuthScheme::Bearer, Some(_)) | (AuthScheme::Dpop, None) => {
                return Err(AuthError::Token(AccessTokenError::WrongScheme));
            }
        }
        match principal.has_scopes(self.resource.scopes()) {
            true => Ok(principal),
            false => Err(AuthError::InsufficientScope(self.resource.scopes().clone())),
        }
    }

    fn verify_dpop(
        &self,
        token: &str,
        key: &str,
        request: RequestHead<'_>,
    ) -> Result<(), DpopProofError> {
        let mut resource_url = self.resource.url().clone();
        resource_url.set_query(None);
        let mut request_url = resource_url.clone();
        request_url.set_path(request.uri.path());
        let expected = ExpectedProof {
            method: request.method.as_str(),
            urls: &[resource_url, request_url],
            token,
            jkt: key,
            now: unix_now(),
        };
        self.dpop.verify(request.headers, expected)
    }

    async fn verify_token(&self, token: &str) -> Result<(Principal, Option<Arc<str>>), AuthError> {
        let jws = Jws::parse(token).ok_or(AuthError::Token(AccessTokenError::Malformed))?;
        if !is_access_token(jws.header.typ.as_deref()) {
            return Err(AuthError::Token(AccessTokenError::WrongType));
        }
        let keys = self.jwks.keys_for(&jws).await.map_err(AuthError::IssuerUnavailable)?;
        self.verify_with(&keys, token, &jws)
    }

    /// The principal of a token that was verified before, if it is still valid: it has not expired, and a current key of the
    /// issuer signed it. Never waits.
    pub(crate) fn still_valid(&self, token: &str) -> Option<Principal> {
        let known = self.cached(token).or_else(|| {
            let (keys, jws) = (self.jwks.current()?, Jws::parse(token)?);
            self.verify_with(&keys, token, &jws).ok()
        });
        let (principal, _) = known?;
        principal.has_scopes(self.resource.scopes()).then_some(principal)
    }

    /// Verifies a token with these keys, and caches it.
    fn verify_with(
        &self,
        keys: &CachedJwks,
        token: &str,
        jws: &Jws<'_>,
    ) -> Result<(Principal, Option<Arc<str>>), AuthError> {
        let claims: Map<String, Value> =
            keys.jwks.verified_claims(jws).ok_or(AuthError::Token(AccessTokenError::Signature))?;
        let claims =
            TokenClaims::parse(claims).ok_or(AuthError::Token(AccessTokenError::Malformed))?;
        let expected =
            ExpectedClaims { issuer: &keys.issuer, audiences: &self.audiences, now: unix_now() };
        let (principal, key) = claims.check(&expected).map_err(AuthError::Token)?;
        let cached = VerifiedToken {
            principal: principal.clone(),
            jkt: key.clone(),
            expires_at: claims.exp.saturating_add(LEEWAY),
            revision: keys.revision,
        };
        let mut cache = self.cache.write().unwrap_or_else(PoisonError::into_inner);
        cache.insert(sha256(token.as_bytes()), cached);
        Ok((principal, key))
    }

    pub(crate) async fn close(&self) {
        self.jwks.close().await;
    }
}

/// Parses the configured URL of an issuer or a resource.
fn parse_http_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    Some(url).filter(|_| is_bare && is_http)
}

/// RFC 9068 defines `at+jwt`; many issuers send `JWT` or no type.
fn is_access_token(typ: Option<&str>) -> bool {
    let known = ["at+jwt", "application/at+jwt", "JWT"];
    typ.is_none_or(|typ| known.iter().any(|it| it.eq_ignore_ascii_case(typ)))
}

/// The claims that we use.
struct TokenClaims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    exp: u64,
    nbf: Option<u64>,
    client: Option<String>,
    scopes: Scopes,
    cnf: Option<Value>,
    facts: TokenFacts,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// The requirements for the claims.
struct ExpectedClaims<'a> {
    issuer: &'a str,
    audiences: &'a [String],
    now: u64,
}

impl TokenClaims {
    fn parse(mut claims: Map<String, Value>) -> Option<TokenClaims> {
        let seconds = |value: &Value| value.as_f64().map(|seconds| seconds as u64);
        let mut text = |name: &str| match claims.remove(name) {
            Some(Value::String(text)) => Some(text),
            Some(_) | None => None,
        };
        let (iss, sub) = (text("iss")?, text("sub").unwrap_or_default());
        let client = text("client_id").or_else(|| text("azp"));
        let id = text("jti");
        let listed = |value: Option<Value>| -> Option<Vec<String>> {
            match serde_json::from_value(value?).ok()? {
                OneOrMany::One(one) => Some(vec![one]),
                OneOrMany::Many(many) => Some(many),
            }
        };
        let aud = listed(claims.remove("aud"))?;
        let scopes = ["scope", "scp"].into_iter().filter_map(|name| listed(claims.remove(name)));
        let scopes: Vec<String> = scopes.flatten().collect();
        Some(TokenClaims {
            iss,
            sub,
            aud,
            exp: seconds(claims.get("exp")?)?,
            // An `nbf` that is not a number makes the token invalid.
            nbf: claims.get("nbf").map(seconds).map_or(Some(None), |it| it.map(Some))?,
            client,
            facts: TokenFacts { id, issued_at: claims.get("iat").and_then(seconds) },
            scopes: Scopes::new(scopes.iter().flat_map(|it| it.split_ascii_whitespace())),
            cnf: claims.remove("cnf"),
        })
    }

    /// Checks the claims, and returns the principal and the thumbprint that the token is bound to.
    fn check(
        &self,
        expected: &ExpectedClaims<'_>,
    ) -> Result<(Principal, Option<Arc<str>>), AccessTokenError> {
        if self.iss != expected.issuer {
            return Err(AccessTokenError::WrongIssuer);
        }
        let is_ours = |aud: &String| expected.audiences.iter().any(|it| is_same_resource(it, aud));
        if self.aud.len() > MAX_AUDIENCES || !self.aud.iter().any(is_ours) {
            return Err(AccessTokenError::WrongAudience);
        }
        if self.exp.saturating_add(LEEWAY) <= expected.now {
            return Err(AccessTokenError::Expired);
        }
        if self.nbf.is_some_and(|nbf| nbf > expected.now.saturating_add(LEEWAY)) {
            return Err(AccessTokenError::NotYetValid);
        }
        let is_named = (1..=MAX_SUBJECT_LENGTH).contains(&self.sub.len());
        if !is_named || self.sub.chars().any(char::is_control) {
            return Err(AccessTokenError::InvalidSubject);
        }
        let key = match &self.cnf {
            None => None,
            Some(cnf) => {
                Some(dpop_thumbprint(cnf).ok_or(AccessTokenError::UnsupportedConfirmation)?)
            }
        };
        let (sub, iss) = (self.sub.clone(), self.iss.clone());
        let of_token = (self.scopes.clone(), self.facts.clone());
        let principal = Principal::from_issuer(sub, iss, self.client.clone(), of_token);
        Ok((principal, key))
    }
}

/// Compares resource identifiers exactly, except for one trailing slash.
fn is_same_resource(one: &str, other: &str) -> bool {
    one.strip_suffix('/').unwrap_or(one) == other.strip_suffix('/').unwrap_or(other)
}

/// The thumbprint that a token is bound to, if there is no other confirmation.
fn dpop_thumbprint(cnf: &Value) -> Option<Arc<str>> {
    let cnf = cnf.as_object().filter(|it| it.len() == 1)?;
    cnf.get("jkt")?.as_str().map(Arc::from)
}

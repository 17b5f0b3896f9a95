//! Tokens of one issuer for us (RFC 9068): signed with one of its keys, for our address, in time. What was checked once
//! is known by its digest until it ends or the issuer's keys change.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;
use url::Url;

use super::doorkeeper::{Asked, Refusal, Scheme, Shown};
use super::dpop_check::{About, ProofFault, Proofs};
use super::jws_check::Jws;
use super::key_ring::KeyRing;
use super::principal::Principal;
use super::protected_resource::ProtectedResource;
use super::{Digest, digest_of};
use crate::fetch::Fetch;
use crate::runner::now;
use crate::scopes::Scopes;

/// How far clocks may be apart, in seconds.
const LEEWAY: u64 = 60;
/// How many tokens are remembered, in each of two halves.
const HALF: usize = 8192;
const LONGEST_SUBJECT: usize = 256;
const MOST_AUDIENCES: usize = 64;

/// What tokens have to be like.
#[derive(Debug, Clone)]
pub struct TokenTerms {
    /// Who issues them.
    pub issuer: String,
    /// Our address, as clients see it.
    pub resource: String,
    /// What else they may be for. Some issuers have names of their own for resources.
    pub audiences: Vec<String>,
    /// What each of them must allow.
    pub scopes: Scopes,
}

/// Why terms make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenTermsError {
    /// The issuer is no URL.
    #[error("the issuer is not an http or https URL without user, query and fragment")]
    Issuer,
    /// Our address is no URL.
    #[error("the resource is not an http or https URL without user and fragment")]
    Resource,
}

/// What is wrong with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenFault {
    /// It is on no list of ours.
    #[error("the token is not known")]
    Unlisted,
    /// It is none that we could check.
    #[error("the token is not a signed one that can be checked here")]
    Malformed,
    /// It is for another purpose.
    #[error("the token is not an access token")]
    Type,
    /// The issuer did not sign it.
    #[error("the token is not signed with a key of the issuer")]
    Signature,
    /// It is another's.
    #[error("the token is of another issuer")]
    Issuer,
    /// It is for another.
    #[error("the token is for another resource")]
    Audience,
    /// It is over.
    #[error("the token has expired")]
    Expired,
    /// It has not begun.
    #[error("the token is not valid yet")]
    Early,
    /// It does not say who it is.
    #[error("the token names no subject that can be used")]
    Subject,
    /// It is bound in a way that we cannot check.
    #[error("the token is bound in a way that cannot be checked here")]
    Binding,
    /// It is shown in the wrong way.
    #[error("a token that is bound to a key is shown with DPoP, and no other is")]
    Scheme,
}

/// Checks the tokens of one issuer.
pub struct IssuerCheck {
    resource: ProtectedResource,
    issuer: String,
    audiences: Vec<String>,
    ring: KeyRing,
    memory: RwLock<Memory>,
    proofs: Proofs,
}

impl fmt::Debug for IssuerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerCheck")
            .field("issuer", &self.issuer)
            .field("resource", &self.resource.text())
            .finish_non_exhaustive()
    }
}

impl IssuerCheck {
    /// Checks tokens on these terms. The issuer is asked when the first token comes. `proxies` are the hosts of ours,
    /// which no issuer may name.
    pub fn new(
        terms: TokenTerms,
        fetch: Arc<dyn Fetch>,
        proxies: &[String],
    ) -> Result<IssuerCheck, TokenTermsError> {
        let issuer = address(&terms.issuer).filter(|url| url.query().is_none());
        let issuer = issuer.ok_or(TokenTermsError::Issuer)?;
        let resource = address(&terms.resource).ok_or(TokenTermsError::Resource)?;
        let mut audiences = terms.audiences;
        audiences.push(terms.resource.clone());
        Ok(IssuerCheck {
            resource: ProtectedResource::new(&terms.resource, resource, terms.scopes),
            ring: KeyRing::new(&terms.issuer, issuer, fetch, proxies),
            issuer: terms.issuer,
            audiences,
            memory: RwLock::default(),
            proofs: Proofs::default(),
        })
    }

    /// Us.
    pub(super) fn resource(&self) -> &ProtectedResource {
        &self.resource
    }

    /// The document about us, which names the issuer as it names itself.
    pub(super) fn document(&self) -> Value {
        let keys = self.ring.current();
        self.resource.document(keys.as_ref().map_or(&self.issuer, |keys| &keys.issuer))
    }

    /// Whose token this is, where it was seen before and needs no proof.
    pub(super) fn known(&self, token: &str) -> Option<Principal> {
        let (principal, key) = self.remembered(token)?;
        let is_free = key.is_none() && principal.covers(self.resource.scopes());
        is_free.then_some(principal)
    }

    fn remembered(&self, token: &str) -> Option<(Principal, Option<Arc<str>>)> {
        let revision = self.ring.current()?.revision;
        let memory = self.memory.read().unwrap_or_else(PoisonError::into_inner);
        let seen = memory.find(&digest_of(token.as_bytes()))?;
        let is_good = seen.revision == revision && now() < seen.until;
        is_good.then(|| (seen.principal.clone(), seen.key.clone()))
    }

    /// Looks at a token, and at its proof.
    pub(super) async fn verify(
        &self,
        shown: Shown<'_>,
        asked: Asked<'_>,
    ) -> Result<Principal, Refusal> {
        let (principal, key) = match self.remembered(shown.token) {
            Some(seen) => seen,
            None => self.check(shown.token).await?,
        };
        match (shown.scheme, key) {
            (Scheme::Bearer, None) => {}
            (Scheme::Dpop, Some(key)) => {
                self.prove(shown.token, &key, asked).map_err(Refusal::Proof)?;
            }
            (Scheme::Bearer, Some(_)) | (Scheme::Dpop, None) => {
                return Err(Refusal::Token(TokenFault::Scheme));
            }
        }
        match principal.covers(self.resource.scopes()) {
            true => Ok(principal),
            false => Err(Refusal::Scopes(self.resource.scopes().clone())),
        }
    }

    fn prove(&self, token: &str, key: &str, asked: Asked<'_>) -> Result<(), ProofFault> {
        let mut own = self.resource.url().clone();
        own.set_query(None);
        let mut there = own.clone();
        there.set_path(asked.target.path());
        let about =
            About { method: asked.method.as_str(), places: &[own, there], token, key, now: now() };
        self.proofs.check(asked.headers, about)
    }

    async fn check(&self, token: &str) -> Result<(Principal, Option<Arc<str>>), Refusal> {
        let statement = Jws::parse(token).ok_or(Refusal::Token(TokenFault::Malformed))?;
        if !is_access_token(statement.header.typ.as_deref()) {
            return Err(Refusal::Token(TokenFault::Type));
        }
        let keys = self.ring.keys_for(&statement).await.map_err(Refusal::Unavailable)?;
        let claims: Map<String, Value> =
            keys.set.claims(&statement).ok_or(Refusal::Token(TokenFault::Signature))?;
        let claims = Claims::parse(claims).ok_or(Refusal::Token(TokenFault::Malformed))?;
        let expected = Expected { issuer: &keys.issuer, audiences: &self.audiences, now: now() };
        let (principal, key) = claims.check(&expected).map_err(Refusal::Token)?;
        let seen = Seen {
            principal: principal.clone(),
            key: key.clone(),
            until: claims.exp.saturating_add(LEEWAY),
            revision: keys.revision,
        };
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        memory.keep(digest_of(token.as_bytes()), seen);
        Ok((principal, key))
    }

    pub(super) async fn close(&self) {
        self.ring.close().await;
    }
}

/// A URL that a person typed as an issuer's or a resource's name.
fn address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    let is_http = matches!(url.scheme(), "http" | "https") && url.has_host();
    Some(url).filter(|_| is_bare && is_http)
}

/// RFC 9068 has a type of its own; many issuers do not know it, or say nothing.
fn is_access_token(typ: Option<&str>) -> bool {
    let known = ["at+jwt", "application/at+jwt", "JWT"];
    typ.is_none_or(|typ| known.iter().any(|it| it.eq_ignore_ascii_case(typ)))
}

/// What a token says, as far as we understand it.
struct Claims {
    iss: String,
    sub: String,
    aud: Vec<String>,
    exp: u64,
    nbf: Option<u64>,
    client: Option<String>,
    scopes: Scopes,
    cnf: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// What a token must say.
struct Expected<'a> {
    issuer: &'a str,
    audiences: &'a [String],
    now: u64,
}

impl Claims {
    fn parse(mut claims: Map<String, Value>) -> Option<Claims> {
        let seconds = |value: &Value| value.as_f64().map(|seconds| seconds as u64);
        let mut text = |name: &str| match claims.remove(name) {
            Some(Value::String(text)) => Some(text),
            Some(_) | None => None,
        };
        let (iss, sub) = (text("iss")?, text("sub").unwrap_or_default());
        let client = text("client_id").or_else(|| text("azp"));
        let listed = |value: Option<Value>| -> Option<Vec<String>> {
            match serde_json::from_value(value?).ok()? {
                OneOrMany::One(one) => Some(vec![one]),
                OneOrMany::Many(many) => Some(many),
            }
        };
        let aud = listed(claims.remove("aud"))?;
        let scopes = ["scope", "scp"].into_iter().filter_map(|name| listed(claims.remove(name)));
        let scopes: Vec<String> = scopes.flatten().collect();
        Some(Claims {
            iss,
            sub,
            aud,
            exp: seconds(claims.get("exp")?)?,
            // One that is there and no time is no token.
            nbf: claims.get("nbf").map(seconds).map_or(Some(None), |it| it.map(Some))?,
            client,
            scopes: Scopes::of(scopes.iter().flat_map(|it| it.split_ascii_whitespace())),
            cnf: claims.remove("cnf"),
        })
    }

    /// Who it is, and the key that the token is bound to.
    fn check(&self, expected: &Expected<'_>) -> Result<(Principal, Option<Arc<str>>), TokenFault> {
        if self.iss != expected.issuer {
            return Err(TokenFault::Issuer);
        }
        let is_ours = |aud: &String| expected.audiences.iter().any(|it| is_same(it, aud));
        if self.aud.len() > MOST_AUDIENCES || !self.aud.iter().any(is_ours) {
            return Err(TokenFault::Audience);
        }
        if self.exp.saturating_add(LEEWAY) <= expected.now {
            return Err(TokenFault::Expired);
        }
        if self.nbf.is_some_and(|nbf| nbf > expected.now.saturating_add(LEEWAY)) {
            return Err(TokenFault::Early);
        }
        let is_named = (1..=LONGEST_SUBJECT).contains(&self.sub.len());
        if !is_named || self.sub.chars().any(char::is_control) {
            return Err(TokenFault::Subject);
        }
        let key = match &self.cnf {
            None => None,
            Some(cnf) => Some(key_in(cnf).ok_or(TokenFault::Binding)?),
        };
        let (sub, iss) = (self.sub.clone(), self.iss.clone());
        let principal = Principal::vouched(sub, iss, self.client.clone(), self.scopes.clone());
        Ok((principal, key))
    }
}

/// Names of resources are compared to the letter, but for one slash at the end.
fn is_same(one: &str, other: &str) -> bool {
    one.strip_suffix('/').unwrap_or(one) == other.strip_suffix('/').unwrap_or(other)
}

/// The key that a token is bound to, if that is all that it is bound to.
fn key_in(cnf: &Value) -> Option<Arc<str>> {
    let cnf = cnf.as_object().filter(|it| it.len() == 1)?;
    cnf.get("jkt")?.as_str().map(Arc::from)
}

/// A token that was good.
struct Seen {
    principal: Principal,
    key: Option<Arc<str>>,
    until: u64,
    revision: u64,
}

/// Tokens that were good, bounded: where the younger half is full, the older one is forgotten.
#[derive(Default)]
struct Memory {
    young: HashMap<Digest, Seen>,
    old: HashMap<Digest, Seen>,
}

impl Memory {
    fn find(&self, digest: &Digest) -> Option<&Seen> {
        self.young.get(digest).or_else(|| self.old.get(digest))
    }

    fn keep(&mut self, digest: Digest, seen: Seen) {
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_tokens_are_remembered_and_the_youngest_stay() {
        let mut memory = Memory::default();
        let digest = |number: usize| digest_of(&number.to_be_bytes());
        for number in 0..5 * HALF {
            let principal = Principal::local();
            memory.keep(digest(number), Seen { principal, key: None, until: 0, revision: 0 });
            assert!(memory.young.len() + memory.old.len() <= 2 * HALF);
        }
        assert!(memory.find(&digest(5 * HALF - 1)).is_some());
        assert!(memory.find(&digest(4 * HALF)).is_some());
        assert!(memory.find(&digest(0)).is_none());
    }
}

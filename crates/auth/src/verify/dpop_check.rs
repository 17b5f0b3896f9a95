//! Proofs that a token is shown by whom it was given to (RFC 9449, section 4.3), as a server checks them: signed with
//! the key that the token names, for this request and this token, just now, and once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use serde::Deserialize;
use thiserror::Error;
use url::Url;

use super::jws_check::{Jws, Key};
use super::{Digest, digest_of};
use crate::pkce::hash;

const DPOP: &str = "dpop";
const LONGEST: usize = 8 * 1024;
const LONGEST_NAME: usize = 256;
/// How old a proof may be, and how far ahead another's clock may be, in seconds.
const OLDEST: u64 = 120;
const AHEAD: u64 = 60;
/// How many proofs are remembered. Each is for as long as it could be shown again.
const MOST: usize = 100_000;

/// What is wrong with a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProofFault {
    /// There is none.
    #[error("the token is bound to a key, and there is no proof of it")]
    Missing,
    /// There are two.
    #[error("there are several proofs")]
    Several,
    /// It is none that we could check.
    #[error("the proof is malformed or not signed with the key that it shows")]
    Malformed,
    /// It is another's.
    #[error("the proof is made with another key than the token's")]
    Key,
    /// It is for something else.
    #[error("the proof is for another request")]
    Request,
    /// It goes with another token.
    #[error("the proof is for another token")]
    Token,
    /// It is not of this moment.
    #[error("the proof is too old, or from the future")]
    Time,
    /// It was shown before.
    #[error("the proof was used before")]
    Reused,
    /// There are too many to remember.
    #[error("too many proofs at once")]
    Busy,
}

/// What a proof must be about.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub method: &'a str,
    /// The places that the request may have gone to, as its sender sees them.
    pub places: &'a [Url],
    pub token: &'a str,
    /// The thumbprint of the token's key.
    pub key: &'a str,
    pub now: u64,
}

#[derive(Deserialize)]
struct Claims {
    jti: String,
    htm: String,
    htu: String,
    iat: f64,
    ath: String,
}

/// The proofs that were shown.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    /// Until when each could be shown again.
    seen: Mutex<HashMap<Digest, u64>>,
}

impl Proofs {
    /// Does the request prove that its sender has the token's key?
    pub fn check(&self, headers: &HeaderMap, about: About<'_>) -> Result<(), ProofFault> {
        let mut proofs = headers.get_all(DPOP).iter();
        let proof = proofs.next().ok_or(ProofFault::Missing)?;
        if proofs.next().is_some() {
            return Err(ProofFault::Several);
        }
        let text = proof.to_str().ok().filter(|it| it.len() <= LONGEST);
        let claims = claims(text.ok_or(ProofFault::Malformed)?, about.key)?;
        if claims.htm != about.method || !is_at(&claims.htu, about.places) {
            return Err(ProofFault::Request);
        }
        if claims.ath != hash(about.token.as_bytes()) {
            return Err(ProofFault::Token);
        }
        // A number that is none, or below zero, becomes zero, which is long ago.
        let made = claims.iat as u64;
        if made.saturating_add(OLDEST) < about.now || made > about.now.saturating_add(AHEAD) {
            return Err(ProofFault::Time);
        }
        if claims.jti.is_empty() || claims.jti.len() > LONGEST_NAME {
            return Err(ProofFault::Malformed);
        }
        let name = digest_of(format!("{} {}", about.key, claims.jti).as_bytes());
        self.remember(name, made.saturating_add(OLDEST), about.now)
    }

    fn remember(&self, name: Digest, until: u64, now: u64) -> Result<(), ProofFault> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.get(&name).is_some_and(|until| *until >= now) {
            return Err(ProofFault::Reused);
        }
        if seen.len() >= MOST {
            seen.retain(|_, until| *until >= now);
        }
        // To forget one would be to let it be used again.
        if seen.len() >= MOST {
            return Err(ProofFault::Busy);
        }
        seen.insert(name, until);
        Ok(())
    }
}

/// What a proof says, if it is signed with the key that it shows and that is the token's.
fn claims(text: &str, key: &str) -> Result<Claims, ProofFault> {
    let proof = Jws::parse(text).ok_or(ProofFault::Malformed)?;
    let is_proof =
        proof.header.typ.as_deref().is_some_and(|it| it.eq_ignore_ascii_case("dpop+jwt"));
    let shown = proof.header.jwk.as_ref().and_then(Key::shown);
    let shown = shown.filter(|_| is_proof).ok_or(ProofFault::Malformed)?;
    if shown.thumbprint() != key {
        return Err(ProofFault::Key);
    }
    proof.claims(&shown).ok_or(ProofFault::Malformed)
}

/// Is it one of these places? Neither a query nor a fragment counts.
fn is_at(text: &str, places: &[Url]) -> bool {
    let Ok(mut url) = Url::parse(text) else { return false };
    url.set_query(None);
    url.set_fragment(None);
    places.contains(&url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_are_forgotten_only_when_they_are_too_old_to_be_shown() {
        let proofs = Proofs::default();
        let digest = |number: usize| digest_of(&number.to_be_bytes());
        for number in 0..MOST {
            assert_eq!(proofs.remember(digest(number), 100, 50), Ok(()));
        }
        assert_eq!(proofs.remember(digest(MOST), 100, 100), Err(ProofFault::Busy));
        assert_eq!(proofs.remember(digest(0), 100, 100), Err(ProofFault::Reused));
        assert_eq!(proofs.remember(digest(MOST), 200, 101), Ok(()));
        assert_eq!(proofs.remember(digest(0), 200, 101), Ok(()));
    }
}

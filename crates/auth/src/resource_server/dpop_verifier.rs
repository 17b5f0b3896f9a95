//! Proofs that a token is shown by whom it was given to (RFC 9449, section 4.3), as a server checks them: signed with
//! the key that the token names, for this request and this token, just now, and once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use serde::Deserialize;
use thiserror::Error;
use url::Url;

use super::jws::{Jwk, Jws};
use crate::crypto::digest::{Sha256Digest, sha256, sha256_base64url};

const DPOP_HEADER: &str = "dpop";
const MAX_PROOF_LENGTH: usize = 8 * 1024;
const MAX_JTI_LENGTH: usize = 256;
/// How old a proof may be, and how far ahead another's clock may be, in seconds.
const MAX_AGE: u64 = 120;
const MAX_CLOCK_SKEW: u64 = 60;
/// How many proofs are remembered. Each is for as long as it could be shown again.
const MAX_REMEMBERED: usize = 100_000;

/// What is wrong with a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DpopProofError {
    /// There is none.
    #[error("the token is bound to a key, and there is no proof of it")]
    Missing,
    /// There are two.
    #[error("there are several proofs")]
    Multiple,
    /// It is none that we could check.
    #[error("the proof is malformed or not signed with the key that it shows")]
    Malformed,
    /// It is another's.
    #[error("the proof is made with another key than the token's")]
    WrongKey,
    /// It is for something else.
    #[error("the proof is for another request")]
    WrongRequest,
    /// It goes with another token.
    #[error("the proof is for another token")]
    WrongToken,
    /// It is not of this moment.
    #[error("the proof is too old, or from the future")]
    OutsideTimeWindow,
    /// It was shown before.
    #[error("the proof was used before")]
    Replayed,
    /// There are too many to remember.
    #[error("too many proofs at once")]
    TooMany,
}

/// What a proof must be about.
#[derive(Clone, Copy)]
pub(crate) struct ExpectedProof<'a> {
    pub method: &'a str,
    /// The places that the request may have gone to, as its sender sees them.
    pub urls: &'a [Url],
    pub token: &'a str,
    /// The thumbprint of the token's key.
    pub jkt: &'a str,
    pub now: u64,
}

#[derive(Deserialize)]
struct ProofClaims {
    jti: String,
    htm: String,
    htu: String,
    iat: f64,
    ath: String,
}

/// The proofs that were shown.
#[derive(Debug, Default)]
pub(crate) struct DpopVerifier {
    /// Until when each could be shown again.
    seen: Mutex<HashMap<Sha256Digest, u64>>,
}

impl DpopVerifier {
    /// Does the request prove that its sender has the token's key?
    pub fn verify(
        &self,
        headers: &HeaderMap,
        expected: ExpectedProof<'_>,
    ) -> Result<(), DpopProofError> {
        let mut proofs = headers.get_all(DPOP_HEADER).iter();
        let proof = proofs.next().ok_or(DpopProofError::Missing)?;
        if proofs.next().is_some() {
            return Err(DpopProofError::Multiple);
        }
        let text = proof.to_str().ok().filter(|it| it.len() <= MAX_PROOF_LENGTH);
        let claims = verified_claims(text.ok_or(DpopProofError::Malformed)?, expected.jkt)?;
        if claims.htm != expected.method || !matches_url(&claims.htu, expected.urls) {
            return Err(DpopProofError::WrongRequest);
        }
        if claims.ath != sha256_base64url(expected.token.as_bytes()) {
            return Err(DpopProofError::WrongToken);
        }
        // A number that is none, or below zero, becomes zero, which is long ago.
        let issued_at = claims.iat as u64;
        if issued_at.saturating_add(MAX_AGE) < expected.now
            || issued_at > expected.now.saturating_add(MAX_CLOCK_SKEW)
        {
            return Err(DpopProofError::OutsideTimeWindow);
        }
        if claims.jti.is_empty() || claims.jti.len() > MAX_JTI_LENGTH {
            return Err(DpopProofError::Malformed);
        }
        let name = sha256(format!("{} {}", expected.jkt, claims.jti).as_bytes());
        self.record_use(name, issued_at.saturating_add(MAX_AGE), expected.now)
    }

    fn record_use(
        &self,
        name: Sha256Digest,
        expires_at: u64,
        now: u64,
    ) -> Result<(), DpopProofError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.get(&name).is_some_and(|expires_at| *expires_at >= now) {
            return Err(DpopProofError::Replayed);
        }
        if seen.len() >= MAX_REMEMBERED {
            seen.retain(|_, expires_at| *expires_at >= now);
        }
        // To forget one would be to let it be used again.
        if seen.len() >= MAX_REMEMBERED {
            return Err(DpopProofError::TooMany);
        }
        seen.insert(name, expires_at);
        Ok(())
    }
}

/// What a proof says, if it is signed with the key that it shows and that is the token's.
fn verified_claims(text: &str, key: &str) -> Result<ProofClaims, DpopProofError> {
    let proof = Jws::parse(text).ok_or(DpopProofError::Malformed)?;
    let is_proof =
        proof.header.typ.as_deref().is_some_and(|it| it.eq_ignore_ascii_case("dpop+jwt"));
    let shown = proof.header.jwk.as_ref().and_then(Jwk::parse_public);
    let shown = shown.filter(|_| is_proof).ok_or(DpopProofError::Malformed)?;
    if shown.thumbprint() != key {
        return Err(DpopProofError::WrongKey);
    }
    proof.verified_claims(&shown).ok_or(DpopProofError::Malformed)
}

/// Is it one of these places? Neither a query nor a fragment counts.
fn matches_url(text: &str, urls: &[Url]) -> bool {
    let Ok(mut url) = Url::parse(text) else { return false };
    url.set_query(None);
    url.set_fragment(None);
    urls.contains(&url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_are_forgotten_only_when_they_are_too_old_to_be_shown() {
        let proofs = DpopVerifier::default();
        let digest = |number: usize| sha256(&number.to_be_bytes());
        for number in 0..MAX_REMEMBERED {
            assert_eq!(proofs.record_use(digest(number), 100, 50), Ok(()));
        }
        assert_eq!(
            proofs.record_use(digest(MAX_REMEMBERED), 100, 100),
            Err(DpopProofError::TooMany)
        );
        assert_eq!(proofs.record_use(digest(0), 100, 100), Err(DpopProofError::Replayed));
        assert_eq!(proofs.record_use(digest(MAX_REMEMBERED), 200, 101), Ok(()));
        assert_eq!(proofs.record_use(digest(0), 200, 101), Ok(()));
    }
}

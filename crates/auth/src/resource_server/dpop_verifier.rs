//! DPoP on the server side (RFC 9449, section 4.3): verifies that a proof is signed with the token's key, is
//! for this request and this token, is recent, and is used once.

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
/// The maximum age of a proof, and the tolerance for a client clock that is ahead, in seconds.
const MAX_AGE: u64 = 120;
const MAX_CLOCK_SKEW: u64 = 60;
/// How many used proofs are remembered, each until it is too old to be accepted.
const MAX_REMEMBERED: usize = 100_000;

/// Why a proof is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DpopProofError {
    /// There is no proof.
    #[error("the token is bound to a key, and the DPoP proof is missing")]
    Missing,
    /// There are several proofs.
    #[error("there is more than one DPoP proof")]
    Multiple,
    /// The proof cannot be parsed or verified.
    #[error("the proof is malformed or not signed with the key in its header")]
    Malformed,
    /// The proof is signed with another key than the token's.
    #[error("the proof is signed with another key than the token's")]
    WrongKey,
    /// The proof is for another request.
    #[error("the proof is for another request")]
    WrongRequest,
    /// The proof is for another token.
    #[error("the proof is for another token")]
    WrongToken,
    /// The proof is too old, or from the future.
    #[error("the proof is too old, or from the future")]
    OutsideTimeWindow,
    /// The proof was used before.
    #[error("the proof was used before")]
    Replayed,
    /// Too many proofs are remembered.
    #[error("too many proofs at once")]
    TooMany,
}

/// The requirements for a proof.
#[derive(Clone, Copy)]
pub(crate) struct ExpectedProof<'a> {
    pub method: &'a str,
    /// The URLs that the client may have used.
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

/// Verifies proofs and remembers the used ones.
#[derive(Debug, Default)]
pub(crate) struct DpopVerifier {
    /// For each used proof, until when it would be accepted again.
    seen: Mutex<HashMap<Sha256Digest, u64>>,
}

impl DpopVerifier {
    /// Verifies that the sender of a request has the token's key.
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
        // NaN and negative numbers become zero, which is too old.
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
        // Dropping an entry would allow a replay.
        if seen.len() >= MAX_REMEMBERED {
            return Err(DpopProofError::TooMany);
        }
        seen.insert(name, expires_at);
        Ok(())
    }
}

/// The claims of a proof, if it is signed with the key in its header and that is the token's key.
fn verified_claims(text: &str, key: &str) -> Result<ProofClaims, DpopProofError> {
    let proof = Jws::parse(text).ok_or(DpopProofError::Malformed)?;
    let is_proof =
        proof.header.typ.as_deref().is_some_and(|it| it.eq_ignore_ascii_case("dpop+jwt"));
    let jwk = proof.header.jwk.as_ref().and_then(Jwk::parse_public);
    let jwk = jwk.filter(|_| is_proof).ok_or(DpopProofError::Malformed)?;
    if jwk.thumbprint() != key {
        return Err(DpopProofError::WrongKey);
    }
    proof.verified_claims(&jwk).ok_or(DpopProofError::Malformed)
}

/// Whether a URL is one of these, without query and fragment.
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
    fn proofs_are_forgotten_only_after_they_expire() {
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

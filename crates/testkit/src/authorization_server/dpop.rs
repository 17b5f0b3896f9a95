//! Verifies DPoP proofs (RFC 9449), each usable once.

use serde_json::json;

use super::config::DpopPolicy;
use super::grant_store::GrantStore;
use super::jwt::{UnverifiedJwt, jwk_thumbprint, sha256_base64url};
use super::observed_request::ObservedRequest;

/// The maximum age of a proof in seconds.
const MAX_AGE_SECONDS: u64 = 300;

/// Why a proof is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DpopError {
    /// The proof is malformed or does not match the request.
    Invalid(&'static str),
    /// The proof lacks the server's nonce.
    NonceRequired,
}

/// The values that a proof must contain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedProof<'a> {
    /// The URL of the request without its query.
    pub url: &'a str,
    /// The server's nonce, if one is required.
    pub nonce: &'a str,
    /// The access token that the proof accompanies.
    pub token: Option<&'a str>,
}

/// Verifies the proof of a request and returns the thumbprint of its key; `None` if there is no proof.
pub(crate) fn verify_proof(
    store: &mut GrantStore,
    request: &ObservedRequest,
    expected: ExpectedProof<'_>,
) -> Result<Option<String>, DpopError> {
    let invalid = |why| Err(DpopError::Invalid(why));
    let mut proofs = request.headers.iter().filter(|(name, _)| name == "dpop");
    let Some((_, proof)) = proofs.next() else { return Ok(None) };
    if proofs.next().is_some() {
        return invalid("there is more than one proof");
    }
    let Some(proof) = UnverifiedJwt::parse(proof) else { return invalid("the proof is not a JWT") };
    let key = &proof.header["jwk"];
    if proof.header["typ"] != "dpop+jwt" || key.get("d").is_some() || !proof.is_signed_by(key) {
        return invalid("the proof is not signed with its key");
    }
    let claims = &proof.claims;
    if claims["htm"] != json!(request.method) || claims["htu"] != expected.url {
        return invalid("the proof is for another request");
    }
    let is_fresh =
        claims["iat"].as_u64().is_some_and(|at| at.abs_diff(super::unix_time()) <= MAX_AGE_SECONDS);
    if !is_fresh {
        return invalid("the proof is too old, or from the future");
    }
    if let Some(token) = expected.token
        && claims["ath"] != sha256_base64url(token.as_bytes())
    {
        return invalid("the proof is for another token");
    }
    if store.config.dpop == DpopPolicy::RequiredWithNonce && claims["nonce"] != expected.nonce {
        return Err(DpopError::NonceRequired);
    }
    match claims["jti"].as_str() {
        Some(name) if store.used_jtis.insert(format!("proof {name}")) => {
            Ok(Some(jwk_thumbprint(key)))
        }
        Some(_) => {
            store.counters.dpop_proofs_reused += 1;
            invalid("the proof was used before")
        }
        None => invalid("the proof has no jti"),
    }
}

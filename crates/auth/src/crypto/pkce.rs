//! PKCE (RFC 7636): proves that the client that redeems an authorization code is the client that requested it.

use crate::crypto::digest::sha256_base64url;
use crate::secret::Secret;
use crate::time_and_random::TimeAndRandom;

/// The code verifier. It stays secret until the code is redeemed.
#[derive(Debug, Clone)]
pub struct PkceVerifier(Secret);

impl PkceVerifier {
    /// Generates a verifier.
    pub fn new(inputs: &mut TimeAndRandom<'_>) -> PkceVerifier {
        PkceVerifier(inputs.random_token())
    }

    /// The code challenge, by method `S256`.
    pub fn challenge(&self) -> String {
        sha256_base64url(self.0.reveal().as_bytes())
    }

    /// The verifier text, for the token request.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_and_random::with_system_random;

    #[test]
    fn the_example_of_rfc_7636_matches() {
        let verifier = PkceVerifier(Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
        assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn verifiers_are_unique_and_long_enough() {
        let [one, other] = [0, 0].map(|now| with_system_random(now, PkceVerifier::new));
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), 43);
        assert!(!format!("{one:?}").contains(one.reveal()));
    }
}

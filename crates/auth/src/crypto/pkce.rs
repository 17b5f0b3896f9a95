//! Proof that who fetches the tokens is who asked for them (RFC 7636), and other texts made from chance.

use crate::crypto::digest::sha256_base64url;
use crate::secret::Secret;
use crate::time_and_random::TimeAndRandom;

/// What only we know until the tokens are fetched.
#[derive(Debug, Clone)]
pub struct PkceVerifier(Secret);

impl PkceVerifier {
    /// A new one.
    pub fn new(inputs: &mut TimeAndRandom<'_>) -> PkceVerifier {
        PkceVerifier(inputs.random_token())
    }

    /// What is shown of it beforehand, by method `S256`.
    pub fn challenge(&self) -> String {
        sha256_base64url(self.0.reveal().as_bytes())
    }

    /// What is shown in the end.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_and_random::with_system_random;

    #[test]
    fn the_example_of_the_rfc_comes_out() {
        let verifier = PkceVerifier(Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"));
        assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn each_is_another_and_long_enough() {
        let [one, other] = [0, 0].map(|now| with_system_random(now, PkceVerifier::new));
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), 43);
        assert!(!format!("{one:?}").contains(one.reveal()));
    }
}

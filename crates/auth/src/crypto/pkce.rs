//! Proof that who fetches the tokens is who asked for them (RFC 7636), and other texts made from chance.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::secret::Secret;

/// Time and chance, which pure code is given. Tests give it what they like.
pub struct TimeAndRandom<'a> {
    /// Seconds since 1970.
    pub now: u64,
    /// Fills bytes with chance.
    pub random: &'a mut dyn FnMut(&mut [u8]),
}

impl TimeAndRandom<'_> {
    /// A text of 256 bits that nobody can guess.
    pub fn random_token(&mut self) -> Secret {
        let mut bytes = [0; 32];
        (self.random)(&mut bytes);
        Secret::new(URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// Runs something at this moment, with the system's chance.
pub(crate) fn with_system_random<T>(now: u64, run: impl FnOnce(&mut TimeAndRandom<'_>) -> T) -> T {
    let mut random = |bytes: &mut [u8]| {
        aws_lc_rs::rand::fill(bytes).expect("the system's generator does not run dry");
    };
    run(&mut TimeAndRandom { now, random: &mut random })
}

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

/// SHA-256, as URLs and headers take it.
pub(crate) fn sha256_base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

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

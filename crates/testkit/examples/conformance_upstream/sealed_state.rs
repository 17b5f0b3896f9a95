//! State that a client carries between two rounds and cannot change unnoticed.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign, verify};
use aws_lc_rs::rand::SystemRandom;

/// Separates the payload from its signature.
const SEPARATOR: char = '.';

/// The key of this process.
#[derive(Debug)]
pub struct Seal {
    key: Key,
}

impl Seal {
    /// A new key.
    pub fn new() -> Seal {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new());
        Seal { key: key.expect("the system has random numbers") }
    }

    /// The payload with its signature.
    pub fn seal(&self, payload: &str) -> String {
        let signature = sign(&self.key, payload.as_bytes());
        format!("{payload}{SEPARATOR}{}", hex(signature.as_ref()))
    }

    /// The payload, if its signature is valid.
    pub fn unseal<'a>(&self, state: &'a str) -> Option<&'a str> {
        let (payload, signature) = state.rsplit_once(SEPARATOR)?;
        verify(&self.key, payload.as_bytes(), &unhex(signature)?).ok()?;
        Some(payload)
    }
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

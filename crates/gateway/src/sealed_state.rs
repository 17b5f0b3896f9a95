//! Seals values that a client has to send back (AES-256-GCM): the client can neither read nor change them, and only the
//! same principal can use them before they expire. The key lives as long as the process.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use thiserror::Error;

/// The length of a key, in bytes.
const KEY_LEN: usize = 32;
/// The longest text to unseal.
const MAX_SEALED_LEN: usize = 1024 * 1024;

/// Seals and unseals values.
#[derive(Debug)]
pub(crate) struct StateSealer(RandomizedNonceKey);

/// Why a text cannot be unsealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum UnsealError {
    /// It was not sealed with this key for this principal.
    #[error("the state was not sealed here")]
    Invalid,
    #[error("the state has expired")]
    Expired,
}

impl StateSealer {
    pub(crate) fn new() -> StateSealer {
        let mut key = [0; KEY_LEN];
        rand::fill(&mut key).expect("the system has random numbers");
        StateSealer(
            RandomizedNonceKey::new(&AES_256_GCM, &key).expect("the key has the right size"),
        )
    }

    /// Seals a value for one principal.
    pub(crate) fn seal(&self, principal: &str, value: &impl Serialize, ttl: Duration) -> String {
        let expires_at = now().saturating_add(ttl.as_secs());
        let mut bytes = json!([expires_at, value]).to_string().into_bytes();
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(principal.as_bytes()), &mut bytes)
            .expect("the text is within the limit of AES-GCM");
        let mut sealed_bytes = nonce.as_ref().to_vec();
        sealed_bytes.append(&mut bytes);
        BASE64_URL_SAFE_NO_PAD.encode(sealed_bytes)
    }

    /// Unseals a value that was sealed for this principal.
    pub(crate) fn unseal<T: DeserializeOwned>(
        &self,
        principal: &str,
        text: &str,
    ) -> Result<T, UnsealError> {
        if text.len() > MAX_SEALED_LEN {
            return Err(UnsealError::Invalid);
        }
        let sealed_bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| UnsealError::Invalid)?;
        let (nonce, sealed) =
            sealed_bytes.split_at_checked(NONCE_LEN).ok_or(UnsealError::Invalid)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| UnsealError::Invalid)?;
        let mut bytes = sealed.to_vec();
        let opened = self.0.open_in_place(nonce, Aad::from(principal.as_bytes()), &mut bytes);
        let opened = opened.map_err(|_| UnsealError::Invalid)?;
        let (expires_at, value): (u64, Json) =
            serde_json::from_slice(opened).map_err(|_| UnsealError::Invalid)?;
        if expires_at < now() {
            return Err(UnsealError::Expired);
        }
        serde_json::from_value(value).map_err(|_| UnsealError::Invalid)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn only_the_same_principal_can_unseal_an_unchanged_text() {
        let sealer = StateSealer::new();
        let text = sealer.seal("ada", &"secret", HOUR);
        assert_eq!(sealer.unseal::<String>("ada", &text), Ok("secret".to_owned()));
        assert_eq!(sealer.unseal::<String>("bob", &text), Err(UnsealError::Invalid));
        assert!(!text.contains("secret"));
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("text");
            assert!(sealer.unseal::<String>("ada", &changed).is_err(), "at {at}");
        }
        assert_eq!(StateSealer::new().unseal::<String>("ada", &text), Err(UnsealError::Invalid));
        assert_eq!(sealer.unseal::<String>("ada", ""), Err(UnsealError::Invalid));
    }

    #[test]
    fn a_sealed_text_expires() {
        let sealer = StateSealer::new();
        let expires_at = now() - 1;
        let mut bytes = json!([expires_at, "x"]).to_string().into_bytes();
        let nonce =
            sealer.0.seal_in_place_append_tag(Aad::from(b"ada"), &mut bytes).expect("sealed");
        let mut sealed_bytes = nonce.as_ref().to_vec();
        sealed_bytes.append(&mut bytes);
        let text = BASE64_URL_SAFE_NO_PAD.encode(sealed_bytes);
        assert_eq!(sealer.unseal::<String>("ada", &text), Err(UnsealError::Expired));
    }
}

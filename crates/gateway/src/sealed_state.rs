//! Seals what a client is told to give back: nobody can read it, change it, or use it after its time or as somebody
//! else. The key ends with the process, and so do the things that sealed texts are about.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use thiserror::Error;

/// How many bytes a key has.
const KEY_LEN: usize = 32;
/// The longest text that is opened.
const MAX_SEALED_LEN: usize = 1024 * 1024;

/// Seals and opens.
#[derive(Debug)]
pub(crate) struct StateSealer(RandomizedNonceKey);

/// A text is none of ours, or not for this one, or not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum UnsealError {
    #[error("it was not given out here")]
    Invalid,
    #[error("its time is over")]
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

    /// Seals something for one principal.
    pub(crate) fn seal(&self, principal: &str, value: &impl Serialize, ttl: Duration) -> String {
        let expires_at = now().saturating_add(ttl.as_secs());
        let mut bytes = json!([expires_at, value]).to_string().into_bytes();
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(principal.as_bytes()), &mut bytes)
            .expect("what we write is short enough to be sealed");
        let mut sealed_bytes = nonce.as_ref().to_vec();
        sealed_bytes.append(&mut bytes);
        BASE64_URL_SAFE_NO_PAD.encode(sealed_bytes)
    }

    /// Opens what was sealed for this principal.
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
    fn only_the_one_it_was_given_to_can_use_it_and_only_as_it_was_given() {
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
    fn it_ends() {
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

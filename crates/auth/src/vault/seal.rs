//! What lies on the disk: a record as it is, or sealed with AES-256-GCM under a key that lies elsewhere.
//! A sealed record is bound to its name, so one cannot be put in another's place.

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::VaultError;

/// How many bytes a key has.
pub(super) const KEY: usize = 32;

/// Seals and opens.
#[derive(Debug)]
pub(super) enum Seal {
    /// Leaves things as they are: the file is the owner's alone.
    Open,
    /// Seals with a key.
    Key(RandomizedNonceKey),
}

/// A file's content.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Envelope {
    Open(Box<RawValue>),
    Sealed { nonce: String, text: String },
}

impl Seal {
    pub(super) fn with(key: &[u8; KEY]) -> Seal {
        Seal::Key(RandomizedNonceKey::new(&AES_256_GCM, key).expect("the key has the right size"))
    }

    pub(super) fn close(&self, name: &str, text: String) -> Result<Vec<u8>, VaultError> {
        let envelope = match self {
            Seal::Open => {
                Envelope::Open(RawValue::from_string(text).map_err(|_| VaultError::Damaged)?)
            }
            Seal::Key(key) => {
                let mut bytes = text.into_bytes();
                let nonce = key
                    .seal_in_place_append_tag(Aad::from(name.as_bytes()), &mut bytes)
                    .map_err(|_| VaultError::Sealed)?;
                let nonce = STANDARD.encode(nonce.as_ref());
                Envelope::Sealed { nonce, text: STANDARD.encode(bytes) }
            }
        };
        serde_json::to_vec(&envelope).map_err(|_| VaultError::Damaged)
    }

    pub(super) fn open(&self, name: &str, content: &[u8]) -> Result<String, VaultError> {
        let envelope: Envelope =
            serde_json::from_slice(content).map_err(|_| VaultError::Damaged)?;
        let (nonce, text) = match (envelope, self) {
            (Envelope::Open(text), _) => return Ok(text.get().to_owned()),
            (Envelope::Sealed { .. }, Seal::Open) => return Err(VaultError::Sealed),
            (Envelope::Sealed { nonce, text }, Seal::Key(_)) => (nonce, text),
        };
        let Seal::Key(key) = self else { return Err(VaultError::Sealed) };
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| VaultError::Damaged);
        let nonce = Nonce::try_assume_unique_for_key(&decode(&nonce)?);
        let nonce = nonce.map_err(|_| VaultError::Damaged)?;
        let mut bytes = decode(&text)?;
        // A wrong key and a changed text look the same.
        let opened = key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut bytes);
        let opened = opened.map_err(|_| VaultError::Sealed)?;
        String::from_utf8(opened.to_vec()).map_err(|_| VaultError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"canary":1}"#;

    #[test]
    fn what_is_sealed_opens_with_its_key_under_its_name_only() {
        let seal = Seal::with(&[7; KEY]);
        let closed = seal.close("a", TEXT.to_owned()).expect("sealed");
        assert!(!String::from_utf8_lossy(&closed).contains("canary"));
        assert_eq!(seal.open("a", &closed).expect("opened"), TEXT);
        for (seal, name) in [(&seal, "b"), (&Seal::with(&[8; KEY]), "a"), (&Seal::Open, "a")] {
            assert!(matches!(seal.open(name, &closed), Err(VaultError::Sealed)));
        }
        let again = seal.close("a", TEXT.to_owned()).expect("sealed");
        assert_ne!(again, closed);
    }

    #[test]
    fn what_was_kept_open_can_be_read_with_a_key_too() {
        let closed = Seal::Open.close("a", TEXT.to_owned()).expect("kept");
        assert_eq!(Seal::with(&[7; KEY]).open("a", &closed).expect("opened"), TEXT);
        for rubbish in [
            &b""[..],
            b"{}",
            b"{\"sealed\":{}}",
            b"\xff",
            b"{\"sealed\":{\"nonce\":\"!\",\"text\":\"\"}}",
        ] {
            assert!(matches!(Seal::with(&[7; KEY]).open("a", rubbish), Err(VaultError::Damaged)));
        }
    }
}

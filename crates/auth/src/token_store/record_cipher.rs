//! What lies on the disk: a record as it is, or sealed with AES-256-GCM under a key that lies elsewhere.
//! A sealed record is bound to its name, so one cannot be put in another's place.

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::TokenStoreError;

/// How many bytes a key has.
pub(crate) const KEY_LENGTH: usize = 32;

/// Seals and opens.
#[derive(Debug)]
pub(crate) enum RecordCipher {
    /// Leaves things as they are: the file is the owner's alone.
    Plaintext,
    /// Seals with a key.
    Aes256Gcm(RandomizedNonceKey),
}

/// A file's content.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Envelope {
    Open(Box<RawValue>),
    Sealed { nonce: String, text: String },
}

impl RecordCipher {
    pub(crate) fn new(key: &[u8; KEY_LENGTH]) -> RecordCipher {
        RecordCipher::Aes256Gcm(
            RandomizedNonceKey::new(&AES_256_GCM, key).expect("the key has the right size"),
        )
    }

    pub(crate) fn encrypt(&self, name: &str, text: String) -> Result<Vec<u8>, TokenStoreError> {
        let envelope = match self {
            RecordCipher::Plaintext => {
                Envelope::Open(RawValue::from_string(text).map_err(|_| TokenStoreError::Corrupt)?)
            }
            RecordCipher::Aes256Gcm(key) => {
                let mut bytes = text.into_bytes();
                let nonce = key
                    .seal_in_place_append_tag(Aad::from(name.as_bytes()), &mut bytes)
                    .map_err(|_| TokenStoreError::Sealed)?;
                let nonce = STANDARD.encode(nonce.as_ref());
                Envelope::Sealed { nonce, text: STANDARD.encode(bytes) }
            }
        };
        serde_json::to_vec(&envelope).map_err(|_| TokenStoreError::Corrupt)
    }

    pub(crate) fn decrypt(&self, name: &str, content: &[u8]) -> Result<String, TokenStoreError> {
        let envelope: Envelope =
            serde_json::from_slice(content).map_err(|_| TokenStoreError::Corrupt)?;
        let (nonce, text) = match (envelope, self) {
            (Envelope::Open(text), _) => return Ok(text.get().to_owned()),
            (Envelope::Sealed { .. }, RecordCipher::Plaintext) => {
                return Err(TokenStoreError::Sealed);
            }
            (Envelope::Sealed { nonce, text }, RecordCipher::Aes256Gcm(_)) => (nonce, text),
        };
        let RecordCipher::Aes256Gcm(key) = self else { return Err(TokenStoreError::Sealed) };
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| TokenStoreError::Corrupt);
        let nonce = Nonce::try_assume_unique_for_key(&decode(&nonce)?);
        let nonce = nonce.map_err(|_| TokenStoreError::Corrupt)?;
        let mut bytes = decode(&text)?;
        // A wrong key and a changed text look the same.
        let decrypted = key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut bytes);
        let decrypted = decrypted.map_err(|_| TokenStoreError::Sealed)?;
        String::from_utf8(decrypted.to_vec()).map_err(|_| TokenStoreError::Corrupt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"canary":1}"#;

    #[test]
    fn what_is_sealed_opens_with_its_key_under_its_name_only() {
        let seal = RecordCipher::new(&[7; KEY_LENGTH]);
        let encrypted = seal.encrypt("a", TEXT.to_owned()).expect("sealed");
        assert!(!String::from_utf8_lossy(&encrypted).contains("canary"));
        assert_eq!(seal.decrypt("a", &encrypted).expect("opened"), TEXT);
        for (seal, name) in [
            (&seal, "b"),
            (&RecordCipher::new(&[8; KEY_LENGTH]), "a"),
            (&RecordCipher::Plaintext, "a"),
        ] {
            assert!(matches!(seal.decrypt(name, &encrypted), Err(TokenStoreError::Sealed)));
        }
        let again = seal.encrypt("a", TEXT.to_owned()).expect("sealed");
        assert_ne!(again, encrypted);
    }

    #[test]
    fn what_was_kept_open_can_be_read_with_a_key_too() {
        let encrypted = RecordCipher::Plaintext.encrypt("a", TEXT.to_owned()).expect("kept");
        assert_eq!(
            RecordCipher::new(&[7; KEY_LENGTH]).decrypt("a", &encrypted).expect("opened"),
            TEXT
        );
        for rubbish in [
            &b""[..],
            b"{}",
            b"{\"sealed\":{}}",
            b"\xff",
            b"{\"sealed\":{\"nonce\":\"!\",\"text\":\"\"}}",
        ] {
            assert!(matches!(
                RecordCipher::new(&[7; KEY_LENGTH]).decrypt("a", rubbish),
                Err(TokenStoreError::Corrupt)
            ));
        }
    }
}

//! The content of a record file: plain, or encrypted with AES-256-GCM and a key from the keychain. An encrypted
//! record is bound to its file name, so that it cannot replace another.

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::TokenStoreError;

/// The length of a key in bytes.
pub(crate) const KEY_LENGTH: usize = 32;

/// Encrypts and decrypts records.
#[derive(Debug)]
pub(crate) enum RecordCipher {
    /// No encryption: only the owner can read the file.
    Plaintext,
    /// Encryption with this key.
    Aes256Gcm(RandomizedNonceKey),
}

/// The content of a file.
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
        // A wrong key and a modified text cannot be distinguished.
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
    fn a_record_decrypts_only_with_its_key_and_name() {
        let cipher = RecordCipher::new(&[7; KEY_LENGTH]);
        let encrypted = cipher.encrypt("a", TEXT.to_owned()).expect("encrypted");
        assert!(!String::from_utf8_lossy(&encrypted).contains("canary"));
        assert_eq!(cipher.decrypt("a", &encrypted).expect("decrypted"), TEXT);
        for (cipher, name) in [
            (&cipher, "b"),
            (&RecordCipher::new(&[8; KEY_LENGTH]), "a"),
            (&RecordCipher::Plaintext, "a"),
        ] {
            assert!(matches!(cipher.decrypt(name, &encrypted), Err(TokenStoreError::Sealed)));
        }
        let again = cipher.encrypt("a", TEXT.to_owned()).expect("encrypted");
        assert_ne!(again, encrypted);
    }

    #[test]
    fn a_plain_record_can_be_read_with_a_key() {
        let encrypted = RecordCipher::Plaintext.encrypt("a", TEXT.to_owned()).expect("encrypted");
        assert_eq!(
            RecordCipher::new(&[7; KEY_LENGTH]).decrypt("a", &encrypted).expect("decrypted"),
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

//! Seals values that leave the process (AES-256-GCM): request states, which a client has to send back, and what replicas
//! share. They cannot be read or changed without the key. The first key seals, all keys open. Without configured keys there
//! is one that lives as long as the process.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::aead::{
    AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, RandomizedNonceKey, UnboundKey,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use thiserror::Error;
use tokio::sync::watch;

/// The length of a key, in bytes.
pub(crate) const KEY_LEN: usize = 32;
/// The longest text to unseal.
const MAX_SEALED_LEN: usize = 1024 * 1024;
/// The length of the random number that each sealed value has a key of its own from.
const SALT_LEN: usize = 16;

/// A key.
pub struct SealKey {
    bytes: [u8; KEY_LEN],
    /// For values that are sealed with this key itself.
    cipher: RandomizedNonceKey,
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(…)")
    }
}

impl SealKey {
    pub(crate) fn new(bytes: [u8; KEY_LEN]) -> SealKey {
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, &bytes);
        SealKey { bytes, cipher: cipher.expect("the key has the right size") }
    }

    fn random() -> SealKey {
        let mut bytes = [0; KEY_LEN];
        rand::fill(&mut bytes).expect("the system has random numbers");
        SealKey::new(bytes)
    }

    /// The cipher for one value or one exchange. A key may seal 2^32 values with random nonces, which a busy fleet does in
    /// days; with a key for each, there is no such limit.
    fn derive(&self, salt: &[u8; SALT_LEN], purpose: &str) -> LessSafeKey {
        let secret = Salt::new(HKDF_SHA256, salt).extract(&self.bytes);
        let info = [purpose.as_bytes()];
        let expanded = secret.expand(&info, &AES_256_GCM).expect("the length is that of a key");
        LessSafeKey::new(UnboundKey::from(expanded))
    }
}

/// The keys, newest first. Never empty.
pub(crate) type SealKeys = Arc<[SealKey]>;

/// Seals and unseals values. Clones share the keys.
#[derive(Debug, Clone)]
pub(crate) struct StateSealer(watch::Receiver<SealKeys>);

/// Why a text cannot be unsealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum UnsealError {
    /// It was not sealed with one of these keys for this principal.
    #[error("the state was not sealed here")]
    Invalid,
    #[error("the state has expired")]
    Expired,
}

/// A cipher for the parts of one exchange, which are numbered. The same cipher must not seal two parts with one number.
pub(crate) struct ExchangeCipher(LessSafeKey);

impl fmt::Debug for ExchangeCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExchangeCipher(…)")
    }
}

impl ExchangeCipher {
    fn nonce(number: u64) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    pub(crate) fn seal(&self, number: u64, bytes: &mut Vec<u8>) {
        self.0
            .seal_in_place_append_tag(ExchangeCipher::nonce(number), Aad::empty(), bytes)
            .expect("the bytes are within the limit of AES-GCM");
    }

    pub(crate) fn open(&self, number: u64, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let nonce = ExchangeCipher::nonce(number);
        let length = self.0.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

impl StateSealer {
    /// A key that lives as long as the process.
    pub(crate) fn new() -> StateSealer {
        StateSealer(watch::channel(Arc::from([SealKey::random()])).1)
    }

    /// These keys, which may change.
    pub(crate) fn with_keys(keys: watch::Receiver<SealKeys>) -> StateSealer {
        StateSealer(keys)
    }

    /// The keys, now and after each change.
    pub(crate) fn watch_keys(&self) -> watch::Receiver<SealKeys> {
        self.0.clone()
    }

    fn keys(&self) -> SealKeys {
        self.0.borrow().clone()
    }

    /// A cipher of the newest key for one exchange, and the salt that the other side finds it with.
    pub(crate) fn exchange(&self, purpose: &str) -> (Vec<u8>, ExchangeCipher) {
        let mut salt = [0; SALT_LEN];
        rand::fill(&mut salt).expect("the system has random numbers");
        let cipher = self.keys()[0].derive(&salt, purpose);
        (salt.to_vec(), ExchangeCipher(cipher))
    }

    /// Opens the first part of an exchange that begins with its salt, and returns the cipher for the others.
    pub(crate) fn accept(&self, purpose: &str, sealed: &[u8]) -> Option<(Vec<u8>, ExchangeCipher)> {
        let (salt, first) = sealed.split_first_chunk::<SALT_LEN>()?;
        self.keys().iter().find_map(|key| {
            let cipher = ExchangeCipher(key.derive(salt, purpose));
            Some((cipher.open(0, first.to_vec())?, cipher))
        })
    }

    /// Seals bytes for one purpose, for example the name under which they are stored.
    pub(crate) fn seal_bytes(&self, purpose: &str, bytes: &[u8]) -> Vec<u8> {
        let (mut sealed, cipher) = self.exchange(purpose);
        let mut bytes = bytes.to_vec();
        cipher.seal(0, &mut bytes);
        sealed.append(&mut bytes);
        sealed
    }

    /// Opens bytes that were sealed for this purpose.
    pub(crate) fn unseal_bytes(&self, purpose: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        self.accept(purpose, sealed).map(|(bytes, _)| bytes)
    }

    /// Seals a value for one principal.
    pub(crate) fn seal(&self, principal: &str, value: &impl Serialize, ttl: Duration) -> String {
        let expires_at = now().saturating_add(ttl.as_secs());
        let mut bytes = json!([expires_at, value]).to_string().into_bytes();
        let nonce = self.keys()[0]
            .cipher
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
        let opened = self.keys().iter().find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut bytes = sealed.to_vec();
            let aad = Aad::from(principal.as_bytes());
            let length = key.cipher.open_in_place(nonce, aad, &mut bytes).ok()?.len();
            bytes.truncate(length);
            Some(bytes)
        });
        let opened = opened.ok_or(UnsealError::Invalid)?;
        let (expires_at, value): (u64, Json) =
            serde_json::from_slice(&opened).map_err(|_| UnsealError::Invalid)?;
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
        let cipher = &sealer.keys()[0].cipher;
        let nonce = cipher.seal_in_place_append_tag(Aad::from(b"ada"), &mut bytes).expect("sealed");
        let mut sealed_bytes = nonce.as_ref().to_vec();
        sealed_bytes.append(&mut bytes);
        let text = BASE64_URL_SAFE_NO_PAD.encode(sealed_bytes);
        assert_eq!(sealer.unseal::<String>("ada", &text), Err(UnsealError::Expired));
    }

    #[test]
    fn a_new_key_seals_and_the_old_one_still_opens() {
        let ring =
            |keys: &[u8]| -> SealKeys { keys.iter().map(|it| SealKey::new([*it; 32])).collect() };
        let (publish, keys) = watch::channel(ring(&[1]));
        let sealer = StateSealer::with_keys(keys);
        let (text, bytes) = (sealer.seal("ada", &"x", HOUR), sealer.seal_bytes("a key", b"x"));
        publish.send(ring(&[2, 1])).expect("the sealer watches");
        assert_eq!(sealer.unseal::<String>("ada", &text), Ok("x".to_owned()));
        assert_eq!(sealer.unseal_bytes("a key", &bytes).as_deref(), Some(b"x".as_slice()));
        assert_eq!(sealer.unseal_bytes("another key", &bytes), None);
        let newer = sealer.seal("ada", &"y", HOUR);
        publish.send(ring(&[2])).expect("the sealer watches");
        assert_eq!(sealer.unseal::<String>("ada", &newer), Ok("y".to_owned()));
        assert_eq!(sealer.unseal::<String>("ada", &text), Err(UnsealError::Invalid));
        assert_eq!(sealer.unseal_bytes("a key", &bytes), None);
    }

    #[test]
    fn the_parts_of_an_exchange_cannot_be_swapped_or_cut() {
        let sealer = StateSealer::new();
        let (mut first, cipher) = sealer.exchange("test");
        let mut part = b"first".to_vec();
        cipher.seal(0, &mut part);
        first.append(&mut part);
        let mut second = b"second".to_vec();
        cipher.seal(1, &mut second);
        let (opened, other_end) = sealer.accept("test", &first).expect("it is ours");
        assert_eq!(opened, b"first");
        assert_eq!(other_end.open(2, second.clone()), None);
        assert_eq!(other_end.open(1, second[..second.len() - 1].to_vec()), None);
        assert_eq!(other_end.open(1, second).as_deref(), Some(b"second".as_slice()));
        assert!(sealer.accept("other", &first).is_none() && sealer.accept("test", b"x").is_none());
    }
}

//! The system keychain. It holds only the key that encrypts login records: entries are limited in size, and
//! each may prompt the user.

#[cfg(any(target_os = "macos", windows))]
mod native;
#[cfg(target_os = "linux")]
mod secret_service;

use std::pin::Pin;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use tokio::time::timeout;

use super::record_cipher::KEY_LENGTH;
use crate::secret::Secret;
use crate::time_and_random::with_system_random;

#[cfg(any(target_os = "macos", windows))]
pub use native::NativeKeychain as SystemKeychain;
#[cfg(target_os = "linux")]
pub use secret_service::SecretServiceKeychain as SystemKeychain;

/// The timeout of a keychain operation. It may prompt the user for a password.
const KEYCHAIN_TIMEOUT: Duration = Duration::from_secs(30);
const PROBE_ENTRY: &str = "probe";
const KEY_ENTRY: &str = "logins";

/// Why the keychain cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeychainError {
    /// There is no keychain.
    #[error("this system has no keychain")]
    Unavailable,
    /// The keychain is locked.
    #[error("the keychain is locked")]
    Locked,
    /// The keychain does not respond.
    #[error("the keychain did not respond within {} s", KEYCHAIN_TIMEOUT.as_secs())]
    TimedOut,
    /// The keychain does not keep what is written.
    #[error("the keychain does not keep entries")]
    NotPersistent,
    /// The keychain refused.
    #[error("the keychain refused: {0}")]
    Rejected(String),
}

/// The future of a keychain operation.
pub type KeychainFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, KeychainError>> + Send + 'a>>;

/// A keychain.
pub trait Keychain: Send + Sync {
    /// Reads an entry.
    fn get<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, Option<Secret>>;
    /// Writes an entry.
    fn put<'a>(&'a self, name: &'a str, secret: &'a Secret) -> KeychainFuture<'a, ()>;
    /// Deletes an entry.
    fn delete<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, ()>;
}

/// Writes an entry, reads it back and deletes it, because a keychain that responds may still not keep entries.
pub async fn probe(keychain: &dyn Keychain) -> Result<(), KeychainError> {
    let probe_value = with_system_random(0, |inputs| inputs.random_token());
    with_timeout(keychain.put(PROBE_ENTRY, &probe_value)).await?;
    let stored = with_timeout(keychain.get(PROBE_ENTRY)).await?;
    with_timeout(keychain.delete(PROBE_ENTRY)).await?;
    let is_gone = with_timeout(keychain.get(PROBE_ENTRY)).await?.is_none();
    match stored.as_ref() == Some(&probe_value) && is_gone {
        true => Ok(()),
        false => Err(KeychainError::NotPersistent),
    }
}

/// Loads the encryption key, or creates it.
pub(crate) async fn load_or_create_key(
    keychain: &dyn Keychain,
) -> Result<[u8; KEY_LENGTH], KeychainError> {
    let read = |text: Secret| STANDARD.decode(text.reveal()).ok()?.try_into().ok();
    if let Some(stored) = with_timeout(keychain.get(KEY_ENTRY)).await? {
        // Replacing the key would lose every login.
        return read(stored)
            .ok_or_else(|| KeychainError::Rejected("the key is damaged".to_owned()));
    }
    probe(keychain).await?;
    let mut key = [0; KEY_LENGTH];
    with_system_random(0, |inputs| (inputs.random)(&mut key));
    with_timeout(keychain.put(KEY_ENTRY, &Secret::new(STANDARD.encode(key)))).await?;
    match with_timeout(keychain.get(KEY_ENTRY)).await?.and_then(read) {
        Some(stored) if stored == key => Ok(key),
        Some(_) | None => Err(KeychainError::NotPersistent),
    }
}

async fn with_timeout<T>(operation: KeychainFuture<'_, T>) -> Result<T, KeychainError> {
    timeout(KEYCHAIN_TIMEOUT, operation).await.unwrap_or(Err(KeychainError::TimedOut))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;

    /// A keychain in memory, with optional faults.
    #[derive(Default)]
    pub(crate) struct InMemoryKeychain {
        entries: Mutex<HashMap<String, Secret>>,
        drops_writes: bool,
        hangs: bool,
    }

    impl InMemoryKeychain {
        pub(crate) fn not_persistent() -> InMemoryKeychain {
            InMemoryKeychain { drops_writes: true, ..InMemoryKeychain::default() }
        }
    }

    impl Keychain for InMemoryKeychain {
        fn get<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, Option<Secret>> {
            Box::pin(async move { Ok(self.entries.lock().expect("unpoisoned").get(name).cloned()) })
        }

        fn put<'a>(&'a self, name: &'a str, secret: &'a Secret) -> KeychainFuture<'a, ()> {
            Box::pin(async move {
                if self.hangs {
                    std::future::pending::<()>().await;
                }
                if !self.drops_writes {
                    let name = name.to_owned();
                    self.entries.lock().expect("unpoisoned").insert(name, secret.clone());
                }
                Ok(())
            })
        }

        fn delete<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, ()> {
            Box::pin(async move {
                self.entries.lock().expect("unpoisoned").remove(name);
                Ok(())
            })
        }
    }

    #[tokio::test]
    async fn a_key_is_made_once_and_the_probe_leaves_nothing() {
        let keychain = InMemoryKeychain::default();
        let key = load_or_create_key(&keychain).await.expect("a key");
        assert_eq!(load_or_create_key(&keychain).await, Ok(key));
        let stored: Vec<_> = keychain.entries.lock().expect("unpoisoned").keys().cloned().collect();
        assert_eq!(stored, [KEY_ENTRY]);
    }

    #[tokio::test]
    async fn a_damaged_key_is_not_replaced() {
        let keychain = InMemoryKeychain::default();
        keychain.put(KEY_ENTRY, &Secret::new("rubbish")).await.expect("stored");
        assert!(matches!(load_or_create_key(&keychain).await, Err(KeychainError::Rejected(_))));
        assert_eq!(keychain.get(KEY_ENTRY).await, Ok(Some(Secret::new("rubbish"))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_keychain_that_drops_writes_or_hangs_is_detected() {
        assert_eq!(
            probe(&InMemoryKeychain::not_persistent()).await,
            Err(KeychainError::NotPersistent)
        );
        let silent = InMemoryKeychain { hangs: true, ..InMemoryKeychain::default() };
        assert_eq!(probe(&silent).await, Err(KeychainError::TimedOut));
    }
}

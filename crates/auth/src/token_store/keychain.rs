//! The system's keychain. It holds one thing: the key that logins are sealed with. Sizes are limited there, and
//! each thing in it may cost a person a question.

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

/// How long a keychain may take. It may ask a person for a password.
const KEYCHAIN_TIMEOUT: Duration = Duration::from_secs(30);
const PROBE_ENTRY: &str = "probe";
const KEY_ENTRY: &str = "logins";

/// Why the keychain cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeychainError {
    /// There is none.
    #[error("this system has no keychain")]
    Unavailable,
    /// It is locked, and stays so.
    #[error("the keychain is locked")]
    Locked,
    /// It does not answer.
    #[error("the keychain did not answer within {} s", KEYCHAIN_TIMEOUT.as_secs())]
    TimedOut,
    /// What it takes, it does not keep.
    #[error("the keychain does not keep what it is given")]
    NotPersistent,
    /// It would not.
    #[error("the keychain refused: {0}")]
    Rejected(String),
}

/// Something that a keychain does, which may take a while.
pub type KeychainFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, KeychainError>> + Send + 'a>>;

/// A keychain.
pub trait Keychain: Send + Sync {
    /// What it keeps under a name.
    fn get<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, Option<Secret>>;
    /// Keeps something under a name.
    fn put<'a>(&'a self, name: &'a str, secret: &'a Secret) -> KeychainFuture<'a, ()>;
    /// Forgets what it keeps under a name.
    fn delete<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, ()>;
}

/// Writes something, reads it back and deletes it. A keychain that answers is not yet one that keeps.
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

/// The key that logins are sealed with, which is made where there is none.
pub(crate) async fn load_or_create_key(
    keychain: &dyn Keychain,
) -> Result<[u8; KEY_LENGTH], KeychainError> {
    let read = |text: Secret| STANDARD.decode(text.reveal()).ok()?.try_into().ok();
    if let Some(stored) = with_timeout(keychain.get(KEY_ENTRY)).await? {
        // Making another would lose every login.
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

    /// A keychain in memory, which may have a hole.
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
        keychain.put(KEY_ENTRY, &Secret::new("rubbish")).await.expect("kept");
        assert!(matches!(load_or_create_key(&keychain).await, Err(KeychainError::Rejected(_))));
        assert_eq!(keychain.get(KEY_ENTRY).await, Ok(Some(Secret::new("rubbish"))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_keychain_that_keeps_nothing_or_says_nothing_is_found_out() {
        assert_eq!(
            probe(&InMemoryKeychain::not_persistent()).await,
            Err(KeychainError::NotPersistent)
        );
        let silent = InMemoryKeychain { hangs: true, ..InMemoryKeychain::default() };
        assert_eq!(probe(&silent).await, Err(KeychainError::TimedOut));
    }
}

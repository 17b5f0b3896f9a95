//! The system's keychain. It holds one thing: the key that logins are sealed with. Sizes are limited there, and
//! each thing in it may cost a person a question.

#[cfg(target_os = "linux")]
mod freedesktop;
#[cfg(any(target_os = "macos", windows))]
mod native;

use std::pin::Pin;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use tokio::time::timeout;

use super::seal::KEY;
use crate::confidential::Secret;
use crate::pkce::at_present;

#[cfg(target_os = "linux")]
pub use freedesktop::SecretServiceKeychain as SystemKeychain;
#[cfg(any(target_os = "macos", windows))]
pub use native::NativeKeychain as SystemKeychain;

/// How long a keychain may take. It may ask a person for a password.
const PATIENCE: Duration = Duration::from_secs(30);
const PROBE: &str = "probe";
const SEALING_KEY: &str = "logins";

/// Why the keychain cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeychainError {
    /// There is none.
    #[error("this system has no keychain")]
    Absent,
    /// It is locked, and stays so.
    #[error("the keychain is locked")]
    Locked,
    /// It does not answer.
    #[error("the keychain did not answer within {} s", PATIENCE.as_secs())]
    Silent,
    /// What it takes, it does not keep.
    #[error("the keychain does not keep what it is given")]
    Forgetful,
    /// It would not.
    #[error("the keychain refused: {0}")]
    Refused(String),
}

/// Something that a keychain does, which may take a while.
pub type Recalling<'a, T> = Pin<Box<dyn Future<Output = Result<T, KeychainError>> + Send + 'a>>;

/// A keychain.
pub trait Keychain: Send + Sync {
    /// What it keeps under a name.
    fn get<'a>(&'a self, name: &'a str) -> Recalling<'a, Option<Secret>>;
    /// Keeps something under a name.
    fn put<'a>(&'a self, name: &'a str, secret: &'a Secret) -> Recalling<'a, ()>;
    /// Forgets what it keeps under a name.
    fn delete<'a>(&'a self, name: &'a str) -> Recalling<'a, ()>;
}

/// Writes something, reads it back and deletes it. A keychain that answers is not yet one that keeps.
pub async fn probe(keychain: &dyn Keychain) -> Result<(), KeychainError> {
    let mark = at_present(0, |moment| moment.unguessable());
    in_time(keychain.put(PROBE, &mark)).await?;
    let kept = in_time(keychain.get(PROBE)).await?;
    in_time(keychain.delete(PROBE)).await?;
    let is_gone = in_time(keychain.get(PROBE)).await?.is_none();
    match kept.as_ref() == Some(&mark) && is_gone {
        true => Ok(()),
        false => Err(KeychainError::Forgetful),
    }
}

/// The key that logins are sealed with, which is made where there is none.
pub(super) async fn sealing_key(keychain: &dyn Keychain) -> Result<[u8; KEY], KeychainError> {
    let read = |text: Secret| STANDARD.decode(text.reveal()).ok()?.try_into().ok();
    if let Some(kept) = in_time(keychain.get(SEALING_KEY)).await? {
        // Making another would lose every login.
        return read(kept).ok_or_else(|| KeychainError::Refused("the key is damaged".to_owned()));
    }
    probe(keychain).await?;
    let mut key = [0; KEY];
    at_present(0, |moment| (moment.chance)(&mut key));
    in_time(keychain.put(SEALING_KEY, &Secret::new(STANDARD.encode(key)))).await?;
    match in_time(keychain.get(SEALING_KEY)).await?.and_then(read) {
        Some(kept) if kept == key => Ok(key),
        Some(_) | None => Err(KeychainError::Forgetful),
    }
}

async fn in_time<T>(recalling: Recalling<'_, T>) -> Result<T, KeychainError> {
    timeout(PATIENCE, recalling).await.unwrap_or(Err(KeychainError::Silent))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::*;

    /// A keychain in memory, which may have a hole.
    #[derive(Default)]
    pub(crate) struct Pocket {
        kept: Mutex<HashMap<String, Secret>>,
        is_forgetful: bool,
        is_silent: bool,
    }

    impl Pocket {
        pub(crate) fn forgetful() -> Pocket {
            Pocket { is_forgetful: true, ..Pocket::default() }
        }
    }

    impl Keychain for Pocket {
        fn get<'a>(&'a self, name: &'a str) -> Recalling<'a, Option<Secret>> {
            Box::pin(async move { Ok(self.kept.lock().expect("unpoisoned").get(name).cloned()) })
        }

        fn put<'a>(&'a self, name: &'a str, secret: &'a Secret) -> Recalling<'a, ()> {
            Box::pin(async move {
                if self.is_silent {
                    std::future::pending::<()>().await;
                }
                if !self.is_forgetful {
                    let name = name.to_owned();
                    self.kept.lock().expect("unpoisoned").insert(name, secret.clone());
                }
                Ok(())
            })
        }

        fn delete<'a>(&'a self, name: &'a str) -> Recalling<'a, ()> {
            Box::pin(async move {
                self.kept.lock().expect("unpoisoned").remove(name);
                Ok(())
            })
        }
    }

    #[tokio::test]
    async fn a_key_is_made_once_and_the_probe_leaves_nothing() {
        let pocket = Pocket::default();
        let key = sealing_key(&pocket).await.expect("a key");
        assert_eq!(sealing_key(&pocket).await, Ok(key));
        let kept: Vec<_> = pocket.kept.lock().expect("unpoisoned").keys().cloned().collect();
        assert_eq!(kept, [SEALING_KEY]);
    }

    #[tokio::test]
    async fn a_damaged_key_is_not_replaced() {
        let pocket = Pocket::default();
        pocket.put(SEALING_KEY, &Secret::new("rubbish")).await.expect("kept");
        assert!(matches!(sealing_key(&pocket).await, Err(KeychainError::Refused(_))));
        assert_eq!(pocket.get(SEALING_KEY).await, Ok(Some(Secret::new("rubbish"))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_keychain_that_keeps_nothing_or_says_nothing_is_found_out() {
        assert_eq!(probe(&Pocket::forgetful()).await, Err(KeychainError::Forgetful));
        let silent = Pocket { is_silent: true, ..Pocket::default() };
        assert_eq!(probe(&silent).await, Err(KeychainError::Silent));
    }
}

//! The keychains of macOS and Windows.

use std::sync::Arc;

use keyring_core::api::CredentialStoreApi;
use keyring_core::{Entry, Error};
use tokio::task::spawn_blocking;

use super::{Keychain, KeychainError, KeychainFuture};
use crate::secret::Secret;

#[cfg(target_os = "macos")]
use apple_native_keyring_store::keychain::Store;
#[cfg(windows)]
use windows_native_keyring_store::Store;

/// The system keychain.
#[derive(Debug, Clone)]
pub struct NativeKeychain {
    application: String,
}

impl NativeKeychain {
    /// A keychain whose entries carry this application name.
    pub fn new(application: &str) -> NativeKeychain {
        NativeKeychain { application: application.to_owned() }
    }

    fn with_entry<'a, T: Send + 'static>(
        &'a self,
        name: &'a str,
        action: impl FnOnce(&Entry) -> Result<T, Error> + Send + 'static,
    ) -> KeychainFuture<'a, Option<T>> {
        let (application, name) = (self.application.clone(), name.to_owned());
        let work = move || {
            let store: Arc<Store> = Store::new()?;
            action(&store.build(&application, &name, None)?)
        };
        Box::pin(async move {
            let Ok(done) = spawn_blocking(work).await else { return Err(KeychainError::TimedOut) };
            done.map(Some).or_else(keychain_error)
        })
    }
}

impl Keychain for NativeKeychain {
    fn get<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, Option<Secret>> {
        let operation = self.with_entry(name, Entry::get_password);
        Box::pin(async move { Ok(operation.await?.map(Secret::new)) })
    }

    fn put<'a>(&'a self, name: &'a str, secret: &'a Secret) -> KeychainFuture<'a, ()> {
        let secret = secret.clone();
        let operation = self.with_entry(name, move |entry| entry.set_password(secret.reveal()));
        Box::pin(async move { operation.await.map(|_| ()) })
    }

    fn delete<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, ()> {
        let operation = self.with_entry(name, Entry::delete_credential);
        Box::pin(async move { operation.await.map(|_| ()) })
    }
}

/// A missing entry is not an error.
fn keychain_error<T>(error: Error) -> Result<Option<T>, KeychainError> {
    let (is_nothing, is_locked) =
        (matches!(error, Error::NoEntry), matches!(error, Error::NoStorageAccess(_)));
    match (is_nothing, is_locked) {
        (true, _) => Ok(None),
        (false, true) => Err(KeychainError::Locked),
        (false, false) => {
            Err(KeychainError::Rejected(error.to_string().chars().take(200).collect()))
        }
    }
}

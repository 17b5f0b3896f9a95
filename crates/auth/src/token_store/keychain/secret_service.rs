//! The keychain of Linux desktops: the Secret Service on the session bus.

use std::collections::HashMap;

use secret_service::{Collection, EncryptionType, Error, SecretService};

use super::{Keychain, KeychainError, KeychainFuture};
use crate::secret::Secret;

/// The Secret Service, connected for each operation.
#[derive(Debug, Clone)]
pub struct SecretServiceKeychain {
    application: String,
}

impl SecretServiceKeychain {
    /// A keychain whose entries carry this application name.
    pub fn new(application: &str) -> SecretServiceKeychain {
        SecretServiceKeychain { application: application.to_owned() }
    }

    fn attributes<'a>(&'a self, name: &'a str) -> HashMap<&'a str, &'a str> {
        HashMap::from([("application", self.application.as_str()), ("name", name)])
    }
}

impl Keychain for SecretServiceKeychain {
    fn get<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, Option<Secret>> {
        Box::pin(async move {
            let service = connect().await?;
            let collection = persistent_collection(&service).await?;
            let found =
                collection.search_items(self.attributes(name)).await.map_err(keychain_error)?;
            let Some(item) = found.first() else { return Ok(None) };
            let bytes = item.get_secret().await.map_err(keychain_error)?;
            Ok(String::from_utf8(bytes).ok().map(Secret::new))
        })
    }

    fn put<'a>(&'a self, name: &'a str, secret: &'a Secret) -> KeychainFuture<'a, ()> {
        Box::pin(async move {
            let service = connect().await?;
            let collection = persistent_collection(&service).await?;
            let label = format!("{} {name}", self.application);
            const REPLACE: bool = true;
            let bytes = secret.reveal().as_bytes();
            collection
                .create_item(&label, self.attributes(name), bytes, REPLACE, "text/plain")
                .await
                .map_err(keychain_error)?;
            Ok(())
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> KeychainFuture<'a, ()> {
        Box::pin(async move {
            let service = connect().await?;
            let collection = persistent_collection(&service).await?;
            let found =
                collection.search_items(self.attributes(name)).await.map_err(keychain_error)?;
            for item in &found {
                item.delete().await.map_err(keychain_error)?;
            }
            Ok(())
        })
    }
}

async fn connect() -> Result<SecretService<'static>, KeychainError> {
    SecretService::connect(EncryptionType::Dh).await.map_err(keychain_error)
}

/// The unlocked default collection. The session collection is refused: it ends with the session, and every
/// login with it.
async fn persistent_collection<'a>(
    service: &'a SecretService<'a>,
) -> Result<Collection<'a>, KeychainError> {
    let collection = service.get_default_collection().await.map_err(keychain_error)?;
    if collection.collection_path.as_str().ends_with("/session") {
        return Err(KeychainError::NotPersistent);
    }
    if collection.is_locked().await.map_err(keychain_error)? {
        collection.unlock().await.map_err(keychain_error)?;
    }
    Ok(collection)
}

fn keychain_error(error: Error) -> KeychainError {
    let is_locked = matches!(error, Error::Locked | Error::Prompt | Error::PromptDisconnected);
    // Without a session bus the library fails with a D-Bus error.
    let is_absent = matches!(error, Error::NoResult | Error::Unavailable | Error::Zbus(_));
    match (is_locked, is_absent) {
        (true, _) => KeychainError::Locked,
        (false, true) => KeychainError::Unavailable,
        (false, false) => KeychainError::Rejected(error.to_string().chars().take(200).collect()),
    }
}

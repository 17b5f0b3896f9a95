//! The token store: login records with tokens and everything that a refresh needs, so that a restart needs no
//! network. [`TokenStore`] is the trait; [`file_store::FileTokenStore`] keeps the records on disk, encrypted
//! with a key from the system keychain where there is one.

mod file_lock;
pub mod file_store;
pub mod keychain;
mod record;
mod record_cipher;
pub mod shared_lock;

use std::io;
use std::pin::Pin;

use thiserror::Error;

pub use file_lock::StoreLock;
pub use record::{LoginKey, LoginRecord, LoginStatus, StoredTokens};

/// Why a record could not be read or written.
#[derive(Debug, Error)]
pub enum TokenStoreError {
    /// A file operation failed.
    #[error("the login folder cannot be used")]
    Io(#[from] io::Error),
    /// The record is encrypted, and its key is not available.
    #[error("the login is encrypted with a key that the system keychain does not provide")]
    Sealed,
    /// The record is damaged.
    #[error("the login record is damaged")]
    Corrupt,
    /// Another process holds the lock.
    #[error("another process has locked this login for {0} seconds")]
    LockTimeout(u64),
    /// The keychain is required and cannot be used.
    #[error("the system keychain cannot be used")]
    Keychain(#[from] keychain::KeychainError),
}

/// The future of a store operation.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TokenStoreError>> + Send + 'a>>;

/// The result of a conditional write.
#[derive(Debug)]
pub enum WriteOutcome {
    /// The record is written, with this version.
    Written(u64),
    /// The stored version differs. This is the stored record, if there is one.
    Conflict(Option<Box<LoginRecord>>),
}

/// Stores login records.
pub trait TokenStore: Send + Sync {
    /// The login of a client at a server: the latest, if there are several authorization servers.
    fn find<'a>(&'a self, server: &'a str, client: &'a str)
    -> StoreFuture<'a, Option<LoginRecord>>;

    /// Reads one record.
    fn read<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, Option<LoginRecord>>;

    /// Writes a record if the stored version equals its version (0: no record), and increments the version.
    fn compare_and_swap<'a>(&'a self, record: &'a LoginRecord) -> StoreFuture<'a, WriteOutcome>;

    /// Removes a record if the stored version equals this one.
    fn remove<'a>(&'a self, key: &'a LoginKey, version: u64) -> StoreFuture<'a, WriteOutcome>;

    /// All records that can be read.
    fn all<'a>(&'a self) -> StoreFuture<'a, Vec<LoginRecord>>;

    /// Locks a login for all processes of this machine, until the guard is dropped or the process ends.
    fn lock<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, StoreLock>;
}

/// Writes the record of a new login, whatever is stored.
pub async fn overwrite(
    store: &dyn TokenStore,
    mut record: LoginRecord,
) -> Result<LoginRecord, TokenStoreError> {
    const MAX_ATTEMPTS: u32 = 16;
    for _ in 0..MAX_ATTEMPTS {
        match store.compare_and_swap(&record).await? {
            WriteOutcome::Written(version) => {
                record.version = version;
                return Ok(record);
            }
            WriteOutcome::Conflict(stored) => {
                record.version = stored.map_or(0, |stored| stored.version)
            }
        }
    }
    Err(TokenStoreError::LockTimeout(0))
}

#[cfg(test)]
pub(crate) use record::tests;

//! Where logins are kept: records of tokens and of everything that a refresh needs, so that a restart wants no
//! network. The port is [`Vault`]; the one on disk is [`folder::FolderVault`], sealed with a key from the
//! system's keychain where there is one.

mod file_lock;
pub mod file_store;
pub mod keychain;
mod record;
mod record_cipher;

use std::io;
use std::pin::Pin;

use thiserror::Error;

pub use file_lock::StoreLock;
pub use record::{LoginKey, LoginRecord, LoginStatus, StoredTokens};

/// Why a login could not be read or written.
#[derive(Debug, Error)]
pub enum TokenStoreError {
    /// The system would not let us.
    #[error("the folder of logins cannot be used")]
    Io(#[from] io::Error),
    /// It is sealed, and the key is not there.
    #[error("the login is sealed with a key that the system's keychain does not give out")]
    Sealed,
    /// It was changed by something else than us.
    #[error("the record of the login is damaged")]
    Corrupt,
    /// Somebody else is at it.
    #[error("another process has been busy with this login for {0} seconds")]
    LockTimeout(u64),
    /// The keychain was asked for and cannot be used.
    #[error("the system's keychain cannot be used")]
    Keychain(#[from] keychain::KeychainError),
}

/// Something that the vault does, which may take a while.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, TokenStoreError>> + Send + 'a>>;

/// What became of a record that was to be written.
#[derive(Debug)]
pub enum WriteOutcome {
    /// It is there, with this version.
    Written(u64),
    /// Somebody was faster. This is what is there, if anything is.
    Conflict(Option<Box<LoginRecord>>),
}

/// Keeps logins.
pub trait TokenStore: Send + Sync {
    /// The login at a server as a client: the latest, if there were several authorization servers.
    fn find<'a>(&'a self, server: &'a str, client: &'a str)
    -> StoreFuture<'a, Option<LoginRecord>>;

    /// One login.
    fn read<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, Option<LoginRecord>>;

    /// Writes a record if what is there still has its version (0: nothing is there), and counts that up.
    fn compare_and_swap<'a>(&'a self, record: &'a LoginRecord) -> StoreFuture<'a, WriteOutcome>;

    /// Removes a login if it still has this version.
    fn remove<'a>(&'a self, key: &'a LoginKey, version: u64) -> StoreFuture<'a, WriteOutcome>;

    /// Every login that can be read.
    fn all<'a>(&'a self) -> StoreFuture<'a, Vec<LoginRecord>>;

    /// Holds a login against everybody else on this machine, until it is dropped or the process ends.
    fn lock<'a>(&'a self, key: &'a LoginKey) -> StoreFuture<'a, StoreLock>;
}

/// Writes the record of a new login over whatever is there.
pub async fn overwrite(
    vault: &dyn TokenStore,
    mut record: LoginRecord,
) -> Result<LoginRecord, TokenStoreError> {
    const TRIES: u32 = 16;
    for _ in 0..TRIES {
        match vault.compare_and_swap(&record).await? {
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

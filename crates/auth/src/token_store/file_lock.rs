//! File locks between processes of one machine. The system releases them when a process ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use switchboard_wire::backoff::Backoff;
use tokio::time::{Instant, sleep};

use super::TokenStoreError;
use super::shared_lock::SharedLock;

/// How long to wait for another process. A refresh may use half of it for its request.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// The delay between two attempts.
const RETRY_BACKOFF: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(80));

/// A lock, held until it is dropped.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
    /// The same lock on other machines.
    _shared: Option<SharedLock>,
}

impl StoreLock {
    /// Holds the lock of other machines as well.
    pub(super) fn with_shared(self, shared: Option<SharedLock>) -> StoreLock {
        StoreLock { _shared: shared, ..self }
    }
}

/// Waits for the lock of a file.
pub(crate) async fn lock(path: &Path) -> Result<StoreLock, TokenStoreError> {
    let file = open_lock_file(path)?;
    let start = Instant::now();
    let mut backoff = RETRY_BACKOFF;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(StoreLock { _file: file, _shared: None }),
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                sleep(backoff.next_delay()).await;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(TokenStoreError::LockTimeout(LOCK_TIMEOUT.as_secs()));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

/// The same for blocking code, with a shorter timeout.
pub(crate) fn lock_blocking(path: &Path) -> Result<StoreLock, TokenStoreError> {
    const BLOCKING_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    let file = open_lock_file(path)?;
    let start = std::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(StoreLock { _file: file, _shared: None }),
            Err(TryLockError::WouldBlock) if start.elapsed() < BLOCKING_LOCK_TIMEOUT => {
                std::thread::sleep(POLL_INTERVAL)
            }
            Err(TryLockError::WouldBlock) => {
                return Err(TokenStoreError::LockTimeout(BLOCKING_LOCK_TIMEOUT.as_secs()));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

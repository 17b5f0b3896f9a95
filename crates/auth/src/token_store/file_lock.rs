//! Locks that hold on the whole machine. They end with the process, however that ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::TokenStoreError;

/// How long to wait for another process. A refresh has half of it to get its answer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait between two looks.
const INITIAL_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(80);

/// Holds something until it is dropped.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

/// Waits until nobody else holds a file.
pub(crate) async fn lock(path: &Path) -> Result<StoreLock, TokenStoreError> {
    let file = open_lock_file(path)?;
    let start = Instant::now();
    let mut pause = INITIAL_PAUSE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(StoreLock { _file: file }),
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(TokenStoreError::LockTimeout(LOCK_TIMEOUT.as_secs()));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

/// The same for the moment that a write takes, from where nothing else can be done meanwhile.
pub(crate) fn lock_blocking(path: &Path) -> Result<StoreLock, TokenStoreError> {
    const BLOCKING_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    let file = open_lock_file(path)?;
    let start = std::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(StoreLock { _file: file }),
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

//! Locks that hold on the whole machine. They end with the process, however that ends.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::VaultError;

/// How long to wait for another process. A refresh has half of it to get its answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(80);

/// Holds something until it is dropped.
#[derive(Debug)]
pub struct Hold {
    _file: File,
}

/// Waits until nobody else holds a file.
pub(super) async fn hold(path: &Path) -> Result<Hold, VaultError> {
    let file = lock_file(path)?;
    let start = Instant::now();
    let mut pause = PAUSE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Hold { _file: file }),
            Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(TryLockError::WouldBlock) => return Err(VaultError::Busy(PATIENCE.as_secs())),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

/// The same for the moment that a write takes, from where nothing else can be done meanwhile.
pub(super) fn hold_briefly(path: &Path) -> Result<Hold, VaultError> {
    const BRIEF: Duration = Duration::from_secs(10);
    const LOOK: Duration = Duration::from_millis(2);
    let file = lock_file(path)?;
    let start = std::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Hold { _file: file }),
            Err(TryLockError::WouldBlock) if start.elapsed() < BRIEF => std::thread::sleep(LOOK),
            Err(TryLockError::WouldBlock) => return Err(VaultError::Busy(BRIEF.as_secs())),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

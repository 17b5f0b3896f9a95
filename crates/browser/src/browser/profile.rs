//! Named profiles: their folders, and who holds one.

use std::fs::{File, TryLockError};
use std::io;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::error::BrowserError;

/// The link that a running browser leaves in its profile; it points to `host-pid`.
const LOCK_LINK: &str = "SingletonLock";

/// Our own lock: not every kind of browser has one.
const LOCK_FILE: &str = "swb.lock";

/// The right to use a profile. It ends with the value, or with this process.
#[derive(Debug)]
pub(crate) struct ProfileLock {
    _file: File,
}

impl ProfileLock {
    /// Takes the lock of a profile; otherwise says who has it.
    pub(crate) fn take(folder: &Path) -> io::Result<Result<ProfileLock, String>> {
        let path = folder.join(LOCK_FILE);
        let mut file =
            File::options().create(true).read(true).write(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.write_all(std::process::id().to_string().as_bytes())?;
                Ok(Ok(ProfileLock { _file: file }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.take(20).read_to_string(&mut text)?;
                let pid = text.trim().parse().ok();
                let holder = pid.and_then(describe);
                Ok(Err(holder.unwrap_or_else(|| "another process".to_owned())))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// The folder of a named profile. The name is a plain file name.
pub(crate) fn folder(profiles: &Path, name: &str) -> Result<PathBuf, BrowserError> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
    match !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain) {
        true => Ok(profiles.join(name)),
        false => Err(BrowserError::ProfileName { name: crate::shown_text::shown(name, 64) }),
    }
}

/// Who holds a profile: the process and its machine, if it still runs.
pub(crate) fn holder(folder: &Path) -> Option<String> {
    let target = std::fs::read_link(folder.join(LOCK_LINK)).ok()?;
    let target = target.to_str()?.to_owned();
    let (host, pid) = target.rsplit_once('-')?;
    let pid: u32 = pid.parse().ok()?;
    let own_host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host != own_host.trim() {
        return Some(format!("process {pid} on {}", crate::shown_text::shown(host, 64)));
    }
    describe(pid)
}

/// A process with its program, if it runs.
fn describe(pid: u32) -> Option<String> {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let first = command.split(|it| *it == 0).next().unwrap_or_default();
    let program = String::from_utf8_lossy(first).into_owned();
    Some(format!("process {pid} ({})", crate::shown_text::shown(&program, 100)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_a_folder_below_the_profiles() {
        let profiles = Path::new("/p");
        assert_eq!(folder(profiles, "work-1").expect("a folder"), Path::new("/p/work-1"));
        for name in ["", "..", "a/b", "a b", ".hidden"] {
            assert!(folder(profiles, name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_lock_of_a_process_that_is_gone_holds_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let link = folder.path().join(LOCK_LINK);
        std::os::unix::fs::symlink(format!("{}-4194999", host.trim()), &link).expect("a link");
        assert_eq!(holder(folder.path()), None);
        std::fs::remove_file(&link).expect("it is there");
        let own = std::process::id();
        std::os::unix::fs::symlink(format!("{}-{own}", host.trim()), &link).expect("a link");
        assert!(
            holder(folder.path()).is_some_and(|it| it.starts_with(&format!("process {own} (")))
        );
        std::fs::remove_file(&link).expect("it is there");
        std::os::unix::fs::symlink("elsewhere-7", &link).expect("a link");
        assert_eq!(holder(folder.path()), Some("process 7 on elsewhere".to_owned()));
    }
}

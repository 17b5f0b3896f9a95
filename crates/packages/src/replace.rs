//! Puts a complete folder at its place in one step: a reader finds the old folder or the new one, also after a crash.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The beginning of the names of folders that are removed by a later installation.
pub(crate) const DRAFT_PREFIX: &str = ".draft-";

/// Moves the folder `new` to `target`, once its files are on the disk. A folder that is there is replaced; then it is at
/// the place of the new one or, where the system cannot exchange folders, in a folder of its own below `store`, until it is
/// deleted. All are on one file system.
pub(crate) fn replace_folder(new: &Path, target: &Path, store: &Path) -> io::Result<()> {
    sync_files(new)?;
    if target.symlink_metadata().is_err() {
        fs::rename(new, target)?;
    } else if exchange(new, target)? == ExchangeOutcome::Unsupported {
        let aside = tempfile::Builder::new().prefix(DRAFT_PREFIX).tempdir_in(store)?;
        let old = aside.path().join("old");
        fs::rename(target, &old)?;
        let moved = fs::rename(new, target);
        if moved.is_err() {
            fs::rename(&old, target)?;
        }
        moved?;
    }
    match target.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangeOutcome {
    Done,
    /// The system or the file system cannot do that.
    Unsupported,
}

#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<ExchangeOutcome> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(ExchangeOutcome::Done),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(ExchangeOutcome::Unsupported),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<ExchangeOutcome> {
    Ok(ExchangeOutcome::Unsupported)
}

/// Writes everything below a folder to disk, so that a crash leaves no empty files at its place.
#[cfg(target_os = "linux")]
fn sync_files(folder: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(folder)?)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_files(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            sync_files(&entry.path())?;
        } else if kind.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn folder_with(at: &Path, text: &str) -> PathBuf {
        fs::create_dir_all(at).expect("a folder");
        fs::write(at.join("file"), text).expect("a file");
        at.to_owned()
    }

    #[test]
    fn a_replaced_folder_is_there_at_every_moment() {
        let store = tempfile::tempdir().expect("a folder");
        let target = store.path().join("target");
        folder_with(&target, "0");
        let watched = target.clone();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let watcher = std::thread::spawn(move || {
            let mut looks = 0;
            while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                let text = fs::read_to_string(watched.join("file"));
                assert!(text.is_ok(), "after {looks} looks: {text:?}");
                looks += 1;
            }
        });
        for number in 1..50 {
            let new = folder_with(&store.path().join("new"), &number.to_string());
            replace_folder(&new, &target, store.path()).expect("it is replaced");
            fs::remove_dir_all(&new).expect("the old one is there");
        }
        drop(stop);
        watcher.join().expect("the folder was always there");
        assert_eq!(fs::read_to_string(target.join("file")).expect("a file"), "49");
    }
}

//! Reads and atomically replaces the contents of a file: a reader sees the old file or the new one.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fstat, fsync, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::file_error::FileError;
use super::read_files::{Fingerprint, modified};
use super::resolved_path::ResolvedPath;

/// The maximum size of a file.
pub(crate) const MAX_FILE_SIZE: u64 = 16 * 1024 * 1024;

/// Numbers the temporary files of this process.
static DRAFT_COUNTER: AtomicU64 = AtomicU64::new(0);

/// The contents of a file, with its fingerprint and metadata at that time.
#[derive(Debug)]
pub(crate) struct FileContents {
    pub(crate) bytes: Vec<u8>,
    pub(crate) fingerprint: Fingerprint,
    stat: Stat,
}

/// What a write expects.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WriteMode<'a> {
    /// The file does not exist.
    CreateNew,
    /// The file is unchanged since it was read.
    Replace(&'a FileContents),
}

/// Reads a file.
pub(crate) fn read_contents(resolved: &ResolvedPath) -> Result<FileContents, FileError> {
    let opened = resolved.open()?;
    let size = u64::try_from(opened.stat.st_size).unwrap_or(0);
    let too_large =
        |size| FileError::TooLarge { path: resolved.path.clone(), size, limit: MAX_FILE_SIZE };
    if size > MAX_FILE_SIZE {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    let mut bounded = opened.file.take(MAX_FILE_SIZE + 1);
    bounded
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::Io { path: resolved.path.clone(), kind: error.kind() })?;
    let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if read > MAX_FILE_SIZE {
        return Err(too_large(read));
    }
    let fingerprint = Fingerprint::new(&opened.stat, &bytes);
    Ok(FileContents { bytes, fingerprint, stat: opened.stat })
}

/// Writes a file with the permissions of the one it replaces, and returns its new fingerprint.
pub(crate) fn write_contents(
    resolved: &ResolvedPath,
    bytes: &[u8],
    write_mode: WriteMode<'_>,
) -> Result<Fingerprint, FileError> {
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if size > MAX_FILE_SIZE {
        return Err(FileError::TooLarge {
            path: resolved.path.clone(),
            size,
            limit: MAX_FILE_SIZE,
        });
    }
    if let WriteMode::Replace(contents) = write_mode
        && contents.stat.st_mode & 0o222 == 0
    {
        return Err(FileError::ReadOnly { path: resolved.path.clone() });
    }
    let (folder, name) = resolved.open_or_create_parent()?;
    let draft = Draft::create(resolved, folder, write_mode)?;
    let mut file = File::from(
        draft
            .file
            .try_clone()
            .map_err(|error| FileError::Io { path: resolved.path.clone(), kind: error.kind() })?,
    );
    file.write_all(bytes)
        .map_err(|error| FileError::Io { path: resolved.path.clone(), kind: error.kind() })?;
    draft.commit(resolved, Path::new(&name), write_mode, bytes)
}

/// A temporary file beside the target. Dropping it removes it.
struct Draft {
    folder: OwnedFd,
    file: OwnedFd,
    name: Option<String>,
}

impl Draft {
    fn create(
        resolved: &ResolvedPath,
        folder: OwnedFd,
        write_mode: WriteMode<'_>,
    ) -> Result<Draft, FileError> {
        let number = DRAFT_COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".swb-{}-{number}.draft", std::process::id());
        let mode = match write_mode {
            // The umask applies.
            WriteMode::CreateNew => Mode::from_raw_mode(0o666),
            WriteMode::Replace(_) => Mode::from_raw_mode(0o600),
        };
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(&folder, &name, flags, mode) {
            Err(Errno::EXIST) => {
                // Left behind by a killed process with the same ID.
                let _gone = unlinkat(&folder, &name, AtFlags::empty());
                openat(&folder, &name, flags, mode)
            }
            opened => opened,
        };
        let file = opened.map_err(|error| resolved.errno_error(error))?;
        let draft = Draft { folder, file, name: Some(name) };
        if let WriteMode::Replace(contents) = write_mode {
            // Ownership may not be transferable; permissions stay the same.
            let owner = Some(Uid::from_raw(contents.stat.st_uid));
            let _not_ours_to_give =
                fchown(&draft.file, owner, Some(Gid::from_raw(contents.stat.st_gid)));
            let mode = Mode::from_raw_mode(contents.stat.st_mode & 0o777);
            fchmod(&draft.file, mode).map_err(|error| resolved.errno_error(error))?;
        }
        Ok(draft)
    }

    fn commit(
        mut self,
        resolved: &ResolvedPath,
        name: &Path,
        write_mode: WriteMode<'_>,
        bytes: &[u8],
    ) -> Result<Fingerprint, FileError> {
        let fail = |error| resolved.errno_error(error);
        fsync(&self.file).map_err(fail)?;
        let now = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_unmodified_since_read = match (write_mode, &now) {
            (WriteMode::CreateNew, Err(Errno::NOENT)) => true,
            (WriteMode::Replace(contents), Ok(now)) => is_unmodified(&contents.stat, now),
            (WriteMode::CreateNew | WriteMode::Replace(_), Ok(_) | Err(_)) => false,
        };
        if !is_unmodified_since_read {
            return Err(FileError::ModifiedMeanwhile { path: resolved.path.clone() });
        }
        let Some(draft) = self.name.as_deref() else {
            return Err(FileError::ReplacedMeanwhile { path: resolved.path.clone() });
        };
        match write_mode {
            WriteMode::CreateNew => {
                rename_no_replace(&self.folder, draft, name).map_err(|error| match error {
                    Errno::EXIST => FileError::ModifiedMeanwhile { path: resolved.path.clone() },
                    other => fail(other),
                })?
            }
            WriteMode::Replace(_) => {
                renameat(&self.folder, draft, &self.folder, name).map_err(fail)?;
            }
        }
        self.name = None;
        let _some_systems_cannot = fsync(&self.folder);
        let status = fstat(&self.file).map_err(fail)?;
        Ok(Fingerprint::new(&status, bytes))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _gone_already = unlinkat(&self.folder, name, AtFlags::empty());
        }
    }
}

fn is_unmodified(before: &Stat, now: &Stat) -> bool {
    (before.st_dev, before.st_ino, before.st_size) == (now.st_dev, now.st_ino, now.st_size)
        && modified(before) == modified(now)
}

/// Renames a temporary file, unless the target exists.
fn rename_no_replace(folder: impl AsFd, draft: &str, name: &Path) -> rustix::io::Result<()> {
    let folder = folder.as_fd();
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(folder, draft, folder, name, RenameFlags::NOREPLACE) {
            // Not supported by every file system.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            renamed => return renamed,
        }
    }
    renameat(folder, draft, folder, name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::super::allowed_roots::{Access, AllowedRoots};
    use super::*;

    fn resolved(folder: &tempfile::TempDir, path: &str) -> ResolvedPath {
        let roots = AllowedRoots::new(&[folder.path().to_owned()], None);
        roots.resolve(path, Access::Write).unwrap()
    }

    fn names(folder: &tempfile::TempDir) -> Vec<PathBuf> {
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().path()).collect()
    }

    #[test]
    fn a_file_is_replaced_atomically_and_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        let resolved = resolved(&folder, "script");
        let contents = read_contents(&resolved).unwrap();
        let mut reader = File::open(&path).unwrap();
        let fingerprint =
            write_contents(&resolved, b"new and longer", WriteMode::Replace(&contents)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new and longer");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o751);
        let mut seen = String::new();
        reader.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "old", "who had it open sees the old one");
        assert!(fingerprint.has_same_contents(&read_contents(&resolved).unwrap().fingerprint));
        assert_eq!(names(&folder), [path], "no draft is left");
    }

    #[test]
    fn changes_by_others_are_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        let resolved = resolved(&folder, "file");
        let contents = read_contents(&resolved).unwrap();
        fs::write(&path, "theirs").unwrap();
        let refused =
            write_contents(&resolved, b"ours", WriteMode::Replace(&contents)).unwrap_err();
        assert!(matches!(refused, FileError::ModifiedMeanwhile { .. }));
        let refused = write_contents(&resolved, b"ours", WriteMode::CreateNew).unwrap_err();
        assert!(matches!(refused, FileError::ModifiedMeanwhile { .. }));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(names(&folder), [path], "no draft is left");
    }

    #[test]
    fn a_file_created_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("draft"), "ours").unwrap();
        fs::write(folder.path().join("name"), "theirs").unwrap();
        let contents = File::open(folder.path()).unwrap();
        assert_eq!(rename_no_replace(&contents, "draft", Path::new("name")), Err(Errno::EXIST));
        assert_eq!(fs::read_to_string(folder.path().join("name")).unwrap(), "theirs");
    }

    #[test]
    fn missing_folders_are_created() {
        let folder = tempfile::tempdir().unwrap();
        let resolved = resolved(&folder, "a/b/c");
        write_contents(&resolved, b"x", WriteMode::CreateNew).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a/b/c")).unwrap(), "x");
    }

    #[test]
    fn a_protected_or_too_large_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        let resolved = resolved(&folder, "file");
        let contents = read_contents(&resolved).unwrap();
        let refused = write_contents(&resolved, b"new", WriteMode::Replace(&contents)).unwrap_err();
        assert!(matches!(refused, FileError::ReadOnly { .. }));
        fs::remove_file(&path).unwrap();
        let sparse = File::create(&path).unwrap();
        sparse.set_len(MAX_FILE_SIZE + 1).unwrap();
        assert!(matches!(read_contents(&resolved).unwrap_err(), FileError::TooLarge { .. }));
    }
}

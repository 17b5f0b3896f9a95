//! Changes files atomically, one process at a time. Readers see either the old text or the new one, also after a
//! crash.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use switchboard_config::edit::EditError;
use switchboard_config::problem::ReadFailure;
use tempfile::NamedTempFile;
use thiserror::Error;

use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// How long to wait for another process that holds the lock of the folder.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);
const DRAFT_PREFIX: &str = ".swb-draft-";

/// A file could not be changed. Its content is as before.
#[derive(Debug, Error)]
#[error("could not change {}", .path.display())]
#[non_exhaustive]
pub struct FileChangeError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    #[source]
    pub kind: FileChangeErrorKind,
}

/// Why a file could not be changed.
#[derive(Debug, Error)]
pub enum FileChangeErrorKind {
    /// Another process held the lock until the timeout.
    #[error("another process has been changing files beside it for {} seconds", LOCK_TIMEOUT.as_secs())]
    Busy,
    /// The current content could not be read.
    #[error("the file {0}")]
    Unreadable(ReadFailure),
    /// The edit failed.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// An I/O operation failed.
    #[error("an I/O operation failed")]
    Io(#[from] io::Error),
}

/// The read permissions of a newly created file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privacy {
    /// Only the user: the file may hold secrets.
    Owner,
    /// Everyone with access to the folder: the file is shared on purpose.
    Shared,
}

/// Whether a change wrote the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeOutcome {
    /// The file has new content.
    Written,
    /// The edit produced the same content.
    Unchanged,
}

/// Changes the file at `path` with `edit`, which gets the current text, or an empty one if the file does not exist.
/// Symbolic links are followed: the target is changed and the link stays.
pub fn change(
    path: &Path,
    privacy: Privacy,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<ChangeOutcome, FileChangeError> {
    let fail = |kind: FileChangeErrorKind| FileChangeError { path: path.to_owned(), kind };
    let target = follow_links(path).map_err(|kind| fail(FileChangeErrorKind::Unreadable(kind)))?;
    let folder = target.parent().unwrap_or(Path::new("."));
    make_folder(folder, privacy).map_err(|error| fail(error.into()))?;
    let _held = lock(folder).map_err(fail)?;
    remove_stale_drafts(folder);
    let before = match text_file::read_text(&target, AllowedFiles::RegularOnly) {
        Ok(FileContent::Text(text)) => text,
        Ok(FileContent::Absent) => String::new(),
        Err(kind) => return Err(fail(FileChangeErrorKind::Unreadable(kind))),
    };
    let after = edit(&before).map_err(|error| fail(error.into()))?;
    if after == before {
        return Ok(ChangeOutcome::Unchanged);
    }
    replace(&target, folder, privacy, &after).map_err(|error| fail(error.into()))?;
    Ok(ChangeOutcome::Written)
}

/// Opens a private file for appending. Creates the file and its folder if needed.
pub fn open_append(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        make_folder(folder, Privacy::Owner)?;
    }
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

/// Creates a folder that only its owner can use, unless it is there.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    make_folder(folder, Privacy::Owner)
}

/// The final target of a chain of symbolic links. It need not exist.
fn follow_links(path: &Path) -> Result<PathBuf, ReadFailure> {
    const MAX_LINKS: usize = 40;
    let mut link_target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&link_target) {
            Ok(next) => link_target = link_target.parent().unwrap_or(Path::new(".")).join(next),
            Err(_) => return Ok(link_target),
        }
    }
    Err(ReadFailure::SymlinkLoop)
}

fn make_folder(folder: &Path, privacy: Privacy) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    if privacy == Privacy::Owner {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    #[cfg(not(unix))]
    let _folders_inherit_permissions = privacy;
    builder.create(folder)
}

/// Locks the folder against other Switchboard processes until the returned file is dropped. The lock is on the folder
/// itself, so no lock file remains and the lock ends with the process.
pub(crate) fn lock(folder: &Path) -> Result<File, FileChangeErrorKind> {
    let file = lock_file(folder)?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(LOCK_POLL_INTERVAL);
            }
            Err(TryLockError::WouldBlock) => return Err(FileChangeErrorKind::Busy),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}

#[cfg(unix)]
fn lock_file(folder: &Path) -> io::Result<File> {
    File::open(folder)
}

#[cfg(not(unix))]
fn lock_file(folder: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(folder.join(".swb.lock"))
}

/// Removes drafts of killed processes. The caller holds the lock, so no other process is writing one.
fn remove_stale_drafts(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX) {
            let _already_gone = fs::remove_file(entry.path());
        }
    }
}

fn replace(target: &Path, folder: &Path, privacy: Privacy, text: &str) -> io::Result<()> {
    let mut draft = tempfile::Builder::new().prefix(DRAFT_PREFIX).tempfile_in(folder)?;
    draft.write_all(text.as_bytes())?;
    copy_metadata(&draft, target, privacy)?;
    draft.as_file().sync_all()?;
    draft.persist(target).map_err(|error| error.error)?;
    sync_folder(folder)
}

/// Copies permissions and owner of the replaced file to the draft.
fn copy_metadata(draft: &NamedTempFile, target: &Path, privacy: Privacy) -> io::Result<()> {
    match target.metadata() {
        Ok(old) => {
            copy_owner(draft, &old);
            draft.as_file().set_permissions(old.permissions())
        }
        Err(_) => match privacy {
            Privacy::Owner => Ok(()),
            Privacy::Shared => shared_permissions(draft),
        },
    }
}

#[cfg(unix)]
fn copy_owner(draft: &NamedTempFile, old: &fs::Metadata) {
    use std::os::unix::fs::MetadataExt;
    let Ok(new) = draft.as_file().metadata() else { return };
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        // Only root may change the owner; without that right the file becomes the user's own.
        let _not_permitted =
            std::os::unix::fs::fchown(draft.as_file(), Some(old.uid()), Some(old.gid()));
    }
}

#[cfg(not(unix))]
fn copy_owner(_: &NamedTempFile, _: &fs::Metadata) {}

/// Gives the draft the permissions of a newly created file. The umask cannot be read without changing it, so a probe
/// file is created.
#[cfg(unix)]
fn shared_permissions(draft: &NamedTempFile) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let probe = draft.path().with_extension("mask");
    let mode = File::create_new(&probe)?.metadata()?.permissions().mode() & 0o777;
    fs::remove_file(&probe)?;
    draft.as_file().set_permissions(Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn shared_permissions(_: &NamedTempFile) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn set(text: &str) -> impl FnOnce(&str) -> Result<String, EditError> {
        let text = text.to_owned();
        move |_| Ok(text)
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("it is there").permissions().mode() & 0o777
    }

    #[test]
    fn a_private_file_and_its_folder_are_readable_by_the_owner_only() {
        let home = tempfile::tempdir().expect("a temp folder");
        let path = home.path().join("a/b/settings.json");
        assert_eq!(
            change(&path, Privacy::Owner, set("x")).expect("written"),
            ChangeOutcome::Written
        );
        assert_eq!((mode(&path), mode(&home.path().join("a/b"))), (0o600, 0o700));
        assert_eq!(
            change(&path, Privacy::Owner, set("x")).expect("the same"),
            ChangeOutcome::Unchanged
        );
    }

    #[test]
    fn permissions_and_links_survive_a_change() {
        let home = tempfile::tempdir().expect("a temp folder");
        let (real, link) = (home.path().join("real/file"), home.path().join("link"));
        fs::create_dir(home.path().join("real")).expect("a folder");
        fs::write(&real, "old").expect("a file");
        fs::set_permissions(&real, Permissions::from_mode(0o640)).expect("rights");
        symlink("real/file", &link).expect("a link");
        change(&link, Privacy::Owner, set("new")).expect("written");
        assert_eq!(fs::read_to_string(&real).expect("text"), "new");
        assert_eq!(mode(&real), 0o640);
        assert!(link.symlink_metadata().expect("still there").is_symlink());
    }

    #[test]
    fn a_dangling_link_is_filled_and_a_loop_is_rejected() {
        let home = tempfile::tempdir().expect("a temp folder");
        let (link, a) = (home.path().join("link"), home.path().join("a"));
        symlink("made", &link).expect("a link");
        change(&link, Privacy::Shared, set("new")).expect("written");
        assert_eq!(fs::read_to_string(home.path().join("made")).expect("text"), "new");
        symlink("a", &a).expect("a link");
        let error = change(&a, Privacy::Shared, set("new")).expect_err("it never ends");
        assert!(
            matches!(error.kind, FileChangeErrorKind::Unreadable(ReadFailure::SymlinkLoop)),
            "{error:?}"
        );
    }

    #[test]
    fn drafts_of_killed_processes_are_removed_and_other_files_are_not() {
        let home = tempfile::tempdir().expect("a temp folder");
        fs::write(home.path().join(".swb-draft-dead"), "half").expect("a file");
        fs::write(home.path().join("other"), "mine").expect("a file");
        change(&home.path().join("f"), Privacy::Shared, set("x")).expect("written");
        let mut left: Vec<_> = fs::read_dir(home.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        left.sort();
        assert_eq!(left, ["f", "other"]);
    }

    #[test]
    fn a_failed_edit_leaves_the_file_as_it_was() {
        let home = tempfile::tempdir().expect("a temp folder");
        let path = home.path().join("f");
        fs::write(&path, "{").expect("a file");
        let error = change(&path, Privacy::Owner, |text| {
            switchboard_config::edit::apply(
                text,
                &[switchboard_config::edit::Edit::RemoveServer { name: "a".to_owned() }],
            )
        })
        .expect_err("it is no JSON");
        assert!(matches!(error.kind, FileChangeErrorKind::Edit(EditError::Syntax(_))));
        assert_eq!(fs::read_to_string(&path).expect("text"), "{");
    }

    #[test]
    fn concurrent_changes_are_all_applied() {
        let home = tempfile::tempdir().expect("a temp folder");
        let path = home.path().join("f");
        std::thread::scope(|scope| {
            for index in 0..16 {
                let path = &path;
                scope.spawn(move || {
                    change(path, Privacy::Owner, |text| Ok(format!("{text}{index}\n")))
                        .expect("written");
                });
            }
        });
        let mut lines: Vec<usize> = fs::read_to_string(&path)
            .expect("text")
            .lines()
            .map(|line| line.parse().expect("a number"))
            .collect();
        lines.sort();
        assert_eq!(lines, (0..16).collect::<Vec<_>>());
    }
}

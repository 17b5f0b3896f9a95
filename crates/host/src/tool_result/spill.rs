//! Stores large results on disk: whole texts under an id, and content that is saved instead of shown. Files are
//! private, have unguessable names chosen by us, and are removed oldest first.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;
use thiserror::Error;
use tracing::debug;

const DRAFT_PREFIX: &str = ".swb-draft-";
/// Drafts older than this belong to killed processes.
const DRAFT_MAX_AGE: Duration = Duration::from_secs(60 * 60);
const ID_LENGTH: usize = 24;

/// The folder of saved results and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillStore {
    /// The folder, created with the first file.
    pub folder: PathBuf,
    /// The maximum number of bytes of all files together.
    pub max_bytes: u64,
    /// The maximum age of a file.
    pub max_age: Duration,
}

impl SpillStore {
    /// Stores results in the user's data folder: at most 1 GB for 30 days.
    pub fn in_data_folder(data: &Path) -> SpillStore {
        SpillStore {
            folder: data.join("results"),
            max_bytes: 1024 * 1024 * 1024,
            max_age: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }

    /// The file of a saved text. It may have been removed.
    pub fn path(&self, id: &ResultId) -> PathBuf {
        self.folder.join(format!("{id}.txt"))
    }

    /// Removes expired files, then the oldest until the rest is within the limit. Touches only files with our names.
    pub fn sweep(&self, now: SystemTime) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            // The metadata of the entry itself, not of a link's target.
            let Ok(metadata) = entry.metadata() else { continue };
            let Some(role) = role(&entry.file_name().to_string_lossy()) else { continue };
            if !metadata.is_file() {
                continue;
            }
            let max_age = match role {
                Role::Draft => DRAFT_MAX_AGE,
                Role::Result => self.max_age,
            };
            let written = metadata.modified().unwrap_or(now);
            if now.duration_since(written).is_ok_and(|age| age > max_age) {
                remove(&entry.path());
            } else if role == Role::Result {
                files.push((written, metadata.len(), entry.path()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if total <= self.max_bytes {
                break;
            }
            remove(&path);
            total -= size;
        }
        Ok(())
    }

    /// Creates the folder, and rejects one that belongs to another user.
    fn prepare(&self) -> Result<(), SpillError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        builder.create(&self.folder)?;
        let metadata = self.folder.symlink_metadata()?;
        if !metadata.is_dir() {
            return Err(SpillError::ForeignFolder);
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, PermissionsExt};
            if metadata.uid() != rustix::process::geteuid().as_raw() {
                return Err(SpillError::ForeignFolder);
            }
            if metadata.mode() & 0o077 != 0 {
                fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o700))?;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A file that is being written, or whose process was killed.
    Draft,
    Result,
}

/// The role of a file by its name; `None` for names that are not ours.
fn role(name: &str) -> Option<Role> {
    if name.starts_with(DRAFT_PREFIX) {
        return Some(Role::Draft);
    }
    let (stem, _) = name.rsplit_once('.')?;
    let id = stem.rsplit_once('-').map_or(stem, |(_, id)| id);
    ResultId::parse(id).ok().map(|_| Role::Result)
}

fn remove(path: &Path) {
    let _already_gone = fs::remove_file(path);
}

/// Opens a saved file for reading. Does not follow links or block on a pipe.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() && path.symlink_metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

/// The id of a saved result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResultId(String);

/// The text is not a result id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a result id: an id has {ID_LENGTH} hexadecimal digits")]
pub struct InvalidResultId;

impl ResultId {
    /// Parses an id from user input. A valid id is always a plain file name.
    pub fn parse(text: &str) -> Result<ResultId, InvalidResultId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == ID_LENGTH && text.bytes().all(is_digit) {
            Ok(ResultId(text.to_owned()))
        } else {
            Err(InvalidResultId)
        }
    }

    /// A new, unguessable id: the keys of `RandomState` come from the system's random numbers.
    fn random() -> ResultId {
        let draw = || RandomState::new().hash_one((SystemTime::now(), std::process::id()));
        let (high, low) = (draw(), draw() & u64::from(u32::MAX));
        ResultId(format!("{high:016x}{low:08x}"))
    }
}

impl fmt::Display for ResultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A saved text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpillFile {
    /// The id for reading it.
    pub id: ResultId,
    /// The path of the file.
    pub path: PathBuf,
}

/// Why content could not be saved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpillError {
    /// The result exceeds its limit of bytes.
    #[error("the result exceeds its limit of bytes on disk")]
    TooManyBytes,
    /// The result exceeds its limit of files.
    #[error("the result exceeds its limit of files on disk")]
    TooManyFiles,
    /// The folder is a link, a file, or belongs to another user.
    #[error("the folder for results is a link or belongs to another user")]
    ForeignFolder,
    /// The content could not be decoded.
    #[error("it could not be decoded")]
    Undecodable,
    /// An I/O operation failed.
    #[error("an I/O operation failed ({})", .0.kind())]
    Io(#[from] io::Error),
}

/// The remaining disk quota of one result.
#[derive(Debug)]
pub(crate) struct SpillBudget<'k> {
    store: &'k SpillStore,
    bytes: u64,
    files: usize,
    used: bool,
}

/// A written file.
pub(crate) struct WrittenFile<T> {
    pub id: ResultId,
    pub path: PathBuf,
    pub bytes: u64,
    /// The output of the write function.
    pub output: T,
}

impl<'k> SpillBudget<'k> {
    pub(crate) fn new(store: &'k SpillStore, bytes: u64, files: usize) -> SpillBudget<'k> {
        SpillBudget { store, bytes, files, used: false }
    }

    /// Writes a file atomically, without overwriting another.
    pub(crate) fn write<T>(
        &mut self,
        write: impl FnOnce(&mut BoundedFile) -> Result<T, SpillError>,
        name: impl FnOnce(&ResultId, &T) -> String,
    ) -> Result<WrittenFile<T>, SpillError> {
        if self.files == 0 {
            return Err(SpillError::TooManyFiles);
        }
        self.store.prepare()?;
        let folder = &self.store.folder;
        let draft = tempfile::Builder::new().prefix(DRAFT_PREFIX).tempfile_in(folder)?;
        let mut draft_file = BoundedFile { draft, remaining: self.bytes, written: 0 };
        let output = match write(&mut draft_file) {
            Ok(output) => output,
            Err(SpillError::Io(error)) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(SpillError::TooManyBytes);
            }
            Err(kind) => return Err(kind),
        };
        let id = ResultId::random();
        let path = folder.join(name(&id, &output));
        draft_file.draft.persist_noclobber(&path).map_err(|error| error.error)?;
        self.bytes -= draft_file.written;
        self.files -= 1;
        self.used = true;
        debug!(bytes = draft_file.written, "content of a result stored in a file");
        Ok(WrittenFile { id, path, bytes: draft_file.written, output })
    }

    /// Removes old files if something was written.
    pub(crate) fn sweep_if_used(self) -> Result<(), SpillError> {
        if self.used {
            self.store.sweep(SystemTime::now())?;
        }
        Ok(())
    }
}

/// A draft with a size limit.
#[derive(Debug)]
pub(crate) struct BoundedFile {
    draft: NamedTempFile,
    remaining: u64,
    written: u64,
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.remaining {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let count = self.draft.write(bytes)?;
        self.remaining -= count as u64;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.draft.flush()
    }
}

/// A server's name as part of a file name.
pub(crate) fn sanitized_name(server: &str) -> String {
    let sanitize = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '+' };
    let name: String = server.chars().take(40).map(sanitize).collect();
    if name.is_empty() { "server".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn put(store: &SpillStore, text: &str) -> Result<WrittenFile<()>, SpillError> {
        SpillBudget::new(store, 1000, 10).write(
            |to| Ok(to.write_all(text.as_bytes())?),
            |id, ()| format!("{}-{id}.bin", sanitized_name("../../a")),
        )
    }

    #[test]
    fn saved_files_are_private_and_inside_the_folder() {
        let home = tempfile::tempdir().expect("a temp folder");
        let store = SpillStore::in_data_folder(home.path());
        let written = put(&store, "x").expect("kept");
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&written.path), mode(&store.folder)), (0o600, 0o700));
        assert_eq!(written.path.parent(), Some(store.folder.as_path()));
        fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o755)).expect("rights");
        put(&store, "y").expect("kept");
        assert_eq!(mode(&store.folder), 0o700);
    }

    #[test]
    fn a_folder_that_is_a_link_is_rejected() {
        let home = tempfile::tempdir().expect("a temp folder");
        let store = SpillStore::in_data_folder(home.path());
        fs::create_dir(home.path().join("elsewhere")).expect("a folder");
        symlink("elsewhere", &store.folder).expect("a link");
        assert!(matches!(put(&store, "x"), Err(SpillError::ForeignFolder)));
        assert_eq!(fs::read_dir(home.path().join("elsewhere")).expect("a folder").count(), 0);
    }

    #[test]
    fn a_result_stays_within_its_budget_and_leaves_no_partial_files() {
        let home = tempfile::tempdir().expect("a temp folder");
        let store = SpillStore::in_data_folder(home.path());
        let mut budget = SpillBudget::new(&store, 10, 2);
        let mut put = |text: &str| {
            let write = |to: &mut BoundedFile| Ok(to.write_all(text.as_bytes())?);
            budget.write(write, |id, ()| format!("{id}.txt")).map(|written| written.bytes)
        };
        assert!(matches!(put("12345678901"), Err(SpillError::TooManyBytes)));
        assert!(matches!(put("123456"), Ok(6)));
        assert!(matches!(put("12345"), Err(SpillError::TooManyBytes)));
        assert!(matches!(put("1234"), Ok(4)));
        assert!(matches!(put(""), Err(SpillError::TooManyFiles)));
        assert_eq!(fs::read_dir(&store.folder).expect("a folder").count(), 2);
    }

    #[test]
    fn expired_then_oldest_files_are_removed_and_other_files_stay() {
        let home = tempfile::tempdir().expect("a temp folder");
        let store = SpillStore { max_bytes: 25, ..SpillStore::in_data_folder(home.path()) };
        let now = SystemTime::now();
        let aged = |days: u64| {
            let path = put(&store, "0123456789").expect("kept").path;
            let file = File::options().write(true).open(&path).expect("a file");
            file.set_modified(now - Duration::from_secs(days * 24 * 60 * 60)).expect("a time");
            path
        };
        let (ancient, old, newer, newest) = (aged(31), aged(20), aged(2), aged(1));
        let target = home.path().join("target");
        fs::write(&target, [0; 100]).expect("a file");
        let link = store.folder.join(format!("{}.txt", "0".repeat(ID_LENGTH)));
        symlink(&target, &link).expect("a link");
        let other_file = store.folder.join("holiday.txt");
        fs::write(&other_file, [0; 100]).expect("a file");

        store.sweep(now).expect("swept");

        let remaining =
            [&ancient, &old, &newer, &newest, &target, &link, &other_file].map(|p| p.exists());
        assert_eq!(remaining, [false, false, true, true, true, true, true]);
    }

    #[test]
    fn stale_drafts_are_removed_and_recent_ones_stay() {
        let home = tempfile::tempdir().expect("a temp folder");
        let store = SpillStore {
            folder: home.path().to_owned(),
            ..SpillStore::in_data_folder(home.path())
        };
        let draft = home.path().join(".swb-draft-x");
        fs::write(&draft, "half").expect("a file");
        store.sweep(SystemTime::now()).expect("swept");
        assert!(draft.exists());
        store.sweep(SystemTime::now() + DRAFT_MAX_AGE * 2).expect("swept");
        assert!(!draft.exists());
    }

    #[test]
    fn only_hexadecimal_ids_are_accepted() {
        let id = ResultId::random();
        assert_eq!(ResultId::parse(&id.to_string()), Ok(id.clone()));
        assert_ne!(id, ResultId::random());
        let slashed = format!("../{}", "a".repeat(21));
        for text in
            ["", ".", "..", "abc", "/etc/passwd", &slashed, &"A".repeat(24), &"ü".repeat(12)]
        {
            assert_eq!(ResultId::parse(text), Err(InvalidResultId), "{text}");
        }
        assert_eq!(ResultId::parse(&format!("{id}\n")), Err(InvalidResultId));
        assert_eq!(ResultId::parse(&format!("{id}.txt")), Err(InvalidResultId));
    }
}

//! The folder that results are kept in: whole texts under an id, and everything that is not shown but saved.
//! Files are the owner's alone, their names are ours and cannot be guessed, and the oldest leave first.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;
use thiserror::Error;

const DRAFT_PREFIX: &str = ".swb-draft-";
/// A draft that old belongs to a process that was killed.
const DRAFT_MAX_AGE: Duration = Duration::from_secs(60 * 60);
const ID_LENGTH: usize = 24;

/// Where results are kept, how many bytes of them, and how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillStore {
    /// The folder, which is made when the first is kept.
    pub folder: PathBuf,
    /// The most bytes, all results together.
    pub max_bytes: u64,
    /// The longest that one is kept.
    pub max_age: Duration,
}

impl SpillStore {
    /// Keeps results below the folder of the person's data: at most a gigabyte, for thirty days.
    pub fn in_data_folder(data: &Path) -> SpillStore {
        SpillStore {
            folder: data.join("results"),
            max_bytes: 1024 * 1024 * 1024,
            max_age: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }

    /// The file of a whole text. It may be gone.
    pub fn path(&self, id: &ResultId) -> PathBuf {
        self.folder.join(format!("{id}.txt"))
    }

    /// Removes what is too old, then the oldest until the rest is not too much. Only files that we named go.
    pub fn sweep(&self, now: SystemTime) -> io::Result<()> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            // Of the entry itself: where a link leads is none of our business.
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
                kept.push((written, metadata.len(), entry.path()));
            }
        }
        kept.sort();
        let mut total: u64 = kept.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in kept {
            if total <= self.max_bytes {
                break;
            }
            remove(&path);
            total -= size;
        }
        Ok(())
    }

    /// Makes the folder, and refuses one that is not the person's own.
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
    /// Somebody is writing it, or was killed while writing.
    Draft,
    Result,
}

/// What a file of this name is to us; none if the name is not one of ours.
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

/// Opens a kept file for reading. A link is not followed, and a pipe is not waited for.
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

/// What a kept result is asked for by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResultId(String);

/// The text is no id of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("that is no id of a result: an id is {ID_LENGTH} digits from 0 to f")]
pub struct InvalidResultId;

impl ResultId {
    /// Reads an id that somebody typed. What passes is never more than the name of a file.
    pub fn parse(text: &str) -> Result<ResultId, InvalidResultId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == ID_LENGTH && text.bytes().all(is_digit) {
            Ok(ResultId(text.to_owned()))
        } else {
            Err(InvalidResultId)
        }
    }

    /// A new one. The hasher's keys are the system's random numbers, and without them nobody knows the next id.
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

/// A whole text on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillFile {
    /// What it is asked for by.
    pub id: ResultId,
    /// Where it is.
    pub path: PathBuf,
}

/// Why something could not be kept.
#[derive(Debug, Error)]
pub enum SpillError {
    /// One answer would leave too many bytes.
    #[error("one answer may leave no more on disk")]
    TooManyBytes,
    /// One answer would leave too many files.
    #[error("one answer may leave no more files on disk")]
    TooManyFiles,
    /// The folder is a link, a file or somebody else's.
    #[error("the folder for results is a link or belongs to somebody else")]
    ForeignFolder,
    /// What should be saved could not be decoded.
    #[error("it could not be decoded")]
    Undecodable,
    /// The system would not let us.
    #[error("the system refused ({})", .0.kind())]
    Io(#[from] io::Error),
}

/// What one answer may still leave on disk.
#[derive(Debug)]
pub(crate) struct SpillBudget<'k> {
    store: &'k SpillStore,
    bytes: u64,
    files: usize,
    used: bool,
}

/// A file that was written.
pub(crate) struct WrittenFile<T> {
    pub id: ResultId,
    pub path: PathBuf,
    pub bytes: u64,
    /// What the writing found out.
    pub found: T,
}

impl<'k> SpillBudget<'k> {
    pub(crate) fn new(store: &'k SpillStore, bytes: u64, files: usize) -> SpillBudget<'k> {
        SpillBudget { store, bytes, files, used: false }
    }

    /// Writes a file: whole or not at all, and over no other.
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
        let mut to = BoundedFile { draft, left: self.bytes, written: 0 };
        let found = match write(&mut to) {
            Ok(found) => found,
            Err(SpillError::Io(error)) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(SpillError::TooManyBytes);
            }
            Err(kind) => return Err(kind),
        };
        let id = ResultId::random();
        let path = folder.join(name(&id, &found));
        to.draft.persist_noclobber(&path).map_err(|error| error.error)?;
        self.bytes -= to.written;
        self.files -= 1;
        self.used = true;
        Ok(WrittenFile { id, path, bytes: to.written, found })
    }

    /// Makes room for the next, if anything was written.
    pub(crate) fn sweep_if_used(self) -> Result<(), SpillError> {
        if self.used {
            self.store.sweep(SystemTime::now())?;
        }
        Ok(())
    }
}

/// A draft that takes only so much.
#[derive(Debug)]
pub(crate) struct BoundedFile {
    draft: NamedTempFile,
    left: u64,
    written: u64,
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.left {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let count = self.draft.write(bytes)?;
        self.left -= count as u64;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.draft.flush()
    }
}

/// A server's name as part of a file's.
pub(crate) fn plain_name(server: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '+' };
    let name: String = server.chars().take(40).map(plain).collect();
    if name.is_empty() { "server".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn put(store: &SpillStore, text: &str) -> Result<WrittenFile<()>, SpillError> {
        SpillBudget::new(store, 1000, 10).write(
            |to| Ok(to.write_all(text.as_bytes())?),
            |id, ()| format!("{}-{id}.bin", plain_name("../../a")),
        )
    }

    #[test]
    fn what_is_kept_is_the_owners_alone_and_lies_in_the_folder() {
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
    fn a_folder_that_is_a_link_is_refused() {
        let home = tempfile::tempdir().expect("a temp folder");
        let store = SpillStore::in_data_folder(home.path());
        fs::create_dir(home.path().join("elsewhere")).expect("a folder");
        symlink("elsewhere", &store.folder).expect("a link");
        assert!(matches!(put(&store, "x"), Err(SpillError::ForeignFolder)));
        assert_eq!(fs::read_dir(home.path().join("elsewhere")).expect("a folder").count(), 0);
    }

    #[test]
    fn an_answer_leaves_no_more_than_it_may_and_no_halves() {
        let home = tempfile::tempdir().expect("a temp folder");
        let store = SpillStore::in_data_folder(home.path());
        let mut allowance = SpillBudget::new(&store, 10, 2);
        let mut put = |text: &str| {
            let write = |to: &mut BoundedFile| Ok(to.write_all(text.as_bytes())?);
            allowance.write(write, |id, ()| format!("{id}.txt")).map(|written| written.bytes)
        };
        assert!(matches!(put("12345678901"), Err(SpillError::TooManyBytes)));
        assert!(matches!(put("123456"), Ok(6)));
        assert!(matches!(put("12345"), Err(SpillError::TooManyBytes)));
        assert!(matches!(put("1234"), Ok(4)));
        assert!(matches!(put(""), Err(SpillError::TooManyFiles)));
        assert_eq!(fs::read_dir(&store.folder).expect("a folder").count(), 2);
    }

    #[test]
    fn the_old_leave_then_the_oldest_and_strangers_stay() {
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
        let stranger = store.folder.join("holiday.txt");
        fs::write(&stranger, [0; 100]).expect("a file");

        store.sweep(now).expect("swept");

        let left = [&ancient, &old, &newer, &newest, &target, &link, &stranger].map(|p| p.exists());
        assert_eq!(left, [false, false, true, true, true, true, true]);
    }

    #[test]
    fn drafts_of_the_killed_leave_and_those_of_the_living_stay() {
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
    fn only_an_id_is_an_id() {
        let fresh = ResultId::random();
        assert_eq!(ResultId::parse(&fresh.to_string()), Ok(fresh.clone()));
        assert_ne!(fresh, ResultId::random());
        let slashed = format!("../{}", "a".repeat(21));
        for text in
            ["", ".", "..", "abc", "/etc/passwd", &slashed, &"A".repeat(24), &"ü".repeat(12)]
        {
            assert_eq!(ResultId::parse(text), Err(InvalidResultId), "{text}");
        }
        assert_eq!(ResultId::parse(&format!("{fresh}\n")), Err(InvalidResultId));
        assert_eq!(ResultId::parse(&format!("{fresh}.txt")), Err(InvalidResultId));
    }
}

//! Reads the lock files of IDEs, and finds out which of them still listen. Deletes no file: they belong to the IDEs.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use switchboard_config::problem::ReadFailure;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::lock_file::{EXTENSION, IdeLock, IdePlatform, LockError};
use super::path_match::WorkspaceFolder;
use crate::sources::text_file;

/// The largest lock file that is read.
const MAX_LOCK_BYTES: u64 = 64 * 1024;
/// The most lock files of one folder that are read.
const MAX_LOCKS: usize = 64;
/// The most names in a folder that are looked at.
const MAX_NAMES: usize = 4096;
/// How long an IDE on this machine may take to accept a connection.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// The host where IDEs listen.
const LOOPBACK: &str = "127.0.0.1";

/// Where and how IDEs are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdeSearch {
    /// The folders with lock files, the most important first.
    pub folders: Vec<PathBuf>,
    /// The working folder, absolute and with links resolved.
    pub working_folder: PathBuf,
    /// The host where IDEs listen, instead of this one.
    pub host: Option<String>,
    /// Whether locks are checked.
    pub check: ValidityCheck,
}

/// Whether folder, process and port of a lock are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidityCheck {
    /// They are.
    Check,
    /// Every lock counts as valid.
    Skip,
}

impl IdeSearch {
    /// The host where IDEs listen.
    pub fn host(&self) -> &str {
        self.host.as_deref().unwrap_or(LOOPBACK)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdeScan {
    /// The folder that the folders of IDEs were compared with.
    pub working_folder: PathBuf,
    /// The folders that were looked into.
    pub folders: Vec<LockFolder>,
    /// The files in them.
    pub locks: Vec<FoundLock>,
}

/// A folder with lock files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockFolder {
    /// The folder.
    pub path: PathBuf,
    /// Why it could not be read. A missing folder is no error.
    pub error: Option<ReadFailure>,
}

/// A lock file and what was found out about its IDE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLock {
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub lock: Result<IdeLock, LockError>,
    /// When it was written.
    pub modified: SystemTime,
    /// The folders that are open in the IDE.
    pub folders: Vec<WorkspaceFolder>,
    /// Whether its process runs; `None` where that cannot be known.
    pub is_process_alive: Option<bool>,
    /// Whether a server accepts connections at its port.
    pub is_listening: bool,
}

/// Reads all lock files and tries their ports.
pub async fn scan(search: &IdeSearch) -> IdeScan {
    let read = {
        let search = search.clone();
        tokio::task::spawn_blocking(move || read_folders(&search)).await
    };
    let (folders, mut locks) = read.unwrap_or_default();
    let mut probes = JoinSet::new();
    for (at, found) in locks.iter().enumerate() {
        if let Ok(lock) = &found.lock {
            let (host, port) = (search.host().to_owned(), lock.port);
            probes.spawn(async move { (at, is_listening(&host, port).await) });
        }
    }
    while let Some(probed) = probes.join_next().await {
        if let Ok((at, is_listening)) = probed {
            locks[at].is_listening = is_listening;
        }
    }
    IdeScan { working_folder: search.working_folder.clone(), folders, locks }
}

async fn is_listening(host: &str, port: u16) -> bool {
    matches!(timeout(PROBE_TIMEOUT, TcpStream::connect((host, port))).await, Ok(Ok(_)))
}

fn read_folders(search: &IdeSearch) -> (Vec<LockFolder>, Vec<FoundLock>) {
    let (mut folders, mut locks) = (Vec::new(), Vec::new());
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in &search.folders {
        // Two folders may be the same one through a link.
        let resolved = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.contains(&resolved) {
            continue;
        }
        seen.push(resolved);
        let error = match lock_files(path) {
            Ok(files) => {
                locks.extend(files.iter().map(|file| read_lock(file)));
                None
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(text_file::unreadable(&error)),
        };
        folders.push(LockFolder { path: path.clone(), error });
    }
    (folders, locks)
}

fn lock_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let names = fs::read_dir(folder)?.take(MAX_NAMES).filter_map(Result::ok);
    let mut files: Vec<PathBuf> = names
        .map(|it| it.path())
        .filter(|path| path.extension().is_some_and(|it| it == EXTENSION))
        .collect();
    files.sort();
    files.truncate(MAX_LOCKS);
    Ok(files)
}

fn read_lock(path: &Path) -> FoundLock {
    let port = IdeLock::port_of(path);
    let read = port.and_then(|port| {
        let (text, modified) = read_file(path)?;
        Ok((IdeLock::parse(port, &text)?, modified))
    });
    let (lock, modified) = match read {
        Ok((lock, modified)) => (Ok(lock), modified),
        Err(error) => (Err(error), SystemTime::UNIX_EPOCH),
    };
    let folder = |written: &String, platform: IdePlatform| {
        let local = WorkspaceFolder::local_path(written, platform);
        let resolved = local.is_absolute().then(|| local.canonicalize().ok()).flatten();
        WorkspaceFolder { written: written.clone(), resolved }
    };
    let folders = match &lock {
        Ok(lock) => {
            lock.workspace_folders.iter().map(|written| folder(written, lock.platform)).collect()
        }
        Err(_) => Vec::new(),
    };
    let is_process_alive = match &lock {
        Ok(IdeLock { platform: IdePlatform::Local, pid: Some(pid), .. }) => is_alive(*pid),
        Ok(_) | Err(_) => None,
    };
    FoundLock {
        path: path.to_owned(),
        lock,
        modified,
        folders,
        is_process_alive,
        is_listening: false,
    }
}

/// Reads a regular file. A link is not followed: it could lead anywhere.
fn read_file(path: &Path) -> Result<(String, SystemTime), LockError> {
    let unreadable = |error: io::Error| LockError::Unreadable(error.kind());
    let metadata = path.symlink_metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(LockError::NotRegularFile);
    }
    let file = open_without_links(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(LockError::NotRegularFile);
    }
    let mut bytes = Vec::new();
    file.take(MAX_LOCK_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_LOCK_BYTES {
        return Err(LockError::TooLarge { limit: MAX_LOCK_BYTES });
    }
    let text = String::from_utf8(bytes).map_err(|_| LockError::NotJson)?;
    Ok((text, metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)))
}

#[cfg(unix)]
fn open_without_links(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    // Opening a pipe would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

#[cfg(not(unix))]
fn open_without_links(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Whether a process runs. One that belongs to another user does.
#[cfg(unix)]
fn is_alive(pid: u32) -> Option<bool> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    Some(rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_alive(_pid: u32) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::ide::choice::{LockVerdict, judge};

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Folder {
            Folder(tempfile::tempdir().expect("a temp folder"))
        }

        fn path(&self) -> PathBuf {
            self.0.path().canonicalize().expect("it exists")
        }

        fn lock(&self, port: u16, json: &serde_json::Value) {
            let path = self.path().join(format!("{port}.lock"));
            fs::write(path, json.to_string()).expect("a lock file");
        }

        fn search(&self) -> IdeSearch {
            IdeSearch {
                folders: vec![self.path()],
                working_folder: self.path(),
                host: None,
                check: ValidityCheck::Check,
            }
        }
    }

    fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind((LOOPBACK, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        (listener, port)
    }

    #[tokio::test]
    async fn files_that_are_no_locks_are_skipped_with_a_reason_and_never_deleted() {
        let folder = Folder::new();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("1.lock"), "not JSON").expect("a file");
        fs::write(at("2.lock"), vec![b' '; 70_000]).expect("a file");
        fs::write(at("elsewhere"), "{}").expect("a file");
        symlink(at("elsewhere"), at("3.lock")).expect("a link");
        rustix::fs::mkfifoat(rustix::fs::CWD, at("4.lock"), rustix::fs::Mode::RUSR)
            .expect("a pipe");
        fs::write(at("name.lock"), "{}").expect("a file");
        fs::write(at("5.txt"), "{}").expect("a file");
        let scan = scan(&folder.search()).await;
        let errors: Vec<_> =
            scan.locks.iter().map(|it| it.lock.clone().expect_err("bad")).collect();
        assert_eq!(
            errors,
            [
                LockError::NotJson,
                LockError::TooLarge { limit: MAX_LOCK_BYTES },
                LockError::NotRegularFile,
                LockError::NotRegularFile,
                LockError::NotAPort,
            ]
        );
        assert!(scan.locks.iter().all(|it| it.path.symlink_metadata().is_ok()));
    }

    #[tokio::test]
    async fn an_ide_that_listens_is_valid_and_one_that_does_not_is_found_out_at_once() {
        let folder = Folder::new();
        let (_open, port) = listener();
        let closed = {
            let (_closed_again, port) = listener();
            port
        };
        let json = |pid: u32| serde_json::json!({"pid": pid, "workspaceFolders": [folder.path()], "transport": "ws"});
        folder.lock(port, &json(std::process::id()));
        folder.lock(closed, &json(std::process::id()));
        let scan = scan(&folder.search()).await;
        let mut verdicts: Vec<_> = scan
            .locks
            .iter()
            .zip(judge(&scan, ValidityCheck::Check))
            .map(|(found, verdict)| (found.lock.as_ref().expect("a lock").port == port, verdict))
            .collect();
        verdicts.sort_by_key(|it| it.0);
        assert_eq!(verdicts, [(false, LockVerdict::NotListening), (true, LockVerdict::Valid)]);
    }

    #[tokio::test]
    async fn a_lock_folder_that_is_a_link_to_another_one_is_read_once() {
        let folder = Folder::new();
        let (_open, port) = listener();
        folder.lock(port, &serde_json::json!({"workspaceFolders": []}));
        let other = Folder::new();
        symlink(folder.path(), other.path().join("ide")).expect("a link");
        let folders = vec![folder.path(), other.path().join("ide"), other.path().join("missing")];
        let scan = scan(&IdeSearch { folders, ..folder.search() }).await;
        assert_eq!(scan.locks.len(), 1);
        assert_eq!(scan.folders.len(), 2);
        assert!(scan.folders.iter().all(|it| it.error.is_none()));
    }
}

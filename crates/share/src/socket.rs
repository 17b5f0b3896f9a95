//! The folder, the lock and the socket of the shared host. Only the user may enter the folder, and only processes of
//! the user are served.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

pub(crate) const SOCKET: &str = "host.sock";
const LOCK: &str = "host.lock";
/// The longest path that fits a socket address on every system.
const MAX_SOCKET_PATH: usize = 100;

/// The folder cannot be used, because others could change it.
#[derive(Debug, Error)]
#[error("the folder `{}` of the shared host cannot be used", .folder.display())]
pub struct FolderError {
    /// The folder.
    pub folder: PathBuf,
    /// What is wrong.
    #[source]
    pub problem: FolderProblem,
}

/// What is wrong with a folder.
#[derive(Debug, Error)]
pub enum FolderProblem {
    /// It belongs to another user.
    #[error("it belongs to another user")]
    Owner,
    /// Others may enter it.
    #[error("others may enter it; `chmod 700` corrects that")]
    Mode,
    /// It is not a folder.
    #[error("it is not a folder")]
    NotAFolder,
    /// It cannot be created or read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The folder of a shared host, which has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFolder(PathBuf);

impl HostFolder {
    /// Creates the folder if it is missing, and checks that only the user may enter it.
    pub fn create(folder: &Path) -> Result<HostFolder, FolderError> {
        let failed = |problem| FolderError { folder: folder.to_owned(), problem };
        if let Some(parent) = folder.parent() {
            fs::create_dir_all(parent).map_err(|it| failed(it.into()))?;
        }
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error.into())),
        }
        HostFolder::open(folder)
    }

    /// Checks a folder that should exist.
    pub fn open(folder: &Path) -> Result<HostFolder, FolderError> {
        let failed = |problem| FolderError { folder: folder.to_owned(), problem };
        let metadata = fs::symlink_metadata(folder).map_err(|it| failed(it.into()))?;
        if !metadata.is_dir() {
            return Err(failed(FolderProblem::NotAFolder));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(failed(FolderProblem::Owner));
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(failed(FolderProblem::Mode));
        }
        Ok(HostFolder(folder.to_owned()))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join(SOCKET)
    }

    /// Takes the lock of the host without waiting; `None` if another process holds it. Who holds it may bind the
    /// socket. It is held for as long as the file is open in any process.
    pub fn try_lock(&self) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).read(true).mode(0o600);
        let file = options.open(self.0.join(LOCK))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects to the host.
    pub async fn connect(&self) -> io::Result<UnixStream> {
        let address = SocketAddress::of(&self.0)?;
        UnixStream::connect(address.path(SOCKET)).await
    }

    /// Binds the socket: under a name of its own first, then with the final name in one step, so that a client finds
    /// either the old socket or one that accepts. Only the holder of the lock may do this.
    pub fn bind(&self) -> io::Result<BoundSocket> {
        let name = format!("{}.new", std::process::id());
        let own = self.0.join(&name);
        let _usually_absent = fs::remove_file(&own);
        let address = SocketAddress::of(&self.0)?;
        let listener = UnixListener::bind(address.path(&name))?;
        let inode = fs::symlink_metadata(&own)?.ino();
        fs::rename(&own, self.socket())?;
        Ok(BoundSocket { listener, socket: self.socket(), inode })
    }
}

/// The socket of a host that listens.
#[derive(Debug)]
pub struct BoundSocket {
    /// Accepts clients.
    pub listener: UnixListener,
    socket: PathBuf,
    inode: u64,
}

impl BoundSocket {
    /// Removes the socket's name, unless another host has taken it.
    pub fn remove_name(&self) {
        if fs::symlink_metadata(&self.socket).is_ok_and(|it| it.ino() == self.inode) {
            let _already_gone = fs::remove_file(&self.socket);
        }
    }
}

/// Whether the other end of a stream is a process of this user.
pub(crate) fn is_own_user(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == ours)
}

/// A path to a folder that is short enough for the address of a socket.
#[derive(Debug)]
pub enum SocketAddress {
    /// The folder itself.
    Direct(PathBuf),
    /// A temporary folder with a link to it.
    Linked(tempfile::TempDir),
}

impl SocketAddress {
    /// The short path of a folder.
    pub fn of(folder: &Path) -> io::Result<SocketAddress> {
        const LONGEST_NAME: usize = 24;
        if folder.as_os_str().len() + LONGEST_NAME <= MAX_SOCKET_PATH {
            return Ok(SocketAddress::Direct(folder.to_owned()));
        }
        let short = tempfile::Builder::new().prefix("swb").tempdir()?;
        std::os::unix::fs::symlink(fs::canonicalize(folder)?, short.path().join("r"))?;
        Ok(SocketAddress::Linked(short))
    }

    /// The path of a file in the folder. It is valid for as long as this value lives.
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            SocketAddress::Direct(folder) => folder.join(name),
            SocketAddress::Linked(short) => short.path().join("r").join(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().expect("a temp folder");
        let folder = home.path().join("run");
        (home, folder)
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let (_home, folder) = folder();
        HostFolder::create(&folder).expect("it is new");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("changed");
        let error = HostFolder::create(&folder).expect_err("others may enter");
        assert!(matches!(error.problem, FolderProblem::Mode), "{error}");
        assert!(error.problem.to_string().contains("chmod 700"), "{error}");
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_is_refused() {
        let (home, folder) = folder();
        std::os::unix::fs::symlink(home.path(), &folder).expect("linked");
        let error = HostFolder::create(&folder).expect_err("a link is not a folder");
        assert!(matches!(error.problem, FolderProblem::NotAFolder), "{error}");
    }

    #[test]
    fn one_process_at_a_time_holds_the_lock() {
        let (_home, folder) = folder();
        let folder = HostFolder::create(&folder).expect("created");
        let held = folder.try_lock().expect("no error").expect("it is free");
        assert!(folder.try_lock().expect("no error").is_none());
        drop(held);
        assert!(folder.try_lock().expect("no error").is_some());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_long_path_works() {
        let (_home, folder) = folder();
        let folder = folder.join("x".repeat(200));
        let folder = HostFolder::create(&folder).expect("created");
        let first = folder.bind().expect("bound");
        drop(first);
        let refused = folder.connect().await.expect_err("no process listens");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let second = folder.bind().expect("bound again");
        let (connected, accepted) = tokio::join!(folder.connect(), second.listener.accept());
        assert!(is_own_user(&connected.expect("connected")) && accepted.is_ok());
    }

    #[tokio::test]
    async fn a_host_removes_only_its_own_name() {
        let (_home, folder) = folder();
        let folder = HostFolder::create(&folder).expect("created");
        let old = folder.bind().expect("bound");
        let new = folder.bind().expect("bound");
        old.remove_name();
        assert!(folder.socket().exists());
        new.remove_name();
        assert!(!folder.socket().exists());
    }
}

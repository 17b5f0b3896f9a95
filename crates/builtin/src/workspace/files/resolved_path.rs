//! A path inside an allowed folder. Every operation starts at the folder's open handle and follows no link, so that
//! replacing a folder by a link between check and use has no effect.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::file_error::FileError;

/// An allowed folder, canonical and held open.
pub(crate) struct RootDir {
    pub(super) path: PathBuf,
    pub(super) dir: OwnedFd,
}

impl fmt::Debug for RootDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootDir({})", self.path.display())
    }
}

impl RootDir {
    pub(super) fn open(path: &Path) -> Option<RootDir> {
        let path = path.canonicalize().ok()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(CWD, &path, flags, Mode::empty()).ok()?;
        Some(RootDir { path, dir })
    }
}

/// A path inside an allowed folder. It need not exist.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedPath {
    pub(super) root: Arc<RootDir>,
    /// The path below the root, without links and `..`.
    pub(super) relative: PathBuf,
    /// The whole path.
    pub(crate) path: PathBuf,
}

/// An opened regular file, and its metadata at that time.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) file: File,
    pub(crate) stat: Stat,
}

impl ResolvedPath {
    /// Opens a regular file for reading. Other types are refused before opening: opening a device has side
    /// effects, and opening a pipe blocks.
    pub(crate) fn open(&self) -> Result<OpenedFile, FileError> {
        let seen = self.stat()?;
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(FileError::IsDirectory { path: self.path.clone() }),
            FileType::Symlink => return Err(FileError::DanglingLink { path: self.path.clone() }),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {
                return Err(FileError::NotRegularFile { path: self.path.clone() });
            }
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_relative(flags)?;
        let status = fstat(&file).map_err(|error| self.errno_error(error))?;
        if !is_same_file(&status, &seen) {
            return Err(FileError::ReplacedMeanwhile { path: self.path.clone() });
        }
        Ok(OpenedFile { file: File::from(file), stat: status })
    }

    /// Opens a folder.
    pub(crate) fn open_dir(&self) -> Result<OwnedFd, FileError> {
        self.open_relative(OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The metadata, without following a link.
    pub(crate) fn stat(&self) -> Result<Stat, FileError> {
        let Some((folder, name)) = self.parent_and_name() else {
            return fstat(&self.root.dir).map_err(|error| self.errno_error(error));
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = open_beneath(self.root.dir.as_fd(), &folder, flags);
        folder
            .and_then(|folder| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))
            .map_err(|error| self.errno_error(error))
    }

    /// Whether the path exists.
    pub(crate) fn exists(&self) -> Result<bool, FileError> {
        match self.stat() {
            Ok(_) => Ok(true),
            Err(FileError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the path is a folder.
    pub(crate) fn is_dir(&self) -> Result<bool, FileError> {
        let status = self.stat()?;
        Ok(FileType::from_raw_mode(status.st_mode) == FileType::Directory)
    }

    /// The parent folder, created if missing, and the name in it.
    pub(crate) fn open_or_create_parent(&self) -> Result<(OwnedFd, OsString), FileError> {
        let (folder, name) = self
            .parent_and_name()
            .ok_or_else(|| FileError::IsDirectory { path: self.path.clone() })?;
        let mut at = self.root.dir.try_clone().map_err(|error| self.io_error(&error))?;
        for part in folder.components() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let part = part.as_os_str();
            let next = match openat(&at, part, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    match mkdirat(&at, part, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(self.errno_error(error)),
                    }
                    openat(&at, part, flags, Mode::empty())
                }
                opened => opened,
            };
            at = next.map_err(|error| self.errno_error(error))?;
        }
        Ok((at, name))
    }

    fn parent_and_name(&self) -> Option<(PathBuf, OsString)> {
        let name = self.relative.file_name()?;
        Some((self.relative.parent().unwrap_or(Path::new("")).to_owned(), name.to_owned()))
    }

    fn open_relative(&self, flags: OFlags) -> Result<OwnedFd, FileError> {
        open_beneath(self.root.dir.as_fd(), &self.relative, flags)
            .map_err(|error| self.errno_error(error))
    }

    fn io_error(&self, error: &std::io::Error) -> FileError {
        FileError::Io { path: self.path.clone(), kind: error.kind() }
    }

    /// The error for an errno.
    pub(crate) fn errno_error(&self, error: Errno) -> FileError {
        let path = self.path.clone();
        match error {
            Errno::NOENT => FileError::NotFound { near: self.similar_name(), path },
            Errno::NOTDIR => FileError::NotADirectory { path },
            Errno::ISDIR => FileError::IsDirectory { path },
            Errno::LOOP | Errno::XDEV => FileError::ReplacedMeanwhile { path },
            Errno::ACCESS | Errno::PERM | Errno::ROFS => FileError::PermissionDenied { path },
            other => FileError::Io { path, kind: std::io::Error::from(other).kind() },
        }
    }

    /// A similar name in the same folder.
    fn similar_name(&self) -> Option<String> {
        let name = self.path.file_name()?.to_str()?;
        let folder = self.path.parent()?;
        let names = std::fs::read_dir(folder).ok()?.take(1000).flatten();
        let scored = names.filter_map(|entry| {
            let other = entry.file_name().into_string().ok()?;
            let score = strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase());
            (score > 0.8).then_some((score, other))
        });
        scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, other)| other)
    }
}

/// Whether both are the same regular file.
fn is_same_file(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino, one.st_mode) == (other.st_dev, other.st_ino, other.st_mode)
}

/// Opens a path below a folder without following any link.
fn open_beneath(
    folder: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let relative = match relative.as_os_str().is_empty() {
        true => Path::new("."),
        false => relative,
    };
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        // The kernel asks for a retry after a concurrent rename.
        for _ in 0..8 {
            match openat2(folder, relative, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // An old kernel, or a seccomp filter that does not know the call.
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return opened,
            }
        }
    }
    walk_beneath(folder, relative, flags)
}

/// The same component by component, for systems without `openat2`.
pub(super) fn walk_beneath(
    folder: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let safe = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let parts: Vec<&OsStr> = relative
        .components()
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            Component::CurDir => Ok(OsStr::new(".")),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => Err(Errno::XDEV),
        })
        .collect::<Result<_, _>>()?;
    let (last, folders) = parts.split_last().ok_or(Errno::NOENT)?;
    let mut at: Option<OwnedFd> = None;
    for part in folders {
        let here = at.as_ref().map_or(folder, AsFd::as_fd);
        let next = openat(here, *part, OFlags::RDONLY | OFlags::DIRECTORY | safe, Mode::empty())?;
        at = Some(next);
    }
    openat(at.as_ref().map_or(folder, AsFd::as_fd), *last, flags | safe, Mode::empty())
}

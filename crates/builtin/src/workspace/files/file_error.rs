//! Why a file cannot be accessed, with a hint what to do instead.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::kit::handler_error::HandlerError;

/// Why a file cannot be accessed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FileError {
    #[error("a path has from 1 to 4096 bytes, and none of them is zero")]
    InvalidPath,
    #[error("no folder is allowed, so no file can be accessed")]
    NoRoots,
    #[error("{} is outside of the allowed folders ({})", quoted(.path), quoted_list(.roots))]
    Outside { path: PathBuf, roots: Vec<PathBuf> },
    #[error("{} is not there{}", quoted(.path), suggestion(.near))]
    NotFound { path: PathBuf, near: Option<String> },
    #[error("{} is a folder; LS shows what is in it", quoted(.path))]
    IsDirectory { path: PathBuf },
    #[error("{} is not in a folder: a part of the path is a file", quoted(.path))]
    NotADirectory { path: PathBuf },
    #[error("{} is a broken link", quoted(.path))]
    DanglingLink { path: PathBuf },
    #[error("{} is a device, a pipe or a socket; only regular files are opened", quoted(.path))]
    NotRegularFile { path: PathBuf },
    #[error("{} was replaced meanwhile; try again", quoted(.path))]
    ReplacedMeanwhile { path: PathBuf },
    #[error("{} cannot be accessed: permission denied", quoted(.path))]
    PermissionDenied { path: PathBuf },
    #[error("{} cannot be used: {kind}", quoted(.path))]
    Io { path: PathBuf, kind: std::io::ErrorKind },
    #[error("{} has {size} bytes; the limit is {limit}", quoted(.path))]
    TooLarge { path: PathBuf, size: u64, limit: u64 },
    #[error("{} is not text ({what}), so it cannot be edited here", quoted(.path))]
    NotText { path: PathBuf, what: &'static str },
    #[error("{} has not been read yet; Read it first", quoted(.path))]
    NotRead { path: PathBuf },
    #[error("{} has changed since it was read; Read it again", quoted(.path))]
    ModifiedMeanwhile { path: PathBuf },
    #[error("{} is write-protected", quoted(.path))]
    ReadOnly { path: PathBuf },
}

impl From<FileError> for HandlerError {
    fn from(error: FileError) -> HandlerError {
        HandlerError::failed(error.to_string())
    }
}

fn quoted(path: &Path) -> String {
    format!("`{}`", path.display())
}

fn quoted_list(roots: &[PathBuf]) -> String {
    roots.iter().map(|root| quoted(root)).collect::<Vec<_>>().join(", ")
}

fn suggestion(near: &Option<String>) -> String {
    match near {
        Some(name) => format!("; did you mean `{name}`, in the same folder?"),
        None => String::new(),
    }
}

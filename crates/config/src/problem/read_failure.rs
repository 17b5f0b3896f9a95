//! Why a file could not be read.

use std::fmt;

/// Why a file could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFailure {
    /// It is a folder.
    IsDirectory,
    /// It is a pipe, a device or a socket.
    NotRegularFile,
    /// It should be a folder and is not.
    NotADirectory,
    /// It was named explicitly and does not exist.
    NotFound,
    /// It is a symbolic link to itself.
    SymlinkLoop,
    /// The user may not read it.
    PermissionDenied,
    /// It is larger than the limit.
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// It is not UTF-8.
    NotUtf8,
    /// Any other error of the system.
    Other(std::io::ErrorKind),
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadFailure::IsDirectory => f.write_str("is a folder, not a file"),
            ReadFailure::NotRegularFile => f.write_str("is not a regular file"),
            ReadFailure::NotADirectory => f.write_str("is not a folder"),
            ReadFailure::NotFound => f.write_str("does not exist"),
            ReadFailure::SymlinkLoop => f.write_str("is a symbolic link to itself"),
            ReadFailure::PermissionDenied => f.write_str("may not be read by this user"),
            ReadFailure::TooLarge { limit } => {
                write!(f, "is larger than {} MB", limit / 1_000_000)
            }
            ReadFailure::NotUtf8 => f.write_str("is not UTF-8 text"),
            ReadFailure::Other(kind) => write!(f, "could not be read: {kind}"),
        }
    }
}

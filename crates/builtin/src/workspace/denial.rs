//! Why a file cannot be had, in words that say what to do instead.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::refusal::Stop;

/// Why a file cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Denial {
    #[error("a path has from 1 to 4096 bytes, and none of them is zero")]
    NoPath,
    #[error("no folder is allowed, so no file can be touched")]
    NoRoots,
    #[error("{} is outside of the allowed folders ({})", shown(.path), listed(.roots))]
    Outside { path: PathBuf, roots: Vec<PathBuf> },
    #[error("{} is not there{}", shown(.path), suggested(.near))]
    Missing { path: PathBuf, near: Option<String> },
    #[error("{} is a folder; LS shows what is in it", shown(.path))]
    IsFolder { path: PathBuf },
    #[error("{} is not in a folder: something on the way is a file", shown(.path))]
    NotFolder { path: PathBuf },
    #[error("{} is a link that leads nowhere", shown(.path))]
    LooseLink { path: PathBuf },
    #[error("{} is a device, a pipe or a socket; only regular files are opened", shown(.path))]
    Special { path: PathBuf },
    #[error("{} became something else while it was looked at; try again", shown(.path))]
    Swapped { path: PathBuf },
    #[error("{} may not be touched: its permissions do not allow it", shown(.path))]
    Forbidden { path: PathBuf },
    #[error("{} cannot be used: {kind}", shown(.path))]
    System { path: PathBuf, kind: std::io::ErrorKind },
    #[error("{} has {size} bytes, and at most {limit} are taken", shown(.path))]
    TooLarge { path: PathBuf, size: u64, limit: u64 },
    #[error("{} is not text ({what}), so it cannot be edited here", shown(.path))]
    NotText { path: PathBuf, what: &'static str },
    #[error("{} was not read yet; Read it first, so that its contents are known", shown(.path))]
    Unread { path: PathBuf },
    #[error("{} was changed by somebody else since it was read; Read it again", shown(.path))]
    Changed { path: PathBuf },
    #[error("{} is write-protected", shown(.path))]
    Protected { path: PathBuf },
}

impl From<Denial> for Stop {
    fn from(denial: Denial) -> Stop {
        Stop::failed(denial.to_string())
    }
}

fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}

fn listed(roots: &[PathBuf]) -> String {
    roots.iter().map(|root| shown(root)).collect::<Vec<_>>().join(", ")
}

fn suggested(near: &Option<String>) -> String {
    match near {
        Some(name) => format!("; did you mean `{name}`, in the same folder?"),
        None => String::new(),
    }
}

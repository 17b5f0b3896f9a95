//! Why a plugin or a marketplace could not be fetched.

use std::io;
use std::path::PathBuf;

use switchboard_auth::fetch::DownloadError;
use switchboard_auth::fetch::origin_guard::UrlError;
use thiserror::Error;

use super::git::GitError;
use super::npm::NpmError;
use super::tree::TreeError;
use crate::bundle::ArchiveError;

/// A plugin or a marketplace could not be fetched. Nothing was changed.
#[derive(Debug, Error)]
pub enum PluginFetchError {
    /// The source is a command.
    #[error("its source is a command, and installing a plugin runs nothing")]
    Command,
    /// A folder of a marketplace that has no folder.
    #[error("its source is a folder of the marketplace, which is a single file")]
    NoFolder,
    /// A URL is refused.
    #[error("the URL is refused")]
    Url(#[source] UrlError),
    /// A repository of this machine, which only a marketplace of this machine may name.
    #[error("a marketplace from elsewhere may not name a repository of this machine")]
    LocalRepository,
    /// Git failed.
    #[error("git could not fetch the repository")]
    Git(#[source] GitError),
    /// A download failed.
    #[error("the download failed")]
    Download(#[source] DownloadError),
    /// A file is not the one that its publisher announced.
    #[error("the file is not the one that was announced: expected {expected}, found {found}")]
    Digest {
        /// The announced hash.
        expected: String,
        /// The hash of the file.
        found: String,
    },
    /// An archive is not safe.
    #[error("the archive cannot be unpacked safely")]
    Archive(#[source] ArchiveError),
    /// A package.
    #[error("the npm package cannot be used")]
    Npm(#[source] NpmError),
    /// The files are not safe.
    #[error("the plugin's files cannot be used")]
    Tree(#[source] TreeError),
    /// The files could not be written.
    #[error("could not write below {}", .folder.display())]
    Write {
        /// The folder.
        folder: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
}

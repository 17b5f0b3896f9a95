//! Plugins and marketplaces: fetching them from git repositories, archives and npm packages, and keeping their files.
//!
//! Every fetch goes to a draft folder, is checked there as a whole, and appears at its place in one step. Nothing of a
//! plugin runs: no hook and no filter of a repository, no script of a package. What the servers of a plugin are is decided
//! by `switchboard_config`.

mod archive;
mod error;
mod fetch;
mod git;
mod npm;
mod store;
mod tree;

pub use error::PluginFetchError;
pub use fetch::{FetchedFiles, PluginFetcher, SourceTrust, unpack_plugin};
pub use git::{GitError, GitProgram, RepositoryLimits};
pub use npm::{NpmError, NpmRegistry};
pub use store::{PluginStore, version_folder};
pub use tree::{TreeError, TreeLimits, copy_tree};

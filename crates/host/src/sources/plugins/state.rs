//! Reads our own files about plugins, and the files of marketplaces.

use std::path::{Path, PathBuf};

use switchboard_config::plugin::{
    InstalledPlugins, KnownMarketplaces, MARKETPLACE_FILE, Marketplace, PluginProblem,
};
use switchboard_config::problem::ReadFailure;

use crate::sources::paths::Paths;
use crate::sources::text_file;
use crate::sources::text_file::{AllowedFiles, FileContent};

/// What is known and installed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginState {
    /// The marketplaces.
    pub known: KnownMarketplaces,
    /// The plugins.
    pub installed: InstalledPlugins,
}

/// A file about plugins cannot be used.
#[derive(Debug, Clone)]
pub struct StateError {
    /// The file.
    pub path: PathBuf,
    /// Why it cannot be read; `None` if its content is not valid.
    pub failure: Option<ReadFailure>,
}

/// Reads both files. A missing one has nothing.
pub fn read_state(paths: &Paths) -> Result<PluginState, StateError> {
    let text = |path: &Path| match text_file::read_text(path, AllowedFiles::RegularOnly) {
        Ok(FileContent::Absent) => Ok(String::new()),
        Ok(FileContent::Text(text)) => Ok(text),
        Err(why) => Err(StateError { path: path.to_owned(), failure: Some(why) }),
    };
    let (known, installed) = (paths.known_marketplaces(), paths.installed_plugins());
    let corrupt = |path: &Path| StateError { path: path.to_owned(), failure: None };
    Ok(PluginState {
        known: KnownMarketplaces::parse(&text(&known)?).map_err(|_| corrupt(&known))?,
        installed: InstalledPlugins::parse(&text(&installed)?).map_err(|_| corrupt(&installed))?,
    })
}

/// Reads the file of the marketplace in a folder. Returns its path too.
pub fn read_marketplace(directory: &Path) -> (PathBuf, Result<Marketplace, PluginProblem>) {
    let path = directory.join(MARKETPLACE_FILE);
    let marketplace = match text_file::read_text(&path, AllowedFiles::RegularOnly) {
        Ok(FileContent::Text(text)) => {
            Marketplace::parse(&text).map_err(PluginProblem::Marketplace)
        }
        Ok(FileContent::Absent) => Err(PluginProblem::NoFile { path: MARKETPLACE_FILE.to_owned() }),
        Err(why) => Err(PluginProblem::Unreadable {
            path: MARKETPLACE_FILE.to_owned(),
            why: why.to_string(),
        }),
    };
    (path, marketplace)
}

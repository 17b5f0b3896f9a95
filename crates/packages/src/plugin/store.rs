//! The files of marketplaces and plugins on this machine: drafts, and the places where they appear in one step.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use switchboard_config::plugin::PluginId;
use tempfile::TempDir;

use super::error::PluginFetchError;
use crate::download::{DOWNLOAD_PREFIX, hex};
use crate::replace::{DRAFT_PREFIX, replace_folder};

/// After this time a folder of an interrupted installation is removed.
const DRAFT_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The folder for plugins that are used in one session only.
const SESSIONS: &str = "session";
/// After this time without use the files of a plugin for one session are removed.
const SESSION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The maximum length of a folder's name that is a version.
const MAX_VERSION: usize = 64;

/// The folder of marketplaces and plugins.
#[derive(Debug, Clone)]
pub struct PluginStore {
    folder: PathBuf,
}

impl PluginStore {
    /// The files below a folder.
    pub fn new(folder: &Path) -> PluginStore {
        PluginStore { folder: folder.to_owned() }
    }

    /// The folder for the files of a marketplace.
    pub fn marketplace(&self, name: &str) -> PathBuf {
        self.folder.join("marketplaces").join(name)
    }

    /// The folder for the files of one version of a plugin.
    pub fn plugin(&self, id: &PluginId, version: &str) -> PathBuf {
        self.versions(id).join(version_folder(version))
    }

    /// The folder for the versions of a plugin.
    pub fn versions(&self, id: &PluginId) -> PathBuf {
        let marketplace = id.marketplace.as_deref().unwrap_or("-");
        self.folder.join("cache").join(marketplace).join(&id.plugin)
    }

    /// The folder for a plugin that is used in one session only, by the hash of its archive.
    pub fn session(&self, hash: &str) -> PathBuf {
        self.folder.join(SESSIONS).join(hash)
    }

    /// Notes that the folder of a session's plugin is in use, so that it is not removed soon.
    pub fn keep_session(&self, hash: &str) {
        // A folder that cannot be changed may be removed while it is in use, in a month.
        let _unchanged =
            fs::File::open(self.session(hash)).and_then(|it| it.set_modified(SystemTime::now()));
    }

    /// The folder of the store itself.
    pub(super) fn folder(&self) -> Result<&Path, PluginFetchError> {
        fs::create_dir_all(&self.folder).map_err(|source| self.write(source))?;
        Ok(&self.folder)
    }

    /// A new folder for files that are not complete. Dropping it deletes it.
    pub fn draft(&self) -> Result<TempDir, PluginFetchError> {
        fs::create_dir_all(&self.folder).map_err(|source| self.write(source))?;
        self.remove_old_drafts();
        tempfile::Builder::new()
            .prefix(DRAFT_PREFIX)
            .tempdir_in(&self.folder)
            .map_err(|source| self.write(source))
    }

    /// Moves a complete folder of a draft to its place, in one step, once it is on the disk. What is there is replaced; if
    /// that fails, it stays.
    pub fn publish(&self, files: &Path, target: &Path) -> Result<(), PluginFetchError> {
        let publish = || -> io::Result<()> {
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            replace_folder(files, target, &self.folder)
        };
        publish().map_err(|source| self.write(source))
    }

    /// Removes a folder of the store. It disappears in one step; its files are deleted after that.
    pub fn remove(&self, target: &Path) -> Result<(), PluginFetchError> {
        let remove = || -> io::Result<()> {
            if target.symlink_metadata().is_err() {
                return Ok(());
            }
            let aside = tempfile::Builder::new().prefix(DRAFT_PREFIX).tempdir_in(&self.folder)?;
            fs::rename(target, aside.path().join("old"))
            // What is left of it is removed by a later installation.
        };
        remove().map_err(|source| self.write(source))
    }

    fn write(&self, source: io::Error) -> PluginFetchError {
        PluginFetchError::Write { folder: self.folder.clone(), source }
    }

    fn remove_old_drafts(&self) {
        let Ok(entries) = self.folder.read_dir() else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_draft = name.starts_with(DRAFT_PREFIX) || name.starts_with(DOWNLOAD_PREFIX);
            if is_draft && is_older(&entry, DRAFT_LIFETIME) {
                remove_entry(&entry);
            }
        }
        let sessions = self.folder.join(SESSIONS).read_dir();
        for entry in sessions.into_iter().flatten().flatten() {
            if is_older(&entry, SESSION_LIFETIME) {
                remove_entry(&entry);
            }
        }
    }
}

/// Was it not changed for this time?
fn is_older(entry: &fs::DirEntry, than: Duration) -> bool {
    let modified = entry.metadata().and_then(|it| it.modified()).ok();
    modified.and_then(|it| it.elapsed().ok()).is_some_and(|it| it > than)
}

/// Removes what is left of an installation. What cannot be removed is left to the next one.
fn remove_entry(entry: &fs::DirEntry) {
    let _left = match entry.file_type() {
        Ok(kind) if kind.is_dir() => fs::remove_dir_all(entry.path()),
        Ok(_) | Err(_) => fs::remove_file(entry.path()),
    };
}

/// The name of a folder for a version, which is untrusted text. Two versions never have the same.
pub fn version_folder(version: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_');
    let is_name = !version.is_empty()
        && version.len() <= MAX_VERSION
        && version.chars().all(is_plain)
        && version.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !version.contains("..")
        && !version.starts_with("v-");
    match is_name {
        true => version.to_owned(),
        false => format!("v-{}", &hex(&Sha256::digest(version.as_bytes()))[..16]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_never_a_path() {
        for plain in ["1.2.0", "2.0.0-rc.1+build", "abc123"] {
            assert_eq!(version_folder(plain), plain);
        }
        for odd in ["..", ".", "../../x", "a/b", "", "a\u{1b}", "1..2", "v-x", &"1".repeat(99)] {
            let name = version_folder(odd);
            assert!(name.starts_with("v-") && name.len() == 18, "{odd:?}: {name}");
        }
        assert_ne!(version_folder("../a"), version_folder("../b"));
    }

    #[test]
    fn what_interrupted_installations_and_old_sessions_left_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = PluginStore::new(folder.path());
        let kept = store.session("kept");
        let names = [".draft-old", ".download-old", "session/old", "session/kept", "cache/old"];
        for name in names {
            let path = folder.path().join(name);
            match name.contains("download") {
                true => fs::write(&path, "x").expect("a file"),
                false => fs::create_dir_all(&path).expect("a folder"),
            }
            let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
            fs::File::open(&path).and_then(|it| it.set_modified(long_ago)).expect("a time");
        }
        fs::write(folder.path().join(".download-new"), "x").expect("a file");
        store.keep_session("kept");
        drop(store.draft().expect("a draft"));
        let left = |name: &&str| folder.path().join(name).exists();
        let left: Vec<&str> = names.into_iter().filter(left).collect();
        assert_eq!(left, ["session/kept", "cache/old"]);
        assert!(folder.path().join(".download-new").exists() && kept.exists());
    }

    #[test]
    fn publishing_replaces_what_is_there_and_keeps_it_if_that_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = PluginStore::new(folder.path());
        let target = store.marketplace("lab");
        let put = |text: &str| {
            let draft = store.draft().expect("a draft");
            let files = draft.path().join("files");
            fs::create_dir(&files).expect("a folder");
            fs::write(files.join("file"), text).expect("a file");
            store.publish(&files, &target)
        };
        let read = || fs::read_to_string(target.join("file")).expect("a file");
        put("one").expect("it is published");
        put("two").expect("it is replaced");
        assert_eq!(read(), "two");
        assert!(store.publish(&folder.path().join("nothing"), &target).is_err());
        assert_eq!(read(), "two");
        // A folder cannot be moved into itself: the old one is moved away, and comes back.
        let parent = target.parent().expect("a folder");
        assert!(store.publish(parent, &target).is_err());
        assert_eq!(read(), "two");
        store.remove(&target).expect("it is removed");
        store.remove(&target).expect("it may be gone already");
        let names: Vec<String> = folder
            .path()
            .read_dir()
            .expect("a folder")
            .map(|it| it.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["marketplaces"], "no draft is left");
    }
}

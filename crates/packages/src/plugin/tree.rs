//! Copies folders of files that others wrote: bounded, without repositories in them, and without links that lead out.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

use crate::bundle::NameFault;
use crate::bundle::entry_name::check_name;

/// Why a folder with files is refused. Names are untrusted text.
#[derive(Debug, Error)]
pub enum TreeError {
    /// The folder does not exist.
    #[error("there is no folder `{name}`")]
    NoFolder {
        /// Its name.
        name: String,
    },
    /// The name of a file is not safe.
    #[error("the name `{name}` {fault}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// A link leads out.
    #[error("`{name}` is a link that leads out of the plugin")]
    Link {
        /// Its name.
        name: String,
    },
    /// A pipe, a socket or a device.
    #[error("`{name}` is neither a file nor a folder")]
    SpecialFile {
        /// Its name.
        name: String,
    },
    /// There are too many files.
    #[error("there are more than {limit} files")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// They are too large together.
    #[error("the files have more than {limit} bytes together")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// A file could not be read or written.
    #[error("`{name}` could not be copied")]
    Io {
        /// Its name.
        name: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
}

/// How much a folder may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeLimits {
    /// The number of files, folders and links.
    pub entries: usize,
    /// The size of all files together in bytes.
    pub size: u64,
}

impl Default for TreeLimits {
    fn default() -> TreeLimits {
        TreeLimits { entries: 50_000, size: 2 * 1024 * 1024 * 1024 }
    }
}

/// The folder in which git keeps a repository.
const REPOSITORY: &str = ".git";

/// Copies a folder. `to` must not exist.
pub fn copy_tree(from: &Path, to: &Path, limits: TreeLimits) -> Result<(), TreeError> {
    let name = || from.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let root = from.canonicalize().map_err(|_| TreeError::NoFolder { name: name() })?;
    if !root.is_dir() {
        return Err(TreeError::NoFolder { name: name() });
    }
    let mut copy = TreeCopy { root, to: to.to_owned(), limits, entries: 0, size: 0 };
    let folder = copy.root.clone();
    make_folder(to).map_err(|source| TreeError::Io { name: name(), source })?;
    copy.folder(&folder, Path::new(""))
}

struct TreeCopy {
    root: PathBuf,
    to: PathBuf,
    limits: TreeLimits,
    entries: usize,
    size: u64,
}

impl TreeCopy {
    fn folder(&mut self, folder: &Path, inside: &Path) -> Result<(), TreeError> {
        let io = |source| TreeError::Io { name: shown(inside), source };
        let mut entries: Vec<fs::DirEntry> =
            folder.read_dir().map_err(io)?.collect::<Result<_, _>>().map_err(io)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if entry.file_name() == REPOSITORY {
                continue;
            }
            self.entry(&entry, &inside.join(entry.file_name()))?;
        }
        Ok(())
    }

    fn entry(&mut self, entry: &fs::DirEntry, inside: &Path) -> Result<(), TreeError> {
        let name = || shown(inside);
        let io = |source| TreeError::Io { name: name(), source };
        check_name(inside.as_os_str().as_encoded_bytes())
            .map_err(|fault| TreeError::Name { name: name(), fault })?;
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(TreeError::TooMany { limit: self.limits.entries });
        }
        let kind = entry.file_type().map_err(io)?;
        let target = self.to.join(inside);
        if kind.is_dir() {
            make_folder(&target).map_err(io)?;
            return self.folder(&entry.path(), inside);
        }
        if kind.is_symlink() {
            return self.link(entry, inside, &target);
        }
        if !kind.is_file() {
            return Err(TreeError::SpecialFile { name: name() });
        }
        self.size = self.size.saturating_add(entry.metadata().map_err(io)?.len());
        if self.size > self.limits.size {
            return Err(TreeError::TooLarge { limit: self.limits.size });
        }
        fs::copy(entry.path(), &target).map_err(io)?;
        restrict_mode(&target).map_err(io)
    }

    /// Copies a link whose target is in the folder.
    fn link(&self, entry: &fs::DirEntry, inside: &Path, target: &Path) -> Result<(), TreeError> {
        let leaves = || TreeError::Link { name: shown(inside) };
        let to = fs::read_link(entry.path()).map_err(|_| leaves())?;
        let is_relative = to.components().all(|it| {
            matches!(it, Component::Normal(_) | Component::ParentDir | Component::CurDir)
        });
        // A dangling link could come to lead anywhere.
        let real = entry.path().canonicalize().map_err(|_| leaves())?;
        if !is_relative || !real.starts_with(&self.root) || !stays_inside(inside, &to) {
            return Err(leaves());
        }
        make_link(&to, target).map_err(|source| TreeError::Io { name: shown(inside), source })
    }
}

/// Does a link at this place stay in the folder at every step? A target that leaves it and comes back would lead
/// elsewhere from the copy.
fn stays_inside(link: &Path, to: &Path) -> bool {
    let mut depth = link.components().count().saturating_sub(1);
    for part in to.components() {
        match part {
            Component::ParentDir if depth == 0 => return false,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

#[cfg(unix)]
fn make_link(to: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, at)
}

#[cfg(not(unix))]
fn make_link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets the permissions of a copy: never more than these, whatever the original has.
#[cfg(unix)]
fn restrict_mode(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let is_executable = path.metadata()?.permissions().mode() & 0o111 != 0;
    let mode = if is_executable { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn restrict_mode(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for inner in ["plugin/a/b", "plugin/.git", "outside"] {
            fs::create_dir_all(folder.path().join(inner)).expect("a folder");
        }
        fs::write(folder.path().join("plugin/a/b/file"), "text").expect("a file");
        fs::write(folder.path().join("plugin/.git/config"), "text").expect("a file");
        fs::write(folder.path().join("outside/file"), "secret").expect("a file");
        folder
    }

    #[track_caller]
    fn check(folder: &Path, limits: TreeLimits, expected: &str) {
        let found = match copy_tree(&folder.join("plugin"), &folder.join("copy"), limits) {
            Ok(()) => "copied".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn files_and_inner_links_are_copied_and_repositories_are_not() {
        let folder = folder();
        symlink("b/file", folder.path().join("plugin/a/link")).expect("a link");
        symlink("../a", folder.path().join("plugin/a/up")).expect("a link");
        check(folder.path(), TreeLimits::default(), "copied");
        let copy = folder.path().join("copy");
        assert_eq!(fs::read_to_string(copy.join("a/link")).expect("a file"), "text");
        assert!(copy.join("a/up/b/file").exists() && !copy.join(".git").exists());
    }

    #[test]
    fn a_link_that_leads_out_is_refused_however_it_does() {
        for to in ["../../outside/file", "/etc/passwd", "nowhere", "../../plugin/a/b/file"] {
            let folder = folder();
            symlink(to, folder.path().join("plugin/a/link")).expect("a link");
            let expected = "`a/link` is a link that leads out of the plugin";
            check(folder.path(), TreeLimits::default(), expected);
        }
        let folder = folder();
        symlink("../outside", folder.path().join("plugin/out")).expect("a link");
        check(folder.path(), TreeLimits::default(), "`out` is a link that leads out of the plugin");
    }

    #[test]
    fn numbers_sizes_and_kinds_are_bounded() {
        let one = folder();
        check(one.path(), TreeLimits { entries: 2, size: 100 }, "there are more than 2 files");
        let two = folder();
        check(
            two.path(),
            TreeLimits { entries: 9, size: 3 },
            "the files have more than 3 bytes together",
        );
        let three = folder();
        let pipe = three.path().join("plugin/pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a pipe");
        check(three.path(), TreeLimits::default(), "`pipe` is neither a file nor a folder");
        let four = folder();
        fs::write(four.path().join("plugin/a\u{1b}[2J"), "x").expect("a file");
        check(
            four.path(),
            TreeLimits::default(),
            "the name `a\u{1b}[2J` has a backslash, a colon or a control character",
        );
    }
}

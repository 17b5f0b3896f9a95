//! Where files may be touched: folders that are allowed, and the way from a path to a file inside one of them.
//! A path is freed of links first; then it is opened from the folder's own handle and no link is followed, so that
//! whoever swaps a folder for a link in between gains nothing.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::denial::Denial;

/// The longest path that is looked at, in bytes.
const LONGEST: usize = 4096;

/// Folders that files may be touched in.
#[derive(Debug, Clone)]
pub(super) struct Grounds {
    roots: Vec<Arc<Root>>,
    /// Where long outputs lie: to be read and nothing else.
    shelf: Option<Arc<Root>>,
}

/// One allowed folder, without links in its path, and held open.
pub(super) struct Root {
    path: PathBuf,
    folder: OwnedFd,
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Root({})", self.path.display())
    }
}

/// What is to be done with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Look at it.
    Read,
    /// Change it, or make it.
    Write,
}

/// A place inside of an allowed folder. Whether something is there is another question.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    root: Arc<Root>,
    /// From the root on, without links and without `..`.
    inside: PathBuf,
    /// The whole path.
    pub(super) path: PathBuf,
}

/// A regular file that was opened, and what it was then.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) status: Stat,
}

impl Grounds {
    /// Takes every folder that is there.
    pub(super) fn new(roots: &[PathBuf], shelf: Option<&Path>) -> Grounds {
        let mut all: Vec<Arc<Root>> = Vec::new();
        for root in roots.iter().filter_map(|path| Root::open(path)) {
            if !all.iter().any(|it| it.path == root.path) {
                all.push(Arc::new(root));
            }
        }
        Grounds { roots: all, shelf: shelf.and_then(Root::open).map(Arc::new) }
    }

    /// The folder that relative paths begin at.
    pub(super) fn first(&self) -> Option<&Path> {
        self.roots.first().map(|root| root.path.as_path())
    }

    /// The allowed folders.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Finds the place that a path means.
    pub(super) fn find(&self, text: &str, access: Access) -> Result<Spot, Denial> {
        if text.is_empty() || text.len() > LONGEST || text.contains('\0') {
            return Err(Denial::NoPath);
        }
        let first = self.first().ok_or(Denial::NoRoots)?;
        let wanted = first.join(text);
        let outside = || Denial::Outside {
            path: wanted.clone(),
            roots: self.paths().map(Path::to_owned).collect(),
        };
        let (there, rest) = without_links(&wanted).ok_or_else(outside)?;
        // What lies outside is not even looked for: nobody learns what is there.
        let root = self.root_of(&there, access).ok_or_else(outside)?;
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !rest.components().all(is_plain) {
            return Err(Denial::Missing { path: wanted.clone(), near: None });
        }
        let path = match rest.as_os_str().is_empty() {
            true => there,
            false => there.join(rest),
        };
        let inside = path.strip_prefix(&root.path).map_err(|_| outside())?.to_owned();
        Ok(Spot { root: root.clone(), inside, path })
    }

    fn root_of(&self, path: &Path, access: Access) -> Option<&Arc<Root>> {
        let shelf = self.shelf.iter().filter(|_| access == Access::Read);
        // The deepest one, so that a folder inside another is its own.
        self.roots
            .iter()
            .chain(shelf)
            .filter(|root| path.starts_with(&root.path))
            .max_by_key(|root| root.path.as_os_str().len())
    }
}

impl Root {
    fn open(path: &Path) -> Option<Root> {
        let path = path.canonicalize().ok()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, &path, flags, Mode::empty()).ok()?;
        Some(Root { path, folder })
    }
}

/// The longest beginning of a path that is there, without links, and the rest as it was written.
fn without_links(path: &Path) -> Option<(PathBuf, PathBuf)> {
    path.ancestors().find_map(|beginning| {
        let there = beginning.canonicalize().ok()?;
        let rest = path.strip_prefix(beginning).ok()?;
        Some((there, rest.to_owned()))
    })
}

impl Spot {
    /// Opens a regular file to read. Anything else is refused before it is opened for real: devices act on being
    /// opened, and pipes wait.
    pub(super) fn open(&self) -> Result<Opened, Denial> {
        let seen = self.status()?;
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Denial::IsFolder { path: self.path.clone() }),
            FileType::Symlink => return Err(Denial::LooseLink { path: self.path.clone() }),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => return Err(Denial::Special { path: self.path.clone() }),
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.beneath(flags)?;
        let status = fstat(&file).map_err(|error| self.denial(error))?;
        if !is_same(&status, &seen) {
            return Err(Denial::Swapped { path: self.path.clone() });
        }
        Ok(Opened { file: File::from(file), status })
    }

    /// Opens a folder.
    pub(super) fn open_folder(&self) -> Result<OwnedFd, Denial> {
        self.beneath(OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// What is there, without following a link.
    pub(super) fn status(&self) -> Result<Stat, Denial> {
        let Some((folder, name)) = self.split() else {
            return fstat(&self.root.folder).map_err(|error| self.denial(error));
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = open_beneath(self.root.folder.as_fd(), &folder, flags);
        folder
            .and_then(|folder| statat(folder, name, AtFlags::SYMLINK_NOFOLLOW))
            .map_err(|error| self.denial(error))
    }

    /// Is anything there?
    pub(super) fn is_there(&self) -> Result<bool, Denial> {
        match self.status() {
            Ok(_) => Ok(true),
            Err(Denial::Missing { .. }) => Ok(false),
            Err(denial) => Err(denial),
        }
    }

    /// Is it a folder?
    pub(super) fn is_folder(&self) -> Result<bool, Denial> {
        let status = self.status()?;
        Ok(FileType::from_raw_mode(status.st_mode) == FileType::Directory)
    }

    /// The folder that it lies in, made where it is missing, and its name there.
    pub(super) fn parent(&self) -> Result<(OwnedFd, OsString), Denial> {
        let (folder, name) =
            self.split().ok_or_else(|| Denial::IsFolder { path: self.path.clone() })?;
        let mut at = self.root.folder.try_clone().map_err(|error| self.io(&error))?;
        for part in folder.components() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let part = part.as_os_str();
            let next = match openat(&at, part, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    match mkdirat(&at, part, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(self.denial(error)),
                    }
                    openat(&at, part, flags, Mode::empty())
                }
                opened => opened,
            };
            at = next.map_err(|error| self.denial(error))?;
        }
        Ok((at, name))
    }

    fn split(&self) -> Option<(PathBuf, OsString)> {
        let name = self.inside.file_name()?;
        Some((self.inside.parent().unwrap_or(Path::new("")).to_owned(), name.to_owned()))
    }

    fn beneath(&self, flags: OFlags) -> Result<OwnedFd, Denial> {
        open_beneath(self.root.folder.as_fd(), &self.inside, flags)
            .map_err(|error| self.denial(error))
    }

    fn io(&self, error: &std::io::Error) -> Denial {
        Denial::System { path: self.path.clone(), kind: error.kind() }
    }

    /// What the system's refusal means.
    pub(super) fn denial(&self, error: Errno) -> Denial {
        let path = self.path.clone();
        match error {
            Errno::NOENT => Denial::Missing { near: self.nearest(), path },
            Errno::NOTDIR => Denial::NotFolder { path },
            Errno::ISDIR => Denial::IsFolder { path },
            Errno::LOOP | Errno::XDEV => Denial::Swapped { path },
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Denial::Forbidden { path },
            other => Denial::System { path, kind: std::io::Error::from(other).kind() },
        }
    }

    /// A name in the same folder that may have been meant.
    fn nearest(&self) -> Option<String> {
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

/// Are both the same regular file?
fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino, one.st_mode) == (other.st_dev, other.st_ino, other.st_mode)
}

/// Opens what lies below a folder, and follows no link at all on the way.
fn open_beneath(
    folder: BorrowedFd<'_>,
    inside: &Path,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let inside = match inside.as_os_str().is_empty() {
        true => Path::new("."),
        false => inside,
    };
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        // The kernel asks for another try when something was renamed meanwhile.
        for _ in 0..8 {
            match openat2(folder, inside, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // An old kernel, or a filter that does not know the call.
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return opened,
            }
        }
    }
    walk_beneath(folder, inside, flags)
}

/// The same step by step, where the system cannot do it at once.
fn walk_beneath(
    folder: BorrowedFd<'_>,
    inside: &Path,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let safe = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let parts: Vec<&OsStr> = inside
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A root with a file, links that stay and links that leave, beside a secret.
    fn scene() -> (tempfile::TempDir, Grounds) {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        fs::create_dir_all(at("root/sub")).unwrap();
        fs::create_dir_all(at("root-two")).unwrap();
        fs::write(at("root/sub/file"), "inside").unwrap();
        fs::write(at("root-two/file"), "beside").unwrap();
        fs::write(at("secret"), "outside").unwrap();
        symlink(at("secret"), at("root/leaves")).unwrap();
        symlink("../secret", at("root/leaves-relative")).unwrap();
        symlink("..", at("root/up")).unwrap();
        symlink(home.path(), at("root/up-absolute")).unwrap();
        symlink("sub/file", at("root/stays")).unwrap();
        symlink(at("root/sub"), at("root/stays-absolute")).unwrap();
        symlink(at("nothing-there"), at("root/loose")).unwrap();
        symlink("around", at("root/around")).unwrap();
        let grounds = Grounds::new(&[at("root")], None);
        (home, grounds)
    }

    fn read(grounds: &Grounds, path: &str) -> Result<String, Denial> {
        let opened = grounds.find(path, Access::Read)?.open()?;
        Ok(std::io::read_to_string(opened.file).unwrap())
    }

    #[test]
    fn what_is_inside_is_found_however_it_is_written() {
        let (home, grounds) = scene();
        let absolute = home.path().canonicalize().unwrap().join("root/sub/file");
        for path in [
            "sub/file",
            "./sub/./file",
            "sub/../sub/file",
            "sub//file",
            "stays",
            "stays-absolute/file",
            "../root/sub/file",
            absolute.to_str().unwrap(),
        ] {
            assert_eq!(read(&grounds, path), Ok("inside".to_owned()), "{path}");
        }
    }

    #[test]
    fn nothing_leads_out() {
        let (home, grounds) = scene();
        let absolute = |path: &str| home.path().join(path).display().to_string();
        let corpus = [
            "..",
            "../secret",
            "../secret/",
            "sub/../../secret",
            "sub/../../nothing-there",
            "./../secret",
            "....//secret",
            "leaves",
            "leaves-relative",
            "up/secret",
            "up-absolute/secret",
            "up/up/secret",
            "up/root/../secret",
            "loose",
            "around",
            "../root-two/file",
            "/etc/passwd",
            "//etc/passwd",
            "/proc/self/root/etc/passwd",
            "/proc/self/cwd",
            "/dev/zero",
            "",
            "a\0b",
            "missing/../../secret",
            "%2e%2e/secret",
            "..\\secret",
            "file:///etc/passwd",
            "~/secret",
        ];
        for path in corpus.map(str::to_owned).into_iter().chain([
            absolute("secret"),
            absolute("root/../secret"),
            absolute("root-two/file"),
            absolute("root/leaves"),
            "x/".repeat(5000),
        ]) {
            assert!(read(&grounds, &path).is_err(), "{path}");
            let made = grounds.find(&path, Access::Write).and_then(|it| it.parent());
            // What is merely oddly named may be made, inside.
            if let (Ok(_), Ok(spot)) = (made, grounds.find(&path, Access::Write)) {
                let root = home.path().canonicalize().unwrap().join("root");
                assert!(spot.path.starts_with(root), "{path}");
            }
        }
        assert_eq!(fs::read_to_string(home.path().join("secret")).unwrap(), "outside");
    }

    #[test]
    fn what_is_outside_is_not_told_from_what_is_not_there() {
        let (_home, grounds) = scene();
        let denial = |path: &str| grounds.find(path, Access::Read).unwrap_err().to_string();
        let without = |text: String, path: &str| text.replace(path, "");
        assert_eq!(
            without(denial("../secret"), "secret"),
            without(denial("../nothing-there"), "nothing-there")
        );
    }

    #[test]
    fn a_folder_that_became_a_link_after_it_was_found_leads_nowhere() {
        let (home, grounds) = scene();
        let spot = grounds.find("sub/file", Access::Read).unwrap();
        let root = home.path().join("root");
        fs::rename(root.join("sub"), root.join("gone")).unwrap();
        fs::create_dir(home.path().join("trap")).unwrap();
        fs::write(home.path().join("trap/file"), "trapped").unwrap();
        symlink(home.path().join("trap"), root.join("sub")).unwrap();
        assert!(spot.open().is_err());
        assert!(spot.parent().is_err());
    }

    #[test]
    fn a_walk_step_by_step_is_as_safe() {
        let (_home, grounds) = scene();
        let folder = grounds.roots[0].folder.as_fd();
        let open = |path: &str| walk_beneath(folder, Path::new(path), OFlags::RDONLY);
        assert!(open("sub/file").is_ok() && open(".").is_ok());
        for path in ["leaves", "stays", "up/secret", "../secret", "stays-absolute/file", "/etc"] {
            assert!(open(path).is_err(), "{path}");
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let (home, grounds) = scene();
        let root = home.path().join("root");
        let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
        assert!(made.success());
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let denied = |path: &str| grounds.find(path, Access::Read).unwrap().open().unwrap_err();
        assert!(matches!(denied("pipe"), Denial::Special { .. }));
        assert!(matches!(denied("socket"), Denial::Special { .. }));
        assert!(matches!(denied("sub"), Denial::IsFolder { .. }));
        let devices = Grounds::new(&[PathBuf::from("/dev")], None);
        let zero = devices.find("zero", Access::Read).unwrap().open().unwrap_err();
        assert!(matches!(zero, Denial::Special { .. }));
    }

    #[test]
    fn a_name_that_is_nearly_right_is_suggested() {
        let (_home, grounds) = scene();
        let denial = grounds.find("sub/fiel", Access::Read).unwrap().open().unwrap_err(); // misspelt on purpose
        assert!(denial.to_string().contains("`file`"), "{denial}");
    }

    #[test]
    fn the_shelf_is_to_be_read_and_nothing_else() {
        let (home, _) = scene();
        let at = |path: &str| home.path().join(path);
        let grounds = Grounds::new(&[at("root")], Some(&at("root-two")));
        let path = at("root-two/file").display().to_string();
        assert_eq!(read(&grounds, &path), Ok("beside".to_owned()));
        assert!(matches!(grounds.find(&path, Access::Write), Err(Denial::Outside { .. })));
    }
}

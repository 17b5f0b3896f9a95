//! The allowed folders, and resolving a path to a place inside one of them. Links in the path are resolved
//! first; opening then follows no link, see `resolved_path`.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::file_error::FileError;
use super::resolved_path::{ResolvedPath, RootDir};

/// The maximum length of a path, in bytes.
const MAX_PATH_LENGTH: usize = 4096;

/// The folders in which files may be accessed.
#[derive(Debug, Clone)]
pub(crate) struct AllowedRoots {
    roots: Vec<Arc<RootDir>>,
    /// The folder for outputs, which is read-only.
    output_dir: Option<Arc<RootDir>>,
}

/// How a path will be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading.
    Read,
    /// Changing or creating.
    Write,
}

impl AllowedRoots {
    /// Opens every folder that exists.
    pub(crate) fn new(roots: &[PathBuf], output_dir: Option<&Path>) -> AllowedRoots {
        let mut all: Vec<Arc<RootDir>> = Vec::new();
        for root in roots.iter().filter_map(|path| RootDir::open(path)) {
            if !all.iter().any(|it| it.path == root.path) {
                all.push(Arc::new(root));
            }
        }
        AllowedRoots { roots: all, output_dir: output_dir.and_then(RootDir::open).map(Arc::new) }
    }

    /// The folder at which relative paths start.
    pub(crate) fn first(&self) -> Option<&Path> {
        self.roots.first().map(|root| root.path.as_path())
    }

    /// The allowed folders.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Resolves a path.
    pub(crate) fn resolve(&self, text: &str, access: Access) -> Result<ResolvedPath, FileError> {
        if text.is_empty() || text.len() > MAX_PATH_LENGTH || text.contains('\0') {
            return Err(FileError::InvalidPath);
        }
        let first = self.first().ok_or(FileError::NoRoots)?;
        let requested = first.join(text);
        let outside = || FileError::Outside {
            path: requested.clone(),
            roots: self.paths().map(Path::to_owned).collect(),
        };
        let (existing, rest) = canonical_prefix(&requested).ok_or_else(outside)?;
        // Paths outside are not looked up, so that the error reveals nothing about them.
        let root = self.root_of(&existing, access).ok_or_else(outside)?;
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !rest.components().all(is_plain) {
            return Err(FileError::NotFound { path: requested.clone(), near: None });
        }
        let path = match rest.as_os_str().is_empty() {
            true => existing,
            false => existing.join(rest),
        };
        let relative = path.strip_prefix(&root.path).map_err(|_| outside())?.to_owned();
        Ok(ResolvedPath { root: root.clone(), relative, path })
    }

    fn root_of(&self, path: &Path, access: Access) -> Option<&Arc<RootDir>> {
        let output_dir = self.output_dir.iter().filter(|_| access == Access::Read);
        // The deepest root wins.
        self.roots
            .iter()
            .chain(output_dir)
            .filter(|root| path.starts_with(&root.path))
            .max_by_key(|root| root.path.as_os_str().len())
    }
}

/// The longest existing prefix of a path, canonical, and the rest as written.
fn canonical_prefix(path: &Path) -> Option<(PathBuf, PathBuf)> {
    path.ancestors().find_map(|beginning| {
        let existing = beginning.canonicalize().ok()?;
        let rest = path.strip_prefix(beginning).ok()?;
        Some((existing, rest.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::os::unix::fs::symlink;

    use rustix::fs::OFlags;

    use super::super::resolved_path::walk_beneath;
    use super::*;

    /// A root with a file, links that stay inside and links that leave, beside a secret.
    fn fixture() -> (tempfile::TempDir, AllowedRoots) {
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
        let roots = AllowedRoots::new(&[at("root")], None);
        (home, roots)
    }

    fn read(roots: &AllowedRoots, path: &str) -> Result<String, FileError> {
        let opened = roots.resolve(path, Access::Read)?.open()?;
        Ok(std::io::read_to_string(opened.file).unwrap())
    }

    #[test]
    fn paths_inside_resolve_in_every_spelling() {
        let (home, roots) = fixture();
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
            assert_eq!(read(&roots, path), Ok("inside".to_owned()), "{path}");
        }
    }

    #[test]
    fn no_path_leaves_the_root() {
        let (home, roots) = fixture();
        let absolute = |path: &str| home.path().join(path).display().to_string();
        let paths = [
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
        for path in paths.map(str::to_owned).into_iter().chain([
            absolute("secret"),
            absolute("root/../secret"),
            absolute("root-two/file"),
            absolute("root/leaves"),
            "x/".repeat(5000),
        ]) {
            assert!(read(&roots, &path).is_err(), "{path}");
            let made =
                roots.resolve(&path, Access::Write).and_then(|it| it.open_or_create_parent());
            // An oddly named path may be created, but only inside.
            if let (Ok(_), Ok(resolved)) = (made, roots.resolve(&path, Access::Write)) {
                let root = home.path().canonicalize().unwrap().join("root");
                assert!(resolved.path.starts_with(root), "{path}");
            }
        }
        assert_eq!(fs::read_to_string(home.path().join("secret")).unwrap(), "outside");
    }

    #[test]
    fn errors_do_not_reveal_what_exists_outside() {
        let (_home, roots) = fixture();
        let error = |path: &str| roots.resolve(path, Access::Read).unwrap_err().to_string();
        let without = |text: String, path: &str| text.replace(path, "");
        assert_eq!(
            without(error("../secret"), "secret"),
            without(error("../nothing-there"), "nothing-there")
        );
    }

    #[test]
    fn a_folder_replaced_by_a_link_is_not_followed() {
        let (home, roots) = fixture();
        let resolved = roots.resolve("sub/file", Access::Read).unwrap();
        let root = home.path().join("root");
        fs::rename(root.join("sub"), root.join("gone")).unwrap();
        fs::create_dir(home.path().join("trap")).unwrap();
        fs::write(home.path().join("trap/file"), "trapped").unwrap();
        symlink(home.path().join("trap"), root.join("sub")).unwrap();
        assert!(resolved.open().is_err());
        assert!(resolved.open_or_create_parent().is_err());
    }

    #[test]
    fn walking_component_by_component_is_as_safe() {
        let (_home, roots) = fixture();
        let folder = roots.roots[0].dir.as_fd();
        let open = |path: &str| walk_beneath(folder, Path::new(path), OFlags::RDONLY);
        assert!(open("sub/file").is_ok() && open(".").is_ok());
        for path in ["leaves", "stays", "up/secret", "../secret", "stays-absolute/file", "/etc"] {
            assert!(open(path).is_err(), "{path}");
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let (home, roots) = fixture();
        let root = home.path().join("root");
        let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
        assert!(made.success());
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let denied = |path: &str| roots.resolve(path, Access::Read).unwrap().open().unwrap_err();
        assert!(matches!(denied("pipe"), FileError::NotRegularFile { .. }));
        assert!(matches!(denied("socket"), FileError::NotRegularFile { .. }));
        assert!(matches!(denied("sub"), FileError::IsDirectory { .. }));
        let devices = AllowedRoots::new(&[PathBuf::from("/dev")], None);
        let zero = devices.resolve("zero", Access::Read).unwrap().open().unwrap_err();
        assert!(matches!(zero, FileError::NotRegularFile { .. }));
    }

    #[test]
    fn a_similar_name_is_suggested() {
        let (_home, roots) = fixture();
        let error = roots.resolve("sub/fiel", Access::Read).unwrap().open().unwrap_err(); // misspelt on purpose
        assert!(error.to_string().contains("`file`"), "{error}");
    }

    #[test]
    fn the_output_folder_is_read_only() {
        let (home, _) = fixture();
        let at = |path: &str| home.path().join(path);
        let roots = AllowedRoots::new(&[at("root")], Some(&at("root-two")));
        let path = at("root-two/file").display().to_string();
        assert_eq!(read(&roots, &path), Ok("beside".to_owned()));
        assert!(matches!(roots.resolve(&path, Access::Write), Err(FileError::Outside { .. })));
    }
}

//! Decides whether a working folder belongs to a folder that is open in an IDE. Pure; resolving links is left to
//! `discovery`.

use std::path::{Component, Path, PathBuf};

use super::lock_file::IdePlatform;

/// A folder that is open in an IDE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFolder {
    /// The folder as the IDE writes it. Not escaped.
    pub written: String,
    /// The same folder on this system, with links resolved; `None` where it does not exist here.
    pub resolved: Option<PathBuf>,
}

impl WorkspaceFolder {
    /// The path on this system that a folder of an IDE stands for.
    pub(super) fn local_path(written: &str, platform: IdePlatform) -> PathBuf {
        match platform {
            IdePlatform::Local => PathBuf::from(written),
            IdePlatform::Windows => from_windows(written).unwrap_or_else(|| written.into()),
        }
    }

    /// Whether a folder is this one or lies below it. A folder that does not exist as written is compared without regard
    /// to case, because the file system of the IDE may not tell cases apart.
    pub(super) fn contains(&self, working_folder: &Path, platform: IdePlatform) -> bool {
        match &self.resolved {
            Some(resolved) => working_folder.starts_with(resolved),
            None => {
                let local = lower_case(&WorkspaceFolder::local_path(&self.written, platform));
                local.is_absolute() && lower_case(working_folder).starts_with(local)
            }
        }
    }
}

fn lower_case(path: &Path) -> PathBuf {
    let lower = |part: Component<'_>| part.as_os_str().to_string_lossy().to_lowercase();
    path.components().map(lower).collect()
}

/// The path inside the Linux of a Windows path: `C:\a` is `/mnt/c/a`, and `\\wsl$\Distro\a` is `/a`.
fn from_windows(written: &str) -> Option<PathBuf> {
    let slashes = written.replace('\\', "/");
    for share in ["//wsl$/", "//wsl.localhost/"] {
        if let Some(rest) = slashes.get(..share.len()).filter(|it| it.eq_ignore_ascii_case(share)) {
            let (_distribution, path) = slashes[rest.len()..].split_once('/')?;
            return Some(Path::new("/").join(path));
        }
    }
    let (drive, rest) = slashes.split_once(':')?;
    let is_drive = drive.len() == 1 && drive.bytes().all(|it| it.is_ascii_alphabetic());
    is_drive.then(|| {
        Path::new("/mnt").join(drive.to_ascii_lowercase()).join(rest.trim_start_matches('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, resolved: Option<&str>, working_folder: &str, expected: bool) {
        let folder =
            WorkspaceFolder { written: written.to_owned(), resolved: resolved.map(PathBuf::from) };
        let platform = match written.contains('\\') {
            true => IdePlatform::Windows,
            false => IdePlatform::Local,
        };
        assert_eq!(folder.contains(Path::new(working_folder), platform), expected, "{written}");
    }

    #[test]
    fn a_folder_contains_itself_and_what_is_below_but_no_sibling() {
        check("/w/a", Some("/w/a"), "/w/a", true);
        check("/w/a", Some("/w/a"), "/w/a/b/c", true);
        check("/w/a", Some("/w/a"), "/w/ab", false);
        check("/w/a", Some("/w/a"), "/w", false);
        check("/link", Some("/w/a"), "/w/a/b", true);
    }

    #[test]
    fn case_counts_only_between_folders_that_exist() {
        check("/w/App", Some("/w/App"), "/w/app", false);
        check("/w/App", None, "/w/app/src", true);
        check("relative", None, "/w/relative", false);
    }

    #[test]
    fn folders_of_windows_are_compared_by_their_place_on_this_system() {
        check(r"C:\Code\App", None, "/mnt/c/code/app/src", true);
        check(r"\\wsl$\Debian\srv\app", Some("/srv/app"), "/srv/app", true);
        check(r"\\WSL.localhost\Debian\srv\app", None, "/srv/app", true);
        check(r"D:\other", None, "/mnt/c/other", false);
        check(r"\\server\share", None, "/share", false);
    }
}

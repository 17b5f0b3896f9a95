//! Finds the file that a server's command runs, by the rules by which its process will be started.

use std::path::{Path, PathBuf};

use switchboard_config::entry::server::StartFolder;
use switchboard_config::program::{ProgramFinder, ProgramQuery};

/// The separator between the folders of a search path.
const SEPARATOR: char = if cfg!(windows) { ';' } else { ':' };
/// The extensions that a command may leave out.
const EXTENSIONS: &[&str] = if cfg!(windows) { &["", "exe", "cmd", "bat", "com"] } else { &[""] };

/// Looks for programs on this machine.
#[derive(Debug, Clone)]
pub struct InstalledPrograms {
    /// The user's working folder.
    pub working_folder: PathBuf,
    /// The user's home folder, if it is known.
    pub home: Option<PathBuf>,
}

impl ProgramFinder for InstalledPrograms {
    fn find(&self, query: &ProgramQuery<'_>) -> Option<PathBuf> {
        let base = query.base_folder.unwrap_or(&self.working_folder);
        let is_path =
            query.command.contains('/') || (cfg!(windows) && query.command.contains('\\'));
        if is_path {
            return executable(&self.absolute(base, query.command));
        }
        let cwd = match query.cwd {
            Some(cwd) => self.absolute(base, cwd),
            None => match query.start_folder {
                StartFolder::WorkingFolder => self.working_folder.clone(),
                StartFolder::BaseFolder => base.to_owned(),
            },
        };
        let folders = query.search_path.split(SEPARATOR);
        folders.map(|folder| cwd.join(folder).join(query.command)).find_map(|it| executable(&it))
    }
}

impl InstalledPrograms {
    fn absolute(&self, base: &Path, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            (Some(_) | None, _) => base.join(path),
        }
    }
}

/// The file without `.` in its path, if it exists and can be executed.
fn executable(path: &Path) -> Option<PathBuf> {
    let with_extension = |extension: &&str| match *extension {
        "" => path.to_owned(),
        extension => {
            let mut name = path.as_os_str().to_owned();
            name.push(".");
            name.push(extension);
            PathBuf::from(name)
        }
    };
    let candidates = EXTENSIONS.iter().map(with_extension);
    candidates.map(|it| it.components().collect::<PathBuf>()).find(|it| is_executable(it))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn write_program(path: &Path) {
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("created");
        std::fs::write(path, "#!/bin/sh\n").expect("written");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("changed");
    }

    #[test]
    fn a_path_starts_at_the_base_folder_and_a_name_is_searched_for() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let root = folder.path();
        for path in ["project/run", "bin/npx", "project/sub/bin/npx", "home/own"] {
            write_program(&root.join(path));
        }
        std::fs::write(root.join("bin/text"), "").expect("written");
        let programs = InstalledPrograms {
            working_folder: root.join("elsewhere"),
            home: Some(root.join("home")),
        };
        let (project, bin) = (root.join("project"), root.join("bin"));
        let bin = bin.to_str().expect("UTF-8");
        let check =
            |command: &str, search_path: &str, cwd: Option<&str>, expected: Option<&str>| {
                let query = ProgramQuery {
                    command,
                    search_path,
                    base_folder: Some(&project),
                    cwd,
                    start_folder: StartFolder::BaseFolder,
                };
                assert_eq!(programs.find(&query), expected.map(|it| root.join(it)), "{query:?}");
            };
        check("./run", bin, None, Some("project/run"));
        check("./run", bin, Some("sub"), Some("project/run"));
        check("~/own", bin, None, Some("home/own"));
        check("npx", bin, None, Some("bin/npx"));
        check("npx", &format!("/nowhere:{bin}"), None, Some("bin/npx"));
        // A relative folder of the search path depends on the folder that the process starts in.
        check("npx", &format!("./bin:{bin}"), Some("sub"), Some("project/sub/bin/npx"));
        check("npx", &format!("./bin:{bin}"), None, Some("bin/npx"));
        check("text", bin, None, None);
        check("gone", bin, None, None);
        let elsewhere = ProgramQuery {
            command: "./run",
            search_path: bin,
            base_folder: None,
            cwd: None,
            start_folder: StartFolder::WorkingFolder,
        };
        assert_eq!(programs.find(&elsewhere), None);
        // The folders of the search path start where the process does, not where the paths of the entry do.
        let relative_path = ProgramQuery {
            command: "run",
            search_path: "../project",
            base_folder: Some(&root.join("home")),
            ..elsewhere
        };
        std::fs::create_dir_all(root.join("elsewhere")).expect("created");
        let found = programs.find(&relative_path);
        assert_eq!(found, Some(root.join("elsewhere/../project/run")));
    }
}

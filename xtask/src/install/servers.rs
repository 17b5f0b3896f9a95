//! Installs the servers of other people that tests talk to, at pinned versions, below the build folder.
//! Which versions is written in `crates/testkit/servers`; how tests start them is `testkit`'s to know.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::install::node::Node;
use crate::install::system::{SystemPackage, create_venv};

pub use crate::install::system::servers_dir;
use crate::install::tools::{Attempts, ToolError};
use crate::workspace::Workspace;

/// What tells tests where the servers are.
pub const SERVERS_DIR_VARIABLE: &str = "SWB_REAL_SERVERS";

/// Where the pins lie.
const PINS_DIR: &str = "crates/testkit/servers";
/// Files that say what to install with npm.
pub const NODE_PINS: &[&str] = &["package.json", "package-lock.json"];
const PYTHON_PINS: &[&str] = &["requirements.txt", "constraints.txt"];

/// Fails where Python is too old for the servers, or comes without what makes a venv.
const PYTHON_CHECK: &str =
    "import ensurepip, sys, venv; sys.exit(1 if sys.version_info < (3, 10) else 0)";

const PYTHON: SystemPackage = SystemPackage {
    description: "python3 3.10 or newer, with venv",
    check: &["python3", "-c", PYTHON_CHECK],
    packages: &["python3", "python3-venv"],
};

/// Programs that tests start and that a bare system lacks.
const PROGRAMS: &[SystemPackage] = &[
    SystemPackage { description: "git", check: &["git", "--version"], packages: &["git"] },
    SystemPackage { description: "curl", check: &["curl", "--version"], packages: &["curl"] },
    // Shells have one of their own, but a program cannot start that.
    SystemPackage { description: "kill", check: &["kill", "-l"], packages: &["procps"] },
];

/// Makes a bare root, for the newcomer's walk.
pub const DEBOOTSTRAP: SystemPackage = SystemPackage {
    description: "debootstrap",
    check: &["debootstrap", "--version"],
    packages: &["debootstrap"],
};

/// Makes sure that every server is there in the pinned version; says where.
pub fn prepare(workspace: &Workspace) -> Result<PathBuf, ToolError> {
    PROGRAMS.iter().try_for_each(|program| program.ensure_installed(workspace))?;
    let folder = servers_dir(workspace);
    let node = Pinned { name: "node", folder: PINS_DIR, files: NODE_PINS };
    node.install(workspace, &folder, install_node_packages)?;
    let python = Pinned { name: "python", folder: PINS_DIR, files: PYTHON_PINS };
    python.install(workspace, &folder, install_python_packages)?;
    Ok(folder)
}

/// Files that say what to install.
pub struct Pinned {
    /// What the stamp is called.
    pub name: &'static str,
    /// The folder that they lie in.
    pub folder: &'static str,
    /// Which they are.
    pub files: &'static [&'static str],
}

impl Pinned {
    /// Installs unless exactly these pins were installed before. The stamp is written last, so that an
    /// install that was interrupted is begun anew.
    pub fn install(
        &self,
        workspace: &Workspace,
        folder: &Path,
        install: fn(&Workspace, &Path) -> Result<(), ToolError>,
    ) -> Result<(), ToolError> {
        let fail = |error: io::Error| ToolError::unreadable("the pinned servers", error);
        let pins = workspace.root.join(self.folder);
        let mut expected = String::new();
        for file in self.files {
            expected.push_str(&fs::read_to_string(pins.join(file)).map_err(fail)?);
        }
        let stamp = folder.join(format!("{}.installed", self.name));
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == expected) {
            return Ok(());
        }
        fs::create_dir_all(folder).map_err(fail)?;
        for file in self.files {
            fs::copy(pins.join(file), folder.join(file)).map_err(fail)?;
        }
        install(workspace, folder)?;
        fs::write(&stamp, expected).map_err(fail)
    }
}

/// Installs what a lock file of npm names.
pub fn install_node_packages(workspace: &Workspace, folder: &Path) -> Result<(), ToolError> {
    PYTHON.ensure_installed(workspace)?;
    let mut npm = Node::prepare(workspace)?.npm(workspace);
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(folder);
    let mut attempts = Attempts::default();
    match attempts.run(npm) {
        true => Ok(()),
        false => Err(attempts.into_error("packages that run on node")),
    }
}

fn install_python_packages(workspace: &Workspace, folder: &Path) -> Result<(), ToolError> {
    PYTHON.ensure_installed(workspace)?;
    let mut attempts = Attempts::default();
    let installed =
        create_venv(workspace, &folder.join("venv"), &mut attempts).is_some_and(|python| {
            let mut pip = workspace.program(python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .args(["--requirement", "requirements.txt", "--constraint", "constraints.txt"])
                .current_dir(folder);
            attempts.run(pip)
        });
    match installed {
        true => Ok(()),
        false => Err(attempts.into_error("the servers that run on Python")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::install::system::succeeds;

    fn pinned(workspace: &Workspace, text: &str) -> Result<(), ToolError> {
        fs::create_dir_all(workspace.root.join(PINS_DIR)).unwrap();
        fs::write(workspace.root.join(PINS_DIR).join("pins"), text).unwrap();
        let log = |_: &Workspace, folder: &Path| {
            let before = fs::read_to_string(folder.join("log")).unwrap_or_default();
            let pins = fs::read_to_string(folder.join("pins")).unwrap();
            fs::write(folder.join("log"), before + &pins).unwrap();
            Ok(())
        };
        Pinned { name: "test", folder: PINS_DIR, files: &["pins"] }.install(
            workspace,
            &servers_dir(workspace),
            log,
        )
    }

    #[test]
    fn an_install_is_done_again_only_when_the_pins_changed() {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace::for_test(root.path());

        for text in ["one.", "one.", "two.", "two."] {
            pinned(&workspace, text).unwrap();
        }

        assert_eq!(fs::read_to_string(servers_dir(&workspace).join("log")).unwrap(), "one.two.");
    }

    #[test]
    fn an_install_that_failed_is_tried_again() {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace::for_test(root.path());
        pinned(&workspace, "one.").unwrap();
        fs::write(root.path().join(PINS_DIR).join("pins"), "two.").unwrap();
        let failing = |_: &Workspace, _: &Path| Err(Attempts::default().into_error("it"));
        let pins = Pinned { name: "test", folder: PINS_DIR, files: &["pins"] };

        assert!(pins.install(&workspace, &servers_dir(&workspace), failing).is_err());
        pinned(&workspace, "two.").unwrap();

        assert_eq!(fs::read_to_string(servers_dir(&workspace).join("log")).unwrap(), "one.two.");
    }

    #[test]
    fn pins_that_are_not_there_are_an_error() {
        let root = tempfile::tempdir().unwrap();

        let error = prepare(&Workspace::for_test(root.path())).unwrap_err();

        assert_eq!(error.to_string(), "`the pinned servers` could not be prepared");
    }

    #[test]
    fn what_this_machine_has_is_not_asked_of_the_package_manager() {
        let workspace = Workspace::for_test(Path::new("."));
        assert!(PYTHON.is_installed(&workspace), "{} is there", PYTHON.description);
        for program in PROGRAMS {
            assert!(program.is_installed(&workspace), "{} is there", program.description);
        }
        let mut too_new = workspace.program("python3");
        too_new.args(["-c", &PYTHON_CHECK.replace("3, 10", "9999, 0")]);
        assert!(!succeeds(too_new), "python3 is not as new as 9999");
    }
}

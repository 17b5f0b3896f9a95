//! Installs the third-party MCP servers used by the tests, at pinned versions, below the build folder.
//! `crates/testkit/servers` pins the versions; `testkit` starts the servers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::install::node::Node;
use crate::install::system::{SystemPackage, create_venv};

pub use crate::install::system::servers_dir;
use crate::install::tools::{Attempts, ToolError};
use crate::workspace::Workspace;

/// The environment variable that tells tests where the servers are installed.
pub const SERVERS_DIR_VARIABLE: &str = "SWB_REAL_SERVERS";

/// The folder of the pin files.
const PINS_DIR: &str = "crates/testkit/servers";
/// The npm files that pin packages.
pub const NODE_PINS: &[&str] = &["package.json", "package-lock.json"];
const PYTHON_PINS: &[&str] = &["requirements.txt", "constraints.txt", SDIST_PINS];
/// The file that pins the packages that are built from their sources, which are kept for their example programs.
const SDIST_PINS: &str = "sdist.txt";
/// The folder of the unpacked source packages, beside the environment.
const SDIST_DIR: &str = "sdist";

/// Fails if Python is too old for the servers or has no `venv` module.
const PYTHON_CHECK: &str =
    "import ensurepip, sys, venv; sys.exit(1 if sys.version_info < (3, 10) else 0)";

const PYTHON: SystemPackage = SystemPackage {
    description: "python3 3.10 or newer, with venv",
    check: &["python3", "-c", PYTHON_CHECK],
    packages: &["python3", "python3-venv"],
};

/// Programs that tests start and that a minimal system lacks.
const PROGRAMS: &[SystemPackage] = &[
    SystemPackage { description: "git", check: &["git", "--version"], packages: &["git"] },
    SystemPackage { description: "curl", check: &["curl", "--version"], packages: &["curl"] },
    SystemPackage {
        description: "openssl",
        check: &["openssl", "version"],
        packages: &["openssl"],
    },
    // For replicas of the gateway: a store (Valkey, where Debian has it, does as well), and two load balancers.
    SystemPackage {
        description: "redis-server or valkey-server",
        check: &["sh", "-c", "valkey-server --version || redis-server --version"],
        packages: &["redis-server"],
    },
    SystemPackage {
        description: "haproxy",
        check: &["sh", "-c", "PATH=$PATH:/usr/sbin haproxy -v"],
        packages: &["haproxy"],
    },
    SystemPackage {
        description: "nginx",
        check: &["sh", "-c", "PATH=$PATH:/usr/sbin nginx -v"],
        packages: &["nginx-light"],
    },
    // Shells have a builtin of this name, which other programs cannot start.
    SystemPackage { description: "kill", check: &["kill", "-l"], packages: &["procps"] },
    // A browser for the dashboard and for servers that drive one, and a font for its pages.
    SystemPackage {
        description: "chromium, with its headless shell",
        check: &["ls", "/usr/bin/chromium", "/usr/bin/chromium-headless-shell"],
        packages: &["chromium", "chromium-headless-shell", "fonts-liberation"],
    },
    // A virtual screen and programs on it, for the computer server. They are looked for by their files: some of them need a
    // screen even to print their version.
    SystemPackage {
        description: "a virtual screen with a window manager and programs",
        check: &[
            "ls",
            "/usr/bin/Xvfb",
            "/usr/bin/openbox",
            "/usr/bin/setpriv",
            "/usr/bin/tmux",
            "/usr/bin/xclip",
            "/usr/bin/xdotool",
            "/usr/bin/xterm",
            "/usr/bin/zenity",
        ],
        packages: &[
            "xvfb",
            "openbox",
            "util-linux",
            "tmux",
            "xclip",
            "xdotool",
            "xterm",
            "zenity",
            "fonts-dejavu-core",
        ],
    },
    // Both kinds of Chromium, for the browser server, with fonts for its pictures.
    SystemPackage {
        description: "Chromium with and without a window",
        check: &[
            "ls",
            "/usr/bin/chromium",
            "/usr/bin/chromium-headless-shell",
            "/usr/share/fonts/truetype/liberation",
            "/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf",
        ],
        packages: &[
            "chromium",
            "chromium-headless-shell",
            "fonts-liberation",
            "fonts-noto-color-emoji",
        ],
    },
];

/// Creates the minimal Debian root for `cargo xtask walk`.
pub const DEBOOTSTRAP: SystemPackage = SystemPackage {
    description: "debootstrap",
    check: &["debootstrap", "--version"],
    packages: &["debootstrap"],
};

/// Installs every server at its pinned version and returns the folder.
pub fn prepare(workspace: &Workspace) -> Result<PathBuf, ToolError> {
    PROGRAMS.iter().try_for_each(|program| program.ensure_installed(workspace))?;
    let folder = servers_dir(workspace);
    let node = PinFiles { name: "node", folder: PINS_DIR, files: NODE_PINS };
    node.install(workspace, &folder, install_node_packages)?;
    let python = PinFiles { name: "python", folder: PINS_DIR, files: PYTHON_PINS };
    python.install(workspace, &folder, install_python_packages)?;
    Ok(folder)
}

/// Files that pin a set of packages.
pub struct PinFiles {
    /// The name of the stamp file.
    pub name: &'static str,
    /// The folder of the pin files.
    pub folder: &'static str,
    /// The names of the pin files.
    pub files: &'static [&'static str],
}

impl PinFiles {
    /// Installs unless exactly these pins are installed already. The stamp is written last, so that an
    /// interrupted install starts again.
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

/// Installs the packages of an npm lock file.
pub fn install_node_packages(workspace: &Workspace, folder: &Path) -> Result<(), ToolError> {
    PYTHON.ensure_installed(workspace)?;
    let mut npm = Node::prepare(workspace)?.npm(workspace);
    // The optional packages of the agent SDK carry a program of 370 MB for each platform.
    npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional"])
        .current_dir(folder);
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
            let mut pip = workspace.program(&python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .args(["--requirement", "requirements.txt", "--constraint", "constraints.txt"])
                .current_dir(folder);
            attempts.run(pip) && unpack_sdists(workspace, &python, folder, &mut attempts)
        });
    match installed {
        true => Ok(()),
        false => Err(attempts.into_error("the servers that run on Python")),
    }
}

/// Downloads the source packages and unpacks them below [`SDIST_DIR`].
fn unpack_sdists(
    workspace: &Workspace,
    python: &Path,
    folder: &Path,
    attempts: &mut Attempts,
) -> bool {
    let sdists = folder.join(SDIST_DIR);
    // Another version may be there.
    let _absent = fs::remove_dir_all(&sdists);
    let mut download = workspace.program(python);
    download
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--requirement", SDIST_PINS, "--dest", SDIST_DIR])
        .current_dir(folder);
    if !attempts.run(download) {
        return false;
    }
    let files = fs::read_dir(&sdists).into_iter().flatten().flatten();
    let archives: Vec<PathBuf> = files.map(|file| file.path()).collect();
    archives.iter().all(|archive| {
        let mut unpack = workspace.program(python);
        unpack.args(["-m", "tarfile", "-e"]).arg(archive).arg(&sdists);
        attempts.run(unpack)
    })
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
        PinFiles { name: "test", folder: PINS_DIR, files: &["pins"] }.install(
            workspace,
            &servers_dir(workspace),
            log,
        )
    }

    #[test]
    fn packages_are_reinstalled_only_when_the_pins_change() {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace::for_test(root.path());

        for text in ["one.", "one.", "two.", "two."] {
            pinned(&workspace, text).unwrap();
        }

        assert_eq!(fs::read_to_string(servers_dir(&workspace).join("log")).unwrap(), "one.two.");
    }

    #[test]
    fn a_failed_install_is_retried() {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace::for_test(root.path());
        pinned(&workspace, "one.").unwrap();
        fs::write(root.path().join(PINS_DIR).join("pins"), "two.").unwrap();
        let failing = |_: &Workspace, _: &Path| Err(Attempts::default().into_error("it"));
        let pins = PinFiles { name: "test", folder: PINS_DIR, files: &["pins"] };

        assert!(pins.install(&workspace, &servers_dir(&workspace), failing).is_err());
        pinned(&workspace, "two.").unwrap();

        assert_eq!(fs::read_to_string(servers_dir(&workspace).join("log")).unwrap(), "one.two.");
    }

    #[test]
    fn missing_pin_files_are_an_error() {
        let root = tempfile::tempdir().unwrap();

        let error = prepare(&Workspace::for_test(root.path())).unwrap_err();

        assert_eq!(error.to_string(), "`the pinned servers` could not be prepared");
    }

    #[test]
    fn installed_programs_are_not_installed_again() {
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

//! System tools: installs missing system packages, creates Python environments, runs checks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::install::tools::{Attempts, ToolError};
use crate::workspace::Workspace;

/// A program that servers need, and the system packages that contain it.
pub struct SystemPackage {
    /// A description for messages.
    pub description: &'static str,
    /// A command that succeeds if the program is installed and recent enough.
    pub check: &'static [&'static str],
    /// The names of the system packages.
    pub packages: &'static [&'static str],
}

/// The folder of the installed servers.
pub fn servers_dir(workspace: &Workspace) -> PathBuf {
    workspace.target.join("tools").join("servers")
}

/// Creates a new Python environment in a folder and returns the path of its interpreter.
pub fn create_venv(workspace: &Workspace, venv: &Path, attempts: &mut Attempts) -> Option<PathBuf> {
    let mut make_venv = workspace.program("python3");
    make_venv.args(["-m", "venv", "--clear"]).arg(venv);
    attempts.run(make_venv).then(|| venv.join("bin").join("python"))
}

impl SystemPackage {
    /// Installs the packages with the system's package manager if the check fails.
    pub fn ensure_installed(&self, workspace: &Workspace) -> Result<(), ToolError> {
        if self.is_installed(workspace) {
            return Ok(());
        }
        let mut attempts = Attempts::default();
        let install = || {
            let mut install = as_root(workspace, "env");
            // At run level 1, Debian starts no service that a package contains.
            install.args(["RUNLEVEL=1", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
            // Another package manager may be running, as on a machine that has just started.
            install.args(["-o", "DPkg::Lock::Timeout=300"]);
            install.args(["install", "-y", "--no-install-recommends"]).args(self.packages);
            install
        };
        let installed = attempts.run(install()) || {
            // A new machine has no package lists until they are downloaded.
            let mut update = as_root(workspace, "apt-get");
            update.arg("update");
            attempts.run(update) && attempts.run(install())
        };
        match installed && self.is_installed(workspace) {
            true => Ok(()),
            false => Err(attempts.into_error(self.description)),
        }
    }

    /// Whether the program is installed and recent enough.
    pub fn is_installed(&self, workspace: &Workspace) -> bool {
        let Some((program, arguments)) = self.check.split_first() else { return true };
        let mut command = workspace.program(program);
        command.args(arguments);
        succeeds(command)
    }
}

/// A command with root rights, if they are available without a password prompt.
fn as_root(workspace: &Workspace, program: &str) -> Command {
    let mut sudo = workspace.program("sudo");
    sudo.args(["-n", "true"]);
    let is_root = workspace.program("id").arg("-u").output().is_ok_and(|it| it.stdout == b"0\n");
    if is_root || !succeeds(sudo) {
        return workspace.program(program);
    }
    let mut command = workspace.program("sudo");
    command.args(["-n", program]);
    command
}

/// Whether a command succeeds. Its output is discarded.
pub fn succeeds(mut command: Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

//! The machine's own tools: installs missing system packages, creates Python environments, runs checks.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::install::tools::{Attempts, ToolError};
use crate::workspace::Workspace;

/// A program that servers run on, and the packages of the system that hold it.
pub struct SystemPackage {
    /// What it is, in words.
    pub description: &'static str,
    /// Ends well where the program is there and new enough.
    pub check: &'static [&'static str],
    /// What the system's package manager calls it.
    pub packages: &'static [&'static str],
}

/// Where the servers are.
pub fn servers_dir(workspace: &Workspace) -> PathBuf {
    workspace.target.join("tools").join("servers")
}

/// Makes a Python of its own in a folder anew, and says where the program is.
pub fn create_venv(workspace: &Workspace, venv: &Path, attempts: &mut Attempts) -> Option<PathBuf> {
    let mut make_venv = workspace.program("python3");
    make_venv.args(["-m", "venv", "--clear"]).arg(venv);
    attempts.run(make_venv).then(|| venv.join("bin").join("python"))
}

impl SystemPackage {
    /// Asks the system's package manager for what is missing.
    pub fn ensure_installed(&self, workspace: &Workspace) -> Result<(), ToolError> {
        if self.is_installed(workspace) {
            return Ok(());
        }
        let mut attempts = Attempts::default();
        let install = || {
            let mut install = as_root(workspace, "apt-get");
            install.args(["install", "-y", "--no-install-recommends"]).args(self.packages);
            install
        };
        let installed = attempts.run(install()) || {
            // A fresh machine knows no packages until it has asked which there are.
            let mut update = as_root(workspace, "apt-get");
            update.arg("update");
            attempts.run(update) && attempts.run(install())
        };
        match installed && self.is_installed(workspace) {
            true => Ok(()),
            false => Err(attempts.into_error(self.description)),
        }
    }

    /// Whether the program is there and new enough.
    pub fn is_installed(&self, workspace: &Workspace) -> bool {
        let Some((program, arguments)) = self.check.split_first() else { return true };
        let mut command = workspace.program(program);
        command.args(arguments);
        succeeds(command)
    }
}

/// A command with the rights to install, where they can be had without asking a person.
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

/// Whether a command ends well. What it says is thrown away.
pub fn succeeds(mut command: Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

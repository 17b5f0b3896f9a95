//! Runs `swb-faults`, which injects faults while `swb` runs: installs the required system tools and builds first.

use std::process::Command;

use crate::failure::Failure;
use crate::install::servers;
use crate::install::system::SystemPackage;
use crate::install::tools::ToolError;
use crate::steps;
use crate::steps::{Step, StepSummary};
use crate::workspace::Workspace;

/// The duration and the seed for `test`: a fixed seed makes each run the same.
const CHECK_ARGUMENTS: [&str; 4] = ["--seconds", "120", "--seed", "1"];

const SYSTEM_PACKAGES: [SystemPackage; 4] = [
    SystemPackage {
        description: "unshare, nsenter and mount",
        check: &["sh", "-c", "unshare --version && nsenter --version && mount --version"],
        packages: &["util-linux", "mount"],
    },
    SystemPackage { description: "ip", check: &["ip", "-Version"], packages: &["iproute2"] },
    SystemPackage { description: "curl", check: &["curl", "--version"], packages: &["curl"] },
    SystemPackage {
        description: "faketime",
        check: &["faketime", "-f", "+1h", "true"],
        packages: &["faketime"],
    },
];

/// Runs the program once; `arguments` are passed to it.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    install_requirements(workspace)?;
    servers::prepare(workspace)?;
    let mut faults = program(workspace);
    faults.args(arguments);
    steps::run_all(vec![build(workspace), Step::new("faults", faults, StepSummary::PrintsOwn)])?;
    Ok(())
}

/// Installs the required system packages, on Linux only.
pub fn install_requirements(workspace: &Workspace) -> Result<(), ToolError> {
    match cfg!(target_os = "linux") {
        true => SYSTEM_PACKAGES.iter().try_for_each(|tool| tool.ensure_installed(workspace)),
        false => Ok(()),
    }
}

/// The steps for `test`. Namespaces need Linux; on other systems this prints a note and skips the steps.
pub fn check_steps(workspace: &Workspace) -> Vec<Step> {
    if cfg!(target_os = "linux") {
        return steps(workspace).into();
    }
    eprintln!("==> faults: skipped; fault injection needs Linux");
    Vec::new()
}

fn steps(workspace: &Workspace) -> [Step; 2] {
    let mut faults = program(workspace);
    faults.args(CHECK_ARGUMENTS);
    [build(workspace), Step::new("faults", faults, StepSummary::PrintsTime)]
}

fn build(workspace: &Workspace) -> Step {
    let build = workspace.cargo("build --workspace --bins --examples --locked");
    Step::new("programs", build, StepSummary::PrintsTime)
}

/// The program finds `swb` and the scripted servers in its own folder.
fn program(workspace: &Workspace) -> Command {
    let mut command = workspace.program(workspace.target.join("debug").join("swb-faults"));
    command.env(servers::SERVERS_DIR_VARIABLE, servers::servers_dir(workspace));
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn programs_are_built_before_they_are_run() {
        let lines: Vec<String> =
            steps(&Workspace::for_test(Path::new("."))).iter().map(Step::command_line).collect();
        assert_eq!(
            lines,
            [
                "cargo build --workspace --bins --examples --locked",
                "swb-faults --seconds 120 --seed 1"
            ]
        );
    }
}

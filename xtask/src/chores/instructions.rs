//! Counts the instructions of the hot paths, next to the record in `bench/instructions.json`.
//! Counting and comparing is the bench program's; this file sees to valgrind and to the build that the record is about.

use crate::failure::Failure;
use crate::install::system::SystemPackage;
use crate::install::tools::ToolError;
use crate::steps;
use crate::steps::{Step, StepSummary};
use crate::workspace::Workspace;

const VALGRIND: SystemPackage = SystemPackage {
    description: "valgrind",
    check: &["valgrind", "--version"],
    packages: &["valgrind"],
};

/// Counts and compares; `arguments` go to the bench program as they are.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    VALGRIND.ensure_installed(workspace)?;
    steps::run_all(vec![step(workspace, arguments)])?;
    Ok(())
}

/// Makes sure that instructions can be counted, where there is valgrind at all.
pub fn install_requirements(workspace: &Workspace) -> Result<(), ToolError> {
    match cfg!(target_os = "linux") {
        true => VALGRIND.ensure_installed(workspace),
        false => Ok(()),
    }
}

/// The step among all checks. Valgrind runs on Linux; elsewhere there is none, and that is said.
pub fn check_step(workspace: &Workspace) -> Option<Step> {
    if cfg!(target_os = "linux") {
        return Some(step(workspace, &[]));
    }
    eprintln!("==> instructions: not counted on this system; that takes Linux");
    None
}

/// Where cargo keeps parts of a build to save time, it also divides code otherwise, and that changes counts.
fn step(workspace: &Workspace, arguments: &[String]) -> Step {
    let mut bench =
        workspace.cargo("run --profile guard --package swb-bench --locked -- instructions");
    bench.args(arguments).env("CARGO_INCREMENTAL", "0");
    Step::new("instructions", bench, StepSummary::PrintsTime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_counted_is_what_the_record_is_about() {
        let step = step(&Workspace::for_test(Path::new(".")), &["--bless".to_owned()]);
        assert_eq!(
            step.command_line(),
            "cargo run --profile guard --package swb-bench --locked -- instructions --bless"
        );
    }
}

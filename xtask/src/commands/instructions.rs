//! Counts the instructions of the hot paths and compares them with `bench/instructions.json`.
//! The bench program counts and compares; this file installs valgrind and selects the build profile of the record.

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

/// Counts and compares; `arguments` are passed to the bench program unchanged.
pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<(), Failure> {
    VALGRIND.ensure_installed(workspace)?;
    steps::run_all(vec![step(workspace, arguments)])?;
    Ok(())
}

/// Installs valgrind on systems that have it.
pub fn install_requirements(workspace: &Workspace) -> Result<(), ToolError> {
    match cfg!(target_os = "linux") {
        true => VALGRIND.ensure_installed(workspace),
        false => Ok(()),
    }
}

/// The step for `test`. Valgrind needs Linux; on other systems this prints a note and skips the step.
pub fn check_step(workspace: &Workspace) -> Option<Step> {
    if cfg!(target_os = "linux") {
        return Some(step(workspace, &[]));
    }
    eprintln!("==> instructions: skipped; counting needs Linux");
    None
}

/// Incremental builds divide code into other units, which changes the counts.
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
    fn counts_use_the_profile_of_the_recorded_build() {
        let step = step(&Workspace::for_test(Path::new(".")), &["--bless".to_owned()]);
        assert_eq!(
            step.command_line(),
            "cargo run --profile guard --package swb-bench --locked -- instructions --bless"
        );
    }
}

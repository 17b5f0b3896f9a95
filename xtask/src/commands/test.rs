//! Runs every check of the project: the cheap ones first, the tests last.

use crate::commands::faults;
use crate::commands::instructions;
use crate::failure::Failure;
use crate::install::servers;
use crate::install::tools;
use crate::install::tools::Tools;
use crate::steps;
use crate::steps::{Step, StepSummary};
use crate::workspace::Workspace;

/// Installs missing tools, then runs all steps; `filters` are passed to nextest unchanged.
pub fn run(workspace: &Workspace, filters: &[String]) -> Result<(), Failure> {
    // First, because this installs Python if it is missing, and precompiled tools need Python.
    servers::prepare(workspace)?;
    let tools = tools::prepare(workspace)?;
    if filters.is_empty() {
        faults::install_requirements(workspace)?;
        instructions::install_requirements(workspace)?;
    }
    steps::run_all(steps(workspace, &tools, filters))?;
    Ok(())
}

fn steps(workspace: &Workspace, tools: &Tools, filters: &[String]) -> Vec<Step> {
    let clippy = "clippy --workspace --all-targets --locked -- -D warnings";
    // No advisories: they come from the network and change without a commit.
    let deny = "deny --locked check bans licenses sources";
    let doctests = "test --doc --workspace --locked --quiet";
    let mut documentation = workspace.cargo("doc --workspace --no-deps --locked --quiet");
    documentation.env("RUSTDOCFLAGS", "-D warnings");
    let mut nextest = workspace.cargo("nextest run --workspace --locked");
    nextest.args(filters).env(servers::SERVERS_DIR_VARIABLE, servers::servers_dir(workspace));
    let mut steps = vec![
        Step::new("format", workspace.cargo("fmt --all --check"), StepSummary::PrintsTime),
        Step::new("lints", workspace.cargo(clippy), StepSummary::PrintsTime),
        Step::new("spelling", workspace.program(&tools.typos), StepSummary::PrintsTime),
        Step::new("dependencies", workspace.cargo(deny), StepSummary::PrintsTime),
        Step::new("documentation", documentation, StepSummary::PrintsTime),
        // nextest does not run doc tests.
        Step::new("examples in docs", workspace.cargo(doctests), StepSummary::PrintsTime),
    ];
    // These take minutes, too long for a run of selected tests.
    if filters.is_empty() {
        steps.push(Step::new("fuzz", workspace.cargo("xtask fuzz"), StepSummary::PrintsTime));
        steps.extend(instructions::check_step(workspace));
        steps.extend(faults::check_steps(workspace));
    }
    steps.push(Step::new("tests", nextest, StepSummary::PrintsOwn));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn lines(filters: &[String]) -> Vec<String> {
        let tools = Tools { typos: "venv/bin/typos".into() };
        steps(&Workspace::for_test(Path::new(".")), &tools, filters)
            .iter()
            .map(Step::command_line)
            .collect()
    }

    #[test]
    fn filtered_runs_skip_the_long_steps() {
        let filters = ["-E".to_owned(), "test(cascade)".to_owned()];
        assert_eq!(
            lines(&filters),
            [
                "cargo fmt --all --check",
                "cargo clippy --workspace --all-targets --locked -- -D warnings",
                "typos",
                "cargo deny --locked check bans licenses sources",
                "cargo doc --workspace --no-deps --locked --quiet",
                "cargo test --doc --workspace --locked --quiet",
                "cargo nextest run --workspace --locked -E test(cascade)",
            ]
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn unfiltered_runs_end_with_the_tests() {
        assert_eq!(
            lines(&[])[6..],
            [
                "cargo xtask fuzz",
                "cargo run --profile guard --package swb-bench --locked -- instructions",
                "cargo build --workspace --bins --examples --locked",
                "swb-faults --seconds 120 --seed 1",
                "cargo nextest run --workspace --locked",
            ]
        );
    }
}

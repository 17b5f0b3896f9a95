//! Every check the project has, cheap ones first and the tests last.

use crate::chores::faults;
use crate::chores::instructions;
use crate::failure::Failure;
use crate::install::servers;
use crate::install::tools;
use crate::install::tools::Tools;
use crate::steps;
use crate::steps::{Step, StepSummary};
use crate::workspace::Workspace;

/// Installs what is missing, then runs all steps; `filters` go to nextest as they are.
pub fn run(workspace: &Workspace, filters: &[String]) -> Result<(), Failure> {
    // First, since it brings Python where there is none, and with it tools come compiled.
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
    let mut nextest = workspace.cargo("nextest run --workspace --locked");
    nextest.args(filters).env(servers::SERVERS_DIR_VARIABLE, servers::servers_dir(workspace));
    let mut steps = vec![
        Step::new("format", workspace.cargo("fmt --all --check"), StepSummary::PrintsTime),
        Step::new("lints", workspace.cargo(clippy), StepSummary::PrintsTime),
        Step::new("spelling", workspace.program(&tools.typos), StepSummary::PrintsTime),
        Step::new("dependencies", workspace.cargo(deny), StepSummary::PrintsTime),
        // nextest runs none of these.
        Step::new("examples in docs", workspace.cargo(doctests), StepSummary::PrintsTime),
    ];
    // Minutes, which whoever picks single tests does not want to wait for.
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
    fn whoever_picks_tests_gets_them_last_and_waits_for_nothing_long() {
        let filters = ["-E".to_owned(), "test(cascade)".to_owned()];
        assert_eq!(
            lines(&filters),
            [
                "cargo fmt --all --check",
                "cargo clippy --workspace --all-targets --locked -- -D warnings",
                "typos",
                "cargo deny --locked check bans licenses sources",
                "cargo test --doc --workspace --locked --quiet",
                "cargo nextest run --workspace --locked -E test(cascade)",
            ]
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn without_filters_everything_else_comes_before_the_tests() {
        assert_eq!(
            lines(&[])[5..],
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

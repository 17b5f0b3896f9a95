//! Every check the project has, cheap ones first and the tests last.

use crate::failure::Failure;
use crate::faults;
use crate::instructions;
use crate::run::{self, Closing, Step};
use crate::servers;
use crate::tools::{self, Tools};
use crate::workshop::Workshop;

/// Installs what is missing, then runs all steps; `filters` go to nextest as they are.
pub fn run(workshop: &Workshop, filters: &[String]) -> Result<(), Failure> {
    // First, since it brings Python where there is none, and with it tools come compiled.
    servers::prepare(workshop)?;
    let tools = tools::prepare(workshop)?;
    if filters.is_empty() {
        faults::prepare(workshop)?;
        instructions::prepare(workshop)?;
    }
    run::all(steps(workshop, &tools, filters))?;
    Ok(())
}

fn steps(workshop: &Workshop, tools: &Tools, filters: &[String]) -> Vec<Step> {
    let clippy = "clippy --workspace --all-targets --locked -- -D warnings";
    // No advisories: they come from the network and change without a commit.
    let deny = "deny --locked check bans licenses sources";
    let doctests = "test --doc --workspace --locked --quiet";
    let mut nextest = workshop.cargo("nextest run --workspace --locked");
    nextest.args(filters).env(servers::VARIABLE, servers::folder(workshop));
    let mut steps = vec![
        Step::new("format", workshop.cargo("fmt --all --check"), Closing::Timed),
        Step::new("lints", workshop.cargo(clippy), Closing::Timed),
        Step::new("spelling", workshop.program(&tools.typos), Closing::Timed),
        Step::new("dependencies", workshop.cargo(deny), Closing::Timed),
        // nextest runs none of these.
        Step::new("examples in docs", workshop.cargo(doctests), Closing::Timed),
    ];
    // Minutes, which whoever picks single tests does not want to wait for.
    if filters.is_empty() {
        steps.push(Step::new("fuzz", workshop.cargo("xtask fuzz"), Closing::Timed));
        steps.extend(instructions::among_checks(workshop));
        steps.extend(faults::among_checks(workshop));
    }
    steps.push(Step::new("tests", nextest, Closing::OwnSummary));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn lines(filters: &[String]) -> Vec<String> {
        let tools = Tools { typos: "venv/bin/typos".into() };
        steps(&Workshop::at(Path::new(".")), &tools, filters).iter().map(Step::line).collect()
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

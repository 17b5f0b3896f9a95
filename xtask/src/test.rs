//! Every check the project has, cheap ones first and the tests last.

use crate::failure::Failure;
use crate::run::{self, Closing, Step};
use crate::servers;
use crate::tools::{self, Tools};
use crate::workshop::Workshop;

/// Installs what is missing, then runs all steps; `filters` go to nextest as they are.
pub fn run(workshop: &Workshop, filters: &[String]) -> Result<(), Failure> {
    // First, since it brings Python where there is none, and with it tools come compiled.
    servers::prepare(workshop)?;
    let tools = tools::prepare(workshop)?;
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
    vec![
        Step::new("format", workshop.cargo("fmt --all --check"), Closing::Timed),
        Step::new("lints", workshop.cargo(clippy), Closing::Timed),
        Step::new("spelling", workshop.program(&tools.typos), Closing::Timed),
        Step::new("dependencies", workshop.cargo(deny), Closing::Timed),
        // nextest runs none of these.
        Step::new("examples in docs", workshop.cargo(doctests), Closing::Timed),
        Step::new("tests", nextest, Closing::OwnSummary),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn tests_come_last_and_get_the_filters() {
        let tools = Tools { typos: "venv/bin/typos".into() };
        let filters = ["-E".to_owned(), "test(cascade)".to_owned()];

        let lines: Vec<String> =
            steps(&Workshop::at(Path::new(".")), &tools, &filters).iter().map(Step::line).collect();

        assert_eq!(
            lines,
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
}

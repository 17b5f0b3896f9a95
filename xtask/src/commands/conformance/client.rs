//! The half of the suite that acts as server: it starts our client once for every scenario.

use std::process::Command;

use super::docs_page;
use super::docs_page::DocsBlock;
use super::scenarios::{self, ScenarioRun, Side};
use super::suite::Suite;
use crate::failure::Failure;
use crate::steps;
use crate::steps::{Step, StepSummary};
use crate::workspace::Workspace;

/// The client that the suite starts.
const CLIENT_EXAMPLE: &str = "conformance_client";

/// Installs the suite, builds the client, runs every scenario whose name contains one of the words, and prints a table. A
/// full run also updates the docs.
pub fn run(workspace: &Workspace, filters: &[String]) -> Result<(), Failure> {
    let suite = Suite::install(workspace)?;
    let build = workspace.cargo("build --workspace --example conformance_client --locked");
    steps::run_all(vec![Step::new("client", build, StepSummary::PrintsTime)])?;

    let scenario_runs = scenarios::plan_runs(&suite.list()?, Side::Client)?;
    let mut scores = Vec::new();
    for scenario_runs in super::select_scenarios(&scenario_runs, filters)? {
        let score = suite.score(scenario_runs, "client", command(&suite, scenario_runs))?;
        eprintln!("    {}", docs_page::progress_line(&score));
        scores.push(score);
    }
    println!("{}", docs_page::summary(Side::Client, &scores));
    if filters.is_empty() {
        super::write_docs_block(workspace, &DocsBlock::CLIENT, &docs_page::client_tables(&scores))?;
    }
    super::check_scores(scores.iter())
}

fn command(suite: &Suite<'_>, scenario_runs: &ScenarioRun) -> Command {
    let mut command = suite.isolated_command();
    let examples = suite.workspace.target.join("debug").join("examples");
    // The suite takes one string and splits it at spaces.
    let mut client = examples.join(CLIENT_EXAMPLE).into_os_string();
    for word in scenario_runs.client_arguments() {
        client.push(" ");
        client.push(word);
    }
    command.arg("client").arg("--command").arg(client);
    command
}

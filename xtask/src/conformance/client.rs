//! The half of the suite that plays the server: it starts our client, once for every scenario.

use std::process::Command;

use super::page::{self, DocsBlock};
use super::scenarios::{self, ScenarioRun, Side};
use super::suite::Suite;
use crate::failure::Failure;
use crate::run::{self, Step, StepSummary};
use crate::workshop::Workspace;

/// The client that the suite starts.
const CLIENT_EXAMPLE: &str = "conformance_client";

/// Installs the suite, builds the client, runs every scenario that holds one of the words, and prints a table. A whole
/// run is written to the docs as well.
pub fn run(workshop: &Workspace, words: &[String]) -> Result<(), Failure> {
    let suite = Suite::install(workshop)?;
    let build = workshop.cargo("build --workspace --example conformance_client --locked");
    run::run_all(vec![Step::new("client", build, StepSummary::PrintsTime)])?;

    let planned = scenarios::plan_runs(&suite.list()?, Side::Client)?;
    let mut scores = Vec::new();
    for planned in super::select_scenarios(&planned, words)? {
        let score = suite.score(planned, "client", command(&suite, planned))?;
        eprintln!("    {}", page::progress_line(&score));
        scores.push(score);
    }
    println!("{}", page::summary(Side::Client, &scores));
    if words.is_empty() {
        super::write_docs_block(workshop, &DocsBlock::CLIENT, &page::client_tables(&scores))?;
    }
    super::check_scores(scores.iter())
}

fn command(suite: &Suite<'_>, planned: &ScenarioRun) -> Command {
    let mut command = suite.isolated_command();
    let examples = suite.workspace.target.join("debug").join("examples");
    // The suite takes one text, and cuts it at blanks.
    let mut client = examples.join(CLIENT_EXAMPLE).into_os_string();
    for word in planned.client_arguments() {
        client.push(" ");
        client.push(word);
    }
    command.arg("client").arg("--command").arg(client);
    command
}

//! The half of the suite that plays the server: it starts our client, once for every scenario.

use std::process::Command;

use super::page::{self, Block};
use super::scenarios::{self, Planned, Side};
use super::suite::Suite;
use crate::failure::Failure;
use crate::run::{self, Closing, Step};
use crate::workshop::Workshop;

/// The client that the suite starts.
const CLIENT: &str = "conformance_client";

/// Installs the suite, builds the client, runs every scenario that holds one of the words, and prints a table. A whole
/// run is written to the docs as well.
pub fn run(workshop: &Workshop, words: &[String]) -> Result<(), Failure> {
    let suite = Suite::install(workshop)?;
    let build = workshop.cargo("build --workspace --example conformance_client --locked");
    run::all(vec![Step::new("client", build, Closing::Timed)])?;

    let planned = scenarios::planned(&suite.list()?, Side::Client)?;
    let mut scores = Vec::new();
    for planned in super::wanted(&planned, words)? {
        let score = suite.score(planned, "client", command(&suite, planned))?;
        eprintln!("    {}", page::line(&score));
        scores.push(score);
    }
    println!("{}", page::summary(Side::Client, &scores));
    if words.is_empty() {
        super::write_page(workshop, &Block::CLIENT, &page::client_tables(&scores))?;
    }
    super::judged(scores.iter())
}

fn command(suite: &Suite<'_>, planned: &Planned) -> Command {
    let mut command = suite.command_alone();
    let examples = suite.workshop.target.join("debug").join("examples");
    // The suite takes one text, and cuts it at blanks.
    let mut client = examples.join(CLIENT).into_os_string();
    for word in planned.wishes() {
        client.push(" ");
        client.push(word);
    }
    command.arg("client").arg("--command").arg(client);
    command
}

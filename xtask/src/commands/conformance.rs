//! Runs the official conformance suite against the client and against the gateway, one scenario at a time.
//! `suite` installs and starts it, `scenarios` lists the scenarios, `score` counts the checks, `docs_page` renders the
//! results; `client` and `server` are the two halves.

mod client;
mod docs_page;
mod scenarios;
mod score;
mod server;
mod server_under_test;
mod suite;

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::workspace::Workspace;
use scenarios::{Group, ScenarioRun};
use score::Score;

/// The docs page with the tables.
const DOCS_PAGE: &str = "docs/development/conformance.md";

/// The suite could not be run.
#[derive(Debug)]
pub enum SuiteError {
    /// No installed node is recent enough.
    NodeMissing,
    /// The suite lists an unexpected number of scenarios.
    ScenarioCount {
        /// The group.
        group: Group,
        /// How many the suite lists.
        listed: usize,
        /// How many are expected.
        expected: usize,
    },
    /// No scenario matches the given words.
    NoMatch,
    /// An option is not known, or its value is missing.
    InvalidOption(String),
    /// A server started but did not print its address.
    NoAddress(String),
    /// A file or program could not be read, written or started.
    Io(PathBuf, io::Error),
}

impl fmt::Display for SuiteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SuiteError::NodeMissing => {
                out.write_str("the conformance suite needs node 22 or newer")
            }
            SuiteError::ScenarioCount { group, listed, expected: wanted } => write!(
                out,
                "the suite lists {listed} scenarios for {}, expected {wanted}",
                group.title(),
            ),
            SuiteError::NoMatch => out.write_str("no scenario or server matches"),
            SuiteError::InvalidOption(word) => write!(
                out,
                "`{word}` is not an option or lacks its value; the options are --replicas, --upstream-only, --url URL and --subject PART"
            ),
            SuiteError::NoAddress(program) => {
                write!(out, "`{program}` did not print its address")
            }
            SuiteError::Io(path, _) => write!(out, "`{}` cannot be used", path.display()),
        }
    }
}

impl Error for SuiteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SuiteError::Io(_, error) => Some(error),
            SuiteError::NodeMissing
            | SuiteError::ScenarioCount { .. }
            | SuiteError::NoMatch
            | SuiteError::InvalidOption(_)
            | SuiteError::NoAddress(_) => None,
        }
    }
}

/// Runs the half of the suite that the first word names; by default the client's. A full run updates the docs.
pub fn run(workspace: &Workspace, words: &[String]) -> Result<(), Failure> {
    match words.split_first() {
        Some((first, rest)) if first == "server" => server::run(workspace, rest),
        Some((first, rest)) if first == "client" => client::run(workspace, rest),
        Some(_) | None => client::run(workspace, words),
    }
}

/// The scenarios whose names contain one of the words; all scenarios if there are no words.
fn select_scenarios<'a>(
    planned: &'a [ScenarioRun],
    words: &[String],
) -> Result<Vec<&'a ScenarioRun>, SuiteError> {
    let is_wanted =
        |it: &&ScenarioRun| words.is_empty() || words.iter().any(|word| it.scenario.contains(word));
    let wanted: Vec<&ScenarioRun> = planned.iter().filter(is_wanted).collect();
    match wanted.is_empty() {
        true => Err(SuiteError::NoMatch),
        false => Ok(wanted),
    }
}

/// Updates a generated block of the docs.
fn write_docs_block(
    workspace: &Workspace,
    block: &docs_page::DocsBlock,
    text: &str,
) -> Result<(), SuiteError> {
    let path = workspace.root.join(DOCS_PAGE);
    let page = fs::read_to_string(&path).map_err(|error| io_error(&path, error))?;
    let page = block.replace_in(&page, text);
    fs::write(&path, page).map_err(|error| io_error(&path, error))
}

/// Fails if a scenario has an unexpected result.
fn check_scores<'a>(scores: impl Iterator<Item = &'a Score>) -> Result<(), Failure> {
    match scores.filter(|it| !it.passed()).count() {
        0 => Ok(()),
        bad => Err(Failure::Conformance(bad)),
    }
}

fn io_error(path: &Path, error: io::Error) -> SuiteError {
    SuiteError::Io(path.to_owned(), error)
}

impl From<SuiteError> for Failure {
    fn from(error: SuiteError) -> Self {
        Failure::Command(Box::new(error))
    }
}

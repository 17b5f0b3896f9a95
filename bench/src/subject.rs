//! The programs under test: `swb`, and what other people's hosts offer for the same purpose.
//! Which peers there are is data; a peer that is not installed stays in the list and says so.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::effort;
use crate::failure::{self, Failure};
use crate::measure::{self, Measurement};
use crate::scene::Scene;
use crate::workplace::Workplace;

/// A program under test.
#[derive(Debug)]
pub struct Subject {
    /// The program's name.
    pub program: &'static str,
    /// What a person would type, as Markdown.
    pub label: &'static str,
    /// What the reader of a table should know.
    pub note: String,
    /// How often it takes its turn.
    pub pace: Pace,
    /// Where it is and its arguments; none where it is not installed.
    pub command: Option<Vec<OsString>>,
}

/// How often a program takes its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Twice in each round.
    Quick,
    /// Once in every fifth round.
    Slow,
}

const ROUNDS: usize = 25;
const SLOW_EVERY: usize = 5;

/// A list that another program offers.
struct Peer {
    label: &'static str,
    program: &'static str,
    package: &'static str,
    note: &'static str,
    form: Form,
}

/// Which part of a package is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// What the package puts on the search path.
    AsInstalled,
    /// The machine program that the package's script starts.
    WithoutScript,
}

const PEERS: &[Peer] = &[
    Peer {
        label: "`codex mcp list`",
        program: "codex",
        package: "@openai/codex",
        note: "connects to nothing; a script starts the program",
        form: Form::AsInstalled,
    },
    Peer {
        label: "`codex mcp list` without its script",
        program: "codex",
        package: "@openai/codex",
        note: "connects to nothing",
        form: Form::WithoutScript,
    },
    Peer {
        label: "`claude mcp list`",
        program: "claude",
        package: "@anthropic-ai/claude-code",
        note: "tries to start all ten servers, which fail at once",
        form: Form::AsInstalled,
    },
];

/// `swb` with these arguments.
pub fn swb(program: &Path, label: &'static str, arguments: &[&str]) -> Subject {
    let command = [program.into()].into_iter().chain(arguments.iter().map(OsString::from));
    Subject {
        program: "swb",
        label,
        note: "connects to nothing".to_owned(),
        pace: Pace::Quick,
        command: Some(command.collect()),
    }
}

/// A program that does nothing: what starting and ending a process costs.
pub fn floor(workplace: &Workplace) -> Subject {
    Subject {
        program: "true",
        label: "`true`",
        note: "does nothing: the floor".to_owned(),
        pace: Pace::Quick,
        command: workplace.find("true").map(|program| vec![program.into()]),
    }
}

/// Every peer, installed or not.
pub fn peers(workplace: &Workplace) -> Vec<Subject> {
    PEERS.iter().map(|peer| peer.subject(workplace)).collect()
}

impl Peer {
    fn subject(&self, workplace: &Workplace) -> Subject {
        let installed = workplace.find(self.program);
        let program = installed.and_then(|installed| match self.form {
            Form::AsInstalled => Some(installed),
            Form::WithoutScript => behind_script(&installed, self.program),
        });
        let version = program.as_deref().and_then(version);
        Subject {
            program: self.program,
            label: self.label,
            note: version.map_or(self.note.to_owned(), |it| format!("{it}; {}", self.note)),
            pace: Pace::Slow,
            command: program.map(|program| vec![program.into(), "mcp".into(), "list".into()]),
        }
    }
}

/// The machine program of a package whose script is installed: in `vendor` of a sibling package.
fn behind_script(script: &Path, program: &str) -> Option<PathBuf> {
    let script = script.canonicalize().ok()?;
    let package = script.parent()?.parent()?;
    let scope = package.parent()?.file_name()?;
    let nested = package.join("node_modules").join(scope);
    let folders = [package.parent()?, nested.as_path()].into_iter().flat_map(entries);
    let targets = folders.flat_map(|sibling| entries(&sibling.join("vendor")));
    targets.map(|target| target.join("bin").join(program)).find(|path| path.is_file())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The first word of `--version` that begins with a digit.
fn version(program: &Path) -> Option<String> {
    let said = failure::output(Command::new(program).arg("--version")).ok()?;
    let version =
        said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    version.map(str::to_owned)
}

/// Installs the peers where [`Workplace::find`] looks for them.
pub fn install_peers(workplace: &Workplace) -> Result<(), Failure> {
    let mut packages: Vec<&str> = PEERS.iter().map(|peer| peer.package).collect();
    packages.dedup();
    let program = PathBuf::from("npm");
    let mut npm = Command::new(&program);
    // A lock file would name the registry's host inside our tree.
    npm.args(["install", "--no-package-lock", "--prefix"]).arg(&workplace.peers).args(packages);
    let status = npm.current_dir(&workplace.root).status();
    let status = status.map_err(|error| Failure::NotStarted { program: program.clone(), error })?;
    if !status.success() {
        return Err(Failure::Failed { program, status, said: String::new() });
    }
    Ok(())
}

/// Fails unless the program's output names every server.
pub fn verify(subject: &Subject, scene: &Scene, servers: &[String]) -> Result<(), Failure> {
    let Some([program, arguments @ ..]) = subject.command.as_deref() else { return Ok(()) };
    let said = failure::output(scene.command(Path::new(program)).args(arguments))?;
    match servers.iter().find(|server| !said.contains(server.as_str())) {
        Some(server) => Err(Failure::Lacks { label: subject.label, server: server.clone() }),
        None => Ok(()),
    }
}

/// Measures the subjects by turns, so that a noisy minute is noisy for all of them.
/// The answers are in the order of the subjects; none for one that is not installed.
pub fn by_turns(scene: &Scene, subjects: &[Subject]) -> Result<Vec<Option<Measurement>>, Failure> {
    let mut measurements: Vec<Option<Measurement>> = subjects.iter().map(|_| None).collect();
    for round in 0..effort::repetitions(ROUNDS) {
        for (subject, sum) in subjects.iter().zip(&mut measurements) {
            let runs = subject.pace.runs(round);
            if let Some(command) = subject.command.as_ref().filter(|_| runs > 0) {
                let more = measure::take(scene, command, runs)?;
                *sum = Some(sum.take().unwrap_or_default().and(more));
            }
        }
    }
    Ok(measurements)
}

impl Pace {
    fn runs(self, round: usize) -> usize {
        match self {
            Pace::Quick => 2,
            Pace::Slow => usize::from(round.is_multiple_of(SLOW_EVERY)),
        }
    }
}

//! The programs under test: `swb`, and what other people's hosts offer for the same purpose.
//! Which peers there are is data; a peer that is not installed stays in the list and says so.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::effort;
use crate::failure::{self, Failure};
use crate::process_cost;
use crate::process_cost::Measurement;
use crate::sandbox::Sandbox;
use crate::workspace::Workspace;

/// A program under test.
#[derive(Debug)]
pub struct MeasuredProgram {
    /// The program's name.
    pub program: &'static str,
    /// What a person would type, as Markdown.
    pub label: &'static str,
    /// What the reader of a table should know.
    pub note: String,
    /// How often it takes its turn.
    pub pace: TurnRate,
    /// Where it is and its arguments; none where it is not installed.
    pub command: Option<Vec<OsString>>,
}

/// How often a program takes its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnRate {
    /// Twice in each round.
    TwicePerRound,
    /// Once in every fifth round.
    EveryFifthRound,
}

const ROUNDS: usize = 25;
const SLOW_EVERY: usize = 5;

/// A list that another program offers.
struct OtherHost {
    label: &'static str,
    program: &'static str,
    package: &'static str,
    note: &'static str,
    form: PackageForm,
}

/// Which part of a package is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PackageForm {
    /// What the package puts on the search path.
    AsInstalled,
    /// The machine program that the package's script starts.
    WithoutScript,
}

const OTHER_HOSTS: &[OtherHost] = &[
    OtherHost {
        label: "`codex mcp list`",
        program: "codex",
        package: "@openai/codex",
        note: "connects to nothing; a script starts the program",
        form: PackageForm::AsInstalled,
    },
    OtherHost {
        label: "`codex mcp list` without its script",
        program: "codex",
        package: "@openai/codex",
        note: "connects to nothing",
        form: PackageForm::WithoutScript,
    },
    OtherHost {
        label: "`claude mcp list`",
        program: "claude",
        package: "@anthropic-ai/claude-code",
        note: "tries to start all ten servers, which fail at once",
        form: PackageForm::AsInstalled,
    },
];

/// `swb` with these arguments.
pub fn swb(program: &Path, label: &'static str, arguments: &[&str]) -> MeasuredProgram {
    let command = [program.into()].into_iter().chain(arguments.iter().map(OsString::from));
    MeasuredProgram {
        program: "swb",
        label,
        note: "connects to nothing".to_owned(),
        pace: TurnRate::TwicePerRound,
        command: Some(command.collect()),
    }
}

/// A program that does nothing: what starting and ending a process costs.
pub fn noop_process(workspace: &Workspace) -> MeasuredProgram {
    MeasuredProgram {
        program: "true",
        label: "`true`",
        note: "does nothing: the floor".to_owned(),
        pace: TurnRate::TwicePerRound,
        command: workspace.find("true").map(|program| vec![program.into()]),
    }
}

/// Every peer, installed or not.
pub fn other_hosts(workspace: &Workspace) -> Vec<MeasuredProgram> {
    OTHER_HOSTS.iter().map(|host| host.to_program(workspace)).collect()
}

impl OtherHost {
    fn to_program(&self, workspace: &Workspace) -> MeasuredProgram {
        let installed = workspace.find(self.program);
        let program = installed.and_then(|installed| match self.form {
            PackageForm::AsInstalled => Some(installed),
            PackageForm::WithoutScript => native_binary(&installed, self.program),
        });
        let version = program.as_deref().and_then(version);
        MeasuredProgram {
            program: self.program,
            label: self.label,
            note: version.map_or(self.note.to_owned(), |it| format!("{it}; {}", self.note)),
            pace: TurnRate::EveryFifthRound,
            command: program.map(|program| vec![program.into(), "mcp".into(), "list".into()]),
        }
    }
}

/// The machine program of a package whose script is installed: in `vendor` of a sibling package.
fn native_binary(script: &Path, program: &str) -> Option<PathBuf> {
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
    let stdout = failure::output(Command::new(program).arg("--version")).ok()?;
    let version =
        stdout.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    version.map(str::to_owned)
}

/// Installs the peers where `Workspace::find` looks for them.
pub fn install_other_hosts(workspace: &Workspace) -> Result<(), Failure> {
    let mut packages: Vec<&str> = OTHER_HOSTS.iter().map(|host| host.package).collect();
    packages.dedup();
    let program = PathBuf::from("npm");
    let mut npm = Command::new(&program);
    // A lock file would name the registry's host inside our tree.
    npm.args(["install", "--no-package-lock", "--prefix"])
        .arg(&workspace.install_dir)
        .args(packages);
    let status = npm.current_dir(&workspace.root).status();
    let status = status.map_err(|error| Failure::NotStarted { program: program.clone(), error })?;
    if !status.success() {
        return Err(Failure::Failed { program, status, stderr: String::new() });
    }
    Ok(())
}

/// Fails unless the program's output names every server.
pub fn verify(
    subject: &MeasuredProgram,
    sandbox: &Sandbox,
    servers: &[String],
) -> Result<(), Failure> {
    let Some([program, arguments @ ..]) = subject.command.as_deref() else { return Ok(()) };
    let stdout = failure::output(sandbox.command(Path::new(program)).args(arguments))?;
    match servers.iter().find(|server| !stdout.contains(server.as_str())) {
        Some(server) => {
            Err(Failure::ServerNotListed { label: subject.label, server: server.clone() })
        }
        None => Ok(()),
    }
}

/// Measures the subjects by turns, so that a noisy minute is noisy for all of them.
/// The answers are in the order of the subjects; none for one that is not installed.
pub fn measure_interleaved(
    sandbox: &Sandbox,
    subjects: &[MeasuredProgram],
) -> Result<Vec<Option<Measurement>>, Failure> {
    let mut measurements: Vec<Option<Measurement>> = subjects.iter().map(|_| None).collect();
    for round in 0..effort::repetitions(ROUNDS) {
        for (subject, sum) in subjects.iter().zip(&mut measurements) {
            let runs = subject.pace.runs(round);
            if let Some(command) = subject.command.as_ref().filter(|_| runs > 0) {
                let more = process_cost::measure_runs(sandbox, command, runs)?;
                *sum = Some(sum.take().unwrap_or_default().merge(more));
            }
        }
    }
    Ok(measurements)
}

impl TurnRate {
    fn runs(self, round: usize) -> usize {
        match self {
            TurnRate::TwicePerRound => 2,
            TurnRate::EveryFifthRound => usize::from(round.is_multiple_of(SLOW_EVERY)),
        }
    }
}

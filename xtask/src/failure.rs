//! What can stop a chore: how it is printed, and which exit code it leaves.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::chores::conformance::SuiteError;
use crate::chores::fuzz::FuzzError;
use crate::chores::tidy::TreeError;
use crate::chores::walk::WalkError;
use crate::install::tools::ToolError;
use crate::steps::StepError;
use crate::workspace::WorkspaceError;

/// The exit code of a chore that was asked for wrongly, as shells and clap have it.
const USAGE: u8 = 2;

/// Why a chore stopped.
#[derive(Debug)]
pub enum Failure {
    /// No chore has this name.
    UnknownChore(String),
    /// The repository could not be found.
    Workspace(WorkspaceError),
    /// A tool is missing and could not be installed.
    Tool(ToolError),
    /// A step ended badly.
    Step(StepError),
    /// The repository could not be read.
    Tree(TreeError),
    /// This many violations were printed.
    Violations(usize),
    /// The conformance suite could not be run.
    Suite(SuiteError),
    /// This many scenarios were printed that are not as they should be.
    Conformance(usize),
    /// An input was found for which something does not hold, or none could be looked for.
    Fuzz(FuzzError),
    /// A newcomer's walk was stopped.
    Walk(WalkError),
}

impl Failure {
    /// Tells the person, unless the step that failed has just done so itself.
    pub fn print(&self) {
        if let Failure::Step(step) = self
            && step.is_reported()
        {
            return;
        }
        eprintln!("error: {self}");
        let mut cause = self.source();
        while let Some(error) = cause {
            eprintln!("  caused by: {error}");
            cause = error.source();
        }
    }

    /// The code of the step that failed, where there is one.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::UnknownChore(_)
            | Failure::Fuzz(FuzzError::UnknownTarget { .. } | FuzzError::Seconds)
            | Failure::Walk(WalkError::UnknownOption(_)) => ExitCode::from(USAGE),
            Failure::Step(step) => ExitCode::from(step.code()),
            Failure::Workspace(_)
            | Failure::Tool(_)
            | Failure::Tree(_)
            | Failure::Violations(_)
            | Failure::Suite(_)
            | Failure::Conformance(_)
            | Failure::Fuzz(_)
            | Failure::Walk(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::UnknownChore(name) => {
                write!(out, "no chore is called `{name}`; `cargo xtask help` lists them")
            }
            Failure::Workspace(error) => error.fmt(out),
            Failure::Tool(error) => error.fmt(out),
            Failure::Step(error) => error.fmt(out),
            Failure::Tree(error) => error.fmt(out),
            Failure::Violations(count) => write!(out, "{count} places break a wall"),
            Failure::Suite(error) => error.fmt(out),
            Failure::Fuzz(error) => error.fmt(out),
            Failure::Conformance(count) => {
                write!(out, "{count} scenarios of the conformance suite are not as they should be")
            }
            Failure::Walk(error) => error.fmt(out),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::UnknownChore(_) | Failure::Violations(_) | Failure::Conformance(_) => None,
            Failure::Suite(error) => error.source(),
            Failure::Fuzz(error) => error.source(),
            Failure::Workspace(error) => error.source(),
            Failure::Tool(error) => error.source(),
            Failure::Step(error) => error.source(),
            Failure::Tree(error) => error.source(),
            Failure::Walk(error) => error.source(),
        }
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        Failure::Workspace(error)
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Failure::Tool(error)
    }
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        Failure::Step(error)
    }
}

impl From<SuiteError> for Failure {
    fn from(error: SuiteError) -> Self {
        Failure::Suite(error)
    }
}

impl From<FuzzError> for Failure {
    fn from(error: FuzzError) -> Self {
        Failure::Fuzz(error)
    }
}

impl From<TreeError> for Failure {
    fn from(error: TreeError) -> Self {
        Failure::Tree(error)
    }
}

impl From<WalkError> for Failure {
    fn from(error: WalkError) -> Self {
        Failure::Walk(error)
    }
}

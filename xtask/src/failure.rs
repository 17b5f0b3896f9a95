//! What can stop a chore: how it is printed, and which exit code it leaves.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

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
    /// This many violations were printed.
    Violations(usize),
    /// This many scenarios were printed that are not as they should be.
    Conformance(usize),
    /// A chore failed with an error of its own.
    Chore(Box<dyn Error>),
    /// A chore was called with wrong arguments.
    Usage(Box<dyn Error>),
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
            Failure::UnknownChore(_) | Failure::Usage(_) => ExitCode::from(USAGE),
            Failure::Step(step) => ExitCode::from(step.code()),
            Failure::Workspace(_)
            | Failure::Tool(_)
            | Failure::Violations(_)
            | Failure::Conformance(_)
            | Failure::Chore(_) => ExitCode::FAILURE,
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
            Failure::Violations(count) => write!(out, "{count} places break a rule"),
            Failure::Conformance(count) => {
                write!(out, "{count} scenarios of the conformance suite are not as they should be")
            }
            Failure::Chore(error) | Failure::Usage(error) => error.fmt(out),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::UnknownChore(_) | Failure::Violations(_) | Failure::Conformance(_) => None,
            Failure::Workspace(error) => error.source(),
            Failure::Tool(error) => error.source(),
            Failure::Step(error) => error.source(),
            Failure::Chore(error) | Failure::Usage(error) => error.source(),
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

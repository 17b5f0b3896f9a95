//! Errors that stop a command: how each is printed, and the exit code it sets.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::install::tools::ToolError;
use crate::steps::StepError;
use crate::workspace::WorkspaceError;

/// The exit code for wrong arguments, the same as in shells and clap.
const USAGE: u8 = 2;

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// No command has this name.
    UnknownCommand(String),
    /// The repository could not be found.
    Workspace(WorkspaceError),
    /// A tool is missing and could not be installed.
    Tool(ToolError),
    /// A step failed.
    Step(StepError),
    /// This many violations were printed.
    Violations(usize),
    /// This many scenarios with unexpected results were printed.
    Conformance(usize),
    /// A command failed with an error of its own.
    Command(Box<dyn Error>),
    /// A command was called with wrong arguments.
    Usage(Box<dyn Error>),
}

impl Failure {
    /// Prints the error and its causes to standard error, unless the failed step has already reported it.
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

    /// The exit code of the failed step if there is one, otherwise a general failure code.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::UnknownCommand(_) | Failure::Usage(_) => ExitCode::from(USAGE),
            Failure::Step(step) => ExitCode::from(step.code()),
            Failure::Workspace(_)
            | Failure::Tool(_)
            | Failure::Violations(_)
            | Failure::Conformance(_)
            | Failure::Command(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::UnknownCommand(name) => {
                write!(out, "unknown command `{name}`; `cargo xtask help` lists the commands")
            }
            Failure::Workspace(error) => error.fmt(out),
            Failure::Tool(error) => error.fmt(out),
            Failure::Step(error) => error.fmt(out),
            Failure::Violations(count) => write!(out, "{count} violations of repository rules"),
            Failure::Conformance(count) => {
                write!(out, "{count} scenarios of the conformance suite have unexpected results")
            }
            Failure::Command(error) | Failure::Usage(error) => error.fmt(out),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Failure::UnknownCommand(_) | Failure::Violations(_) | Failure::Conformance(_) => None,
            Failure::Workspace(error) => error.source(),
            Failure::Tool(error) => error.source(),
            Failure::Step(error) => error.source(),
            Failure::Command(error) | Failure::Usage(error) => error.source(),
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

//! Runs commands in order, prints how long each took, and stops at the first failure.
//! Output goes to standard error, as with cargo and nextest, so that lines stay in order.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Instant;

/// One command with a title.
#[derive(Debug)]
pub struct Step {
    title: &'static str,
    command: Command,
    summary: StepSummary,
}

/// What is printed last when a step ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StepSummary {
    /// The duration, and the step's name if it failed.
    PrintsTime,
    /// The command's own summary.
    PrintsOwn,
}

impl Step {
    /// A step not yet run.
    pub fn new(title: &'static str, command: Command, summary: StepSummary) -> Self {
        Step { title, command, summary }
    }

    /// The command as typed in a shell.
    pub fn command_line(&self) -> String {
        line(&self.command)
    }

    fn run(mut self) -> Result<(), StepError> {
        eprintln!("==> {}: {}", self.title, self.command_line());
        let start = Instant::now();
        let result = match self.command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(StepErrorKind::Failed(status)),
            Err(error) => Err(StepErrorKind::NotStarted(error)),
        };
        if self.summary == StepSummary::PrintsTime {
            eprintln!("    {} took {:.1} s", self.title, start.elapsed().as_secs_f64());
        }
        result.map_err(|kind| StepError {
            title: self.title,
            command_line: self.command_line(),
            summary: self.summary,
            kind,
        })
    }
}

/// Runs the steps in order and stops at the first failure.
pub fn run_all(steps: Vec<Step>) -> Result<(), StepError> {
    steps.into_iter().try_for_each(Step::run)
}

/// The command as typed in a shell, without the folder of its program.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or(program.as_os_str()).to_string_lossy()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    words.join(" ")
}

/// A step that failed.
#[derive(Debug)]
pub struct StepError {
    title: &'static str,
    command_line: String,
    summary: StepSummary,
    kind: StepErrorKind,
}

/// How a step failed.
#[derive(Debug)]
pub enum StepErrorKind {
    /// The program could not be started.
    NotStarted(io::Error),
    /// The program ran and reported failure.
    Failed(ExitStatus),
}

impl StepError {
    /// The exit code to return: that of the failed command, or 1 if it has none.
    pub fn code(&self) -> u8 {
        match &self.kind {
            StepErrorKind::NotStarted(_) => 1,
            StepErrorKind::Failed(status) => {
                status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
            }
        }
    }

    /// Whether the command has already printed its own error.
    pub fn is_reported(&self) -> bool {
        match &self.kind {
            StepErrorKind::NotStarted(_) => false,
            StepErrorKind::Failed(_) => self.summary == StepSummary::PrintsOwn,
        }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            StepErrorKind::NotStarted(_) => {
                write!(out, "the step `{}` did not start: `{}`", self.title, self.command_line)
            }
            StepErrorKind::Failed(status) => {
                write!(out, "the step `{}` failed ({status}): `{}`", self.title, self.command_line)
            }
        }
    }
}

impl Error for StepError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            StepErrorKind::NotStarted(error) => Some(error),
            StepErrorKind::Failed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(title: &'static str, script: &str, folder: &Path) -> Step {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder);
        Step::new(title, command, StepSummary::PrintsTime)
    }

    #[test]
    fn the_first_failure_stops_the_rest_and_gives_its_code() {
        let folder = tempfile::tempdir().unwrap();
        let steps = vec![
            shell("one", "touch one", folder.path()),
            shell("two", "exit 7", folder.path()),
            shell("three", "touch three", folder.path()),
        ];

        let error = run_all(steps).unwrap_err();

        assert_eq!(error.code(), 7);
        assert_eq!(error.to_string(), "the step `two` failed (exit status: 7): `sh -c exit 7`");
        assert!(folder.path().join("one").exists());
        assert!(!folder.path().join("three").exists());
    }

    #[test]
    fn a_missing_program_is_named_with_its_cause() {
        let missing = Step::new("gone", Command::new("no-such-program"), StepSummary::PrintsOwn);

        let error = run_all(vec![missing]).unwrap_err();

        assert_eq!(error.to_string(), "the step `gone` did not start: `no-such-program`");
        assert!(error.source().is_some());
        assert!(!error.is_reported());
    }
}

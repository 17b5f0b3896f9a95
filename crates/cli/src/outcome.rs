//! The outcome of a command. `output::report` prints it; commands do not print.

use serde_json::Value as Json;
use switchboard::config::display::printable;
use switchboard::sources::atomic_file::FileChangeError;

use crate::exit::Exit;

/// The output of a command that succeeded.
#[derive(Debug, Default)]
pub struct CommandOutput {
    /// For standard output.
    pub text: String,
    /// For standard output, in place of the text: JSON for programs.
    pub json: Option<Json>,
    /// For standard error: notes for the user.
    pub notes: String,
    /// The exit code, if it is not 0.
    pub exit: Option<Exit>,
    /// What failed, for programs: `error` in the JSON. Without it, the meaning of the exit code is used.
    pub failure: Option<Failure>,
}

impl CommandOutput {
    /// Output without notes.
    pub fn text(text: impl Into<String>) -> CommandOutput {
        CommandOutput { text: text.into(), ..CommandOutput::default() }
    }

    /// Adds a note for standard error.
    pub fn note(mut self, note: impl AsRef<str>) -> CommandOutput {
        self.notes.push_str(note.as_ref());
        self
    }

    /// Marks the output as that of a command that failed. Its text and notes say what failed.
    pub fn failed(mut self, failure: Failure) -> CommandOutput {
        self.exit = Some(failure.exit);
        self.failure = Some(failure);
        self
    }
}

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What failed.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// Details, already formatted.
    pub detail: String,
    /// What the user can do next.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with its message.
    pub fn new(exit: Exit, message: &str) -> Failure {
        let message = printable(message);
        Failure { exit, message, causes: Vec::new(), detail: String::new(), hint: None }
    }

    /// Adds an error and all its causes.
    pub fn caused_by(mut self, error: impl std::error::Error) -> Failure {
        let mut next: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = next {
            self.causes.push(printable(&error.to_string()));
            next = error.source();
        }
        self
    }

    /// Adds a hint, usually a command to run.
    pub fn hint(mut self, hint: &str) -> Failure {
        self.hint = Some(printable(hint));
        self
    }

    /// Adds details that are already formatted.
    pub fn detail(mut self, detail: String) -> Failure {
        self.detail = detail;
        self
    }
}

impl From<FileChangeError> for Failure {
    fn from(error: FileChangeError) -> Failure {
        let exit = match &error.kind {
            switchboard::sources::atomic_file::FileChangeErrorKind::Edit(_)
            | switchboard::sources::atomic_file::FileChangeErrorKind::Unreadable(_) => {
                Exit::Configuration
            }
            switchboard::sources::atomic_file::FileChangeErrorKind::Busy
            | switchboard::sources::atomic_file::FileChangeErrorKind::Io(_) => Exit::Failure,
        };
        let message = error.to_string();
        Failure::new(exit, &message).caused_by(error.kind)
    }
}

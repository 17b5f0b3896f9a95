//! What a command comes back with. `report` prints it; commands print nothing themselves.

use switchboard::config::display::printable;
use switchboard::sources::atomic_file::FileChangeError;

use crate::exit::Exit;

/// A command that did what it should.
#[derive(Debug, Default)]
pub struct CommandOutput {
    /// For standard output.
    pub text: String,
    /// For standard error: what the person should know besides.
    pub notes: String,
    /// How the process ends, where that is not plain success.
    pub exit: Option<Exit>,
}

impl CommandOutput {
    /// Output and nothing else.
    pub fn text(text: impl Into<String>) -> CommandOutput {
        CommandOutput { text: text.into(), ..CommandOutput::default() }
    }

    /// Adds something for standard error.
    pub fn note(mut self, note: impl AsRef<str>) -> CommandOutput {
        self.notes.push_str(note.as_ref());
        self
    }
}

/// A command that could not do what it should.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// What could not be done.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// More to read, already laid out.
    pub detail: String,
    /// What to type next.
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

    /// Adds a command to type.
    pub fn hint(mut self, hint: &str) -> Failure {
        self.hint = Some(printable(hint));
        self
    }

    /// Adds text that is already laid out.
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

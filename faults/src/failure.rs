//! Errors that stop a run before it has a verdict, and how they are printed. The checker reports violations instead.

use std::error::Error;
use std::fmt;
use std::io;

/// Why there is no verdict.
#[derive(Debug)]
pub struct Failure {
    message: String,
    error: Option<io::Error>,
}

impl Failure {
    /// An operation of the test program failed.
    pub fn from_io(message: impl Into<String>, error: io::Error) -> Failure {
        Failure { message: message.into(), error: Some(error) }
    }

    /// A precondition is not met.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), error: None }
    }

    /// Prints the error to standard error.
    pub fn print(&self) {
        eprintln!("error: {self}");
        if let Some(error) = &self.error {
            eprintln!("  caused by: {error}");
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.as_ref().map(|it| it as _)
    }
}

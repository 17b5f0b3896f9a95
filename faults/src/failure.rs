//! What stops a run before it can judge anything, and how it is printed. What a judge finds is a complaint instead.

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
    /// Something of ours could not be done.
    pub fn from_io(message: impl Into<String>, error: io::Error) -> Failure {
        Failure { message: message.into(), error: Some(error) }
    }

    /// Something is not as it must be.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), error: None }
    }

    /// Tells the person.
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

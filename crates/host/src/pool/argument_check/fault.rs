//! A fault in the arguments of a call, and its text. No fault contains a value, which may be a secret.

use std::fmt;

/// The maximum length of a list of allowed values or of a name, in characters.
const MAX_LIST_CHARS: usize = 300;

/// A fault in the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArgumentFault {
    /// The path: names joined by dots, indices in brackets. Empty for the arguments as a whole.
    pub at: String,
    /// The kind of fault.
    pub kind: ArgumentFaultKind,
}

/// The kinds of faults. None contains the value, which may be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentFaultKind {
    /// A required argument is missing.
    Missing,
    /// The argument does not exist.
    Unknown {
        /// The argument that was probably meant.
        nearest: Option<String>,
    },
    /// The value has the wrong type.
    Type {
        /// The expected type.
        expected: String,
        /// The actual type.
        actual: &'static str,
    },
    /// The value is not one of the allowed ones.
    NotListed {
        /// The allowed values as JSON.
        allowed: String,
    },
    /// Another fault.
    Invalid {
        /// The violated condition.
        expected: String,
    },
    /// The check was stopped, because it takes too much work.
    TooMuchWork {
        /// The limit.
        max_steps: u64,
    },
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => f.write_str("the arguments")?,
            at => write!(f, "`{at}`")?,
        }
        match &self.kind {
            ArgumentFaultKind::Missing => f.write_str(" is missing"),
            ArgumentFaultKind::Unknown { nearest: None } => f.write_str(" is unknown"),
            ArgumentFaultKind::Unknown { nearest: Some(nearest) } => {
                write!(f, " is unknown, did you mean `{nearest}`?")
            }
            ArgumentFaultKind::Type { expected, actual } => {
                write!(f, " should be {expected}, not {actual}")
            }
            ArgumentFaultKind::NotListed { allowed } => write!(f, " should be one of {allowed}"),
            ArgumentFaultKind::Invalid { expected } => write!(f, " {expected}"),
            ArgumentFaultKind::TooMuchWork { max_steps } => write!(
                f,
                " take more than {max_steps} steps to check against the schema of the tool; make them smaller or \
                 less nested"
            ),
        }
    }
}

impl std::error::Error for ArgumentFault {}

/// The text, truncated to what fits in a message.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_LIST_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

//! Why a file of another application could not be parsed.

use thiserror::Error;

/// A file does not parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cannot read line {line}, column {column}")]
pub struct ImportError {
    /// Where, from 1.
    pub line: usize,
    /// Where in the line, in characters from 1.
    pub column: usize,
    /// What is wrong there.
    #[source]
    pub kind: ImportErrorKind,
}

/// What is wrong with a file's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ImportErrorKind {
    /// Two values stand side by side.
    #[error("a comma is missing")]
    MissingComma,
    /// Something ends too late, or never.
    #[error("a string, comment, array or object is not closed")]
    NotClosed,
    /// A string holds what JSON does not allow.
    #[error("a string has an escape that is not JSON")]
    BadString,
    /// The value is over but the text is not.
    #[error("there is more text after the end")]
    TextAfterEnd,
    /// It nests without reason.
    #[error("it is nested too deeply")]
    TooDeep,
    /// Any other fault of JSON.
    #[error("it is not JSON")]
    NotJson,
    /// Any fault of TOML.
    #[error("it is not TOML")]
    NotToml,
    /// It is JSON, but not settings.
    #[error("it is not an object")]
    NotAnObject,
}

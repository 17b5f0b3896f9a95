//! Why a file of another application could not be parsed.

use thiserror::Error;

/// A file could not be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cannot read line {line}, column {column}")]
pub struct ImportError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The kind of error.
    #[source]
    pub kind: ImportErrorKind,
}

/// The kinds of errors in the text of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ImportErrorKind {
    /// A comma between two values is missing.
    #[error("a comma is missing")]
    MissingComma,
    /// A string, comment, array or object has no end.
    #[error("a string, comment, array or object is not closed")]
    NotClosed,
    /// A string contains an escape that is not valid JSON.
    #[error("a string has an escape that is not JSON")]
    BadString,
    /// There is text after the value.
    #[error("there is more text after the end")]
    TextAfterEnd,
    /// Arrays or objects are nested too deeply.
    #[error("it is nested too deeply")]
    TooDeep,
    /// Any other JSON error.
    #[error("it is not JSON")]
    NotJson,
    /// Any TOML error.
    #[error("it is not TOML")]
    NotToml,
    /// Any YAML error.
    #[error("it is not YAML")]
    NotYaml,
    /// An alias or a key that is not text, which no program writes into this file.
    #[error("an alias or a key that is not text is not supported")]
    UnsupportedYaml,
    /// The top-level value is not an object.
    #[error("it is not an object")]
    NotAnObject,
}

//! What is wrong with a description of a server.

use thiserror::Error;

/// Why a description of a server cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ListingError {
    /// A member has another type.
    #[error("`{key}` is not {expected}")]
    WrongType {
        /// The member.
        key: String,
        /// What it has to be.
        expected: &'static str,
    },
    /// A required member is missing.
    #[error("`{key}` is missing")]
    Missing {
        /// The member.
        key: String,
    },
    /// A member is longer than any real one.
    #[error("`{key}` is too long")]
    TooLong {
        /// The member.
        key: String,
    },
    /// A text contains a control character.
    #[error("`{key}` contains a control character")]
    ControlCharacter {
        /// The member.
        key: String,
    },
    /// A name is not valid.
    #[error("`{key}` contains the name `{name}`, which is not valid")]
    Name {
        /// The member.
        key: String,
        /// The name.
        name: String,
    },
    /// A name is there twice.
    #[error("`{key}` contains the name `{name}` twice")]
    Duplicate {
        /// The member.
        key: String,
        /// The name.
        name: String,
    },
}

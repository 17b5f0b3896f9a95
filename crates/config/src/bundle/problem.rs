//! What can be wrong with a bundle: errors that make it unusable, and warnings.

use thiserror::Error;

use super::platform::BundlePlatform;
use crate::user_config::OptionProblem;

/// Why a manifest cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// The text is not JSON.
    #[error("line {line}, column {column} is not valid JSON")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// The text is JSON, but not an object.
    #[error("it is not an object")]
    NotAnObject,
    /// A required key is missing or empty.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A value has the wrong type.
    #[error("`{key}` is not {expected}")]
    WrongType {
        /// The key.
        key: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// The version of the format is unknown. Untrusted text.
    #[error("its version `{0}` is not one of 0.1 to 0.4")]
    UnknownVersion(String),
    /// The type of the server is unknown. Untrusted text.
    #[error("the server type `{0}` is not node, python, binary or uv")]
    UnknownServerType(String),
    /// A path leads out of the bundle.
    #[error("`{0}` is not a path inside the bundle")]
    OutsidePath(&'static str),
}

/// Something in a manifest that is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ManifestWarning {
    /// An unknown key. Untrusted text.
    #[error("the key `{0}` is unknown")]
    UnknownKey(String),
    /// A value of the wrong type.
    #[error("`{0}` has the wrong type")]
    WrongType(&'static str),
    /// Something is wrong with an option.
    #[error(transparent)]
    Option(#[from] OptionProblem),
}

/// What is wrong with a bundle that an entry names.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BundleProblem {
    /// It is not installed.
    #[error("the bundle {short} is not installed")]
    NotInstalled {
        /// The first digits of its hash.
        short: String,
    },
    /// Its manifest could not be read.
    #[error("the manifest of the installed bundle cannot be read")]
    Unreadable,
    /// Its manifest is not valid.
    #[error("the bundle's manifest is invalid: {0}")]
    Manifest(ManifestError),
    /// It does not run on this platform.
    #[error("the bundle does not run on {}", .0.id())]
    Platform(BundlePlatform),
    /// The program itself would be a secret.
    #[error("a secret option must not be the command that runs")]
    SecretInCommand,
    /// The command is empty.
    #[error("the bundle's command is empty")]
    EmptyCommand,
}

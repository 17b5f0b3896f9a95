//! The two ages of the protocol, and the only place where its versions are named.

use std::fmt;

/// How a server wants to be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// A connection begins with `initialize`; the server may ask questions of its own.
    Legacy,
    /// Every request stands for itself and carries what the server must know.
    Modern,
}

impl Era {
    /// The word for it in output and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<Era> {
        [Era::Legacy, Era::Modern].into_iter().find(|era| era.as_str() == text)
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Versions of the modern era that we speak, the best first.
pub(crate) const MODERN_VERSIONS: &[&str] = &["2026-07-28"];
/// Versions of the legacy era that we speak, the best first. The last was never published, but servers say it.
pub(crate) const LEGACY_VERSIONS: &[&str] =
    &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
/// The only version in which several messages may come at once.
pub(crate) const BATCH_VERSION: &str = "2025-03-26";

/// Is this a version of the legacy era that is spoken here?
pub fn is_legacy_version(version: &str) -> bool {
    LEGACY_VERSIONS.contains(&version)
}

/// May clients of this version send several messages at once?
pub fn supports_batches(version: &str) -> bool {
    version == BATCH_VERSION
}

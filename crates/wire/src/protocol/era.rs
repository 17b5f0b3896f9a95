//! The two eras of the protocol. The only place that names protocol versions.

use std::fmt;

/// A generation of protocol versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// A session starts with `initialize`; the server may send requests to the client.
    Legacy,
    /// Each request is independent and carries all metadata that the server needs.
    Modern,
}

impl Era {
    /// The name of the era in output and in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }

    /// Parses the name of an era.
    pub fn parse(text: &str) -> Option<Era> {
        [Era::Legacy, Era::Modern].into_iter().find(|era| era.as_str() == text)
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The modern versions that we support, preferred first.
pub(crate) const MODERN_VERSIONS: &[&str] = &["2026-07-28"];
/// The legacy versions that we support, preferred first. The last was never published, but servers use it.
pub(crate) const LEGACY_VERSIONS: &[&str] =
    &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
/// The only version that allows batches.
pub(crate) const BATCH_VERSION: &str = "2025-03-26";

/// The first version in which a stream begins with an event without a message.
const PRIMING_EVENT_VERSION: &str = "2025-11-25";

/// Whether we support this version of the legacy era.
pub fn is_legacy_version(version: &str) -> bool {
    LEGACY_VERSIONS.contains(&version)
}

/// Whether clients of this version expect a stream to begin with an event that has an id and no message. Clients of
/// earlier versions parse the data of every event as a message.
pub fn supports_priming_event(version: &str) -> bool {
    is_legacy_version(version) && version >= PRIMING_EVENT_VERSION
}

/// Whether clients of this version may send batches.
pub fn supports_batches(version: &str) -> bool {
    version == BATCH_VERSION
}

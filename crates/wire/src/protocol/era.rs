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

/// Error codes that one side gives a meaning to; those from -32020 on are the modern era's own.
pub(crate) mod code {
    /// What came is no JSON.
    pub(crate) const PARSE: i64 = -32700;
    /// The question comes at the wrong time.
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    /// The parameters make no sense.
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    /// Whoever answers failed.
    pub(crate) const INTERNAL: i64 = -32603;
    /// There is no such resource; the modern era counts that among the parameters.
    pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
    /// There is no such method.
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    /// A header and the body say different things.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks a capability that the server needs.
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    /// The server does not speak this version; it says which it speaks.
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
}

/// Keys in `_meta` that the modern era put there.
pub(crate) mod key {
    /// The version that a request is written in.
    pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Who asks.
    pub(crate) const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// What the one who asks can do.
    pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Who answers.
    pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// How much the one who asks wants to hear meanwhile.
    pub(crate) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The request that opened the subscription which a message belongs to.
    pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
}

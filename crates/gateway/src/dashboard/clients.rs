//! The clients of the HTTP server as the dashboard sees them. The server implements the interface.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The clients of the HTTP server.
pub(crate) trait ClientDirectory: fmt::Debug + Send + Sync {
    /// The sessions of legacy clients, oldest first.
    fn sessions(&self) -> Vec<SessionRow>;
    /// What each principal uses now.
    fn principals(&self) -> Vec<PrincipalRow>;
    /// Ends the session with this digest.
    fn end_session(&self, digest: &str) -> SessionEnd;
}

/// A session of a legacy client.
#[derive(Debug, Clone)]
pub(crate) struct SessionRow {
    /// Names the session without giving access to it.
    pub(crate) digest: String,
    pub(crate) principal: Arc<str>,
    /// The program that the client says it is. Untrusted.
    pub(crate) program: String,
    pub(crate) protocol_version: String,
    /// What servers may ask the client for.
    pub(crate) capabilities: Vec<&'static str>,
    pub(crate) age: Duration,
    pub(crate) requests: u64,
}

/// What a principal uses.
#[derive(Debug, Clone)]
pub(crate) struct PrincipalRow {
    pub(crate) principal: Arc<str>,
    pub(crate) sessions: usize,
    pub(crate) requests: usize,
    pub(crate) connections: usize,
}

/// The result of ending a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    Ended,
    Unknown,
}

//! Where what a session has seen is kept for other processes that serve the same session. Implemented by programs that
//! have such processes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use thiserror::Error;

/// A server and a tool, by their names in rules.
pub type SeenTool = (String, String);

/// The result of recording.
pub type SeenFuture<'a> = Pin<Box<dyn Future<Output = Result<(), SeenStoreError>> + Send + 'a>>;

/// What a session has seen cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("what this session sees cannot be recorded for other replicas; try again later")]
pub struct SeenStoreError;

/// Keeps what a session has seen.
pub trait SeenStore: fmt::Debug + Send + Sync {
    /// Adds tools whose results are about to be seen. If that fails, the call is not made.
    fn record<'a>(&'a self, tools: &'a [SeenTool]) -> SeenFuture<'a>;
}

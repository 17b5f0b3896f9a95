//! The interface through which the program opens sessions: a host, a call context, a model and a transcript for a
//! folder. Implemented by the command line.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use switchboard::elicitation::Elicitor;
use switchboard::permission::PermissionPrompt;
use switchboard_chat::conversation::setup::ConversationSetup;
use switchboard_chat::transcript::Transcript;
use thiserror::Error;

/// The future of a session that is being opened.
pub type OpenFuture<'a> =
    Pin<Box<dyn Future<Output = Result<OpenedSession, SessionError>> + Send + 'a>>;
/// The future of a list of sessions.
pub type ListFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<StoredSession>, SessionError>> + Send + 'a>>;
/// Stops the host of a session. Completes when its servers have ended.
pub type CloseSession = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Opens and lists sessions.
pub trait SessionSource: Send + Sync + 'static {
    /// Opens a session.
    fn open<'a>(&'a self, request: OpenSession) -> OpenFuture<'a>;

    /// The stored sessions, the last used first: of the project of this folder, or of all projects.
    fn list<'a>(&'a self, folder: Option<PathBuf>) -> ListFuture<'a>;
}

/// A session to open.
pub struct OpenSession {
    /// Its folder: absolute, and not checked otherwise.
    pub folder: PathBuf,
    /// More folders that its tools may use.
    pub additional_folders: Vec<PathBuf>,
    /// The editor's servers, as an object of `mcpServers` entries in JSON.
    pub servers: serde_json::Map<String, serde_json::Value>,
    /// Whether it is new.
    pub start: SessionStart,
    /// Asks the user for permissions.
    pub prompt: Arc<dyn PermissionPrompt>,
    /// Answers elicitations of servers.
    pub elicitor: Arc<dyn Elicitor>,
}

/// Whether a session is new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionStart {
    /// It is.
    New,
    /// It continues the conversation with this id.
    Continue(String),
}

/// An open session.
pub struct OpenedSession {
    /// Its id, which continues it later.
    pub id: String,
    /// The conversation.
    pub setup: ConversationSetup,
    /// The transcript.
    pub transcript: Transcript,
    /// Stops the host.
    pub close: CloseSession,
}

/// A stored session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// Its id.
    pub id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The start of the first message.
    pub title: String,
    /// When it was used last, as a timestamp of RFC 3339.
    pub updated_at: String,
}

/// Why a session cannot be opened. The message is for the user.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SessionError {
    /// The kind of error.
    pub kind: SessionErrorKind,
    /// What failed, why, and what to do about it.
    pub message: String,
}

/// The kind of a [`SessionError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionErrorKind {
    /// There is no session with this id.
    NotFound,
    /// The folder or the servers cannot be used.
    InvalidParams,
    /// Anything else.
    Failed,
}

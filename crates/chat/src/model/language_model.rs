//! The trait of a language model, with its requests, responses and errors. Implemented by the HTTP client and the
//! scripted model.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::message::{ContentBlock, Message};

/// A language model.
pub trait LanguageModel: Send + Sync {
    /// Its name for display.
    fn name(&self) -> &str;

    /// Its context window in tokens, if known.
    fn context_window(&self) -> Option<u64>;

    /// Responds to a conversation. Sends deltas while it streams, and returns the whole response. Dropping the future stops
    /// it.
    fn respond<'a>(
        &'a self,
        request: ModelRequest,
        deltas: mpsc::Sender<ResponseDelta>,
    ) -> ResponseFuture<'a>;
}

/// The future of a response.
pub type ResponseFuture<'a> =
    Pin<Box<dyn Future<Output = Result<ModelResponse, ModelError>> + Send + 'a>>;

/// A request to a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The system prompt.
    pub system_prompt: Arc<str>,
    /// The messages so far.
    pub messages: Arc<[Message]>,
    /// The tools that it may call.
    pub tools: Arc<[ToolDefinition]>,
    /// The maximum length of the response in tokens, if the caller limits it.
    pub max_tokens: Option<u64>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone)]
pub struct ToolDefinition {
    /// Its exposed name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// The JSON schema of its arguments.
    pub input_schema: Json,
}

/// A part of a streaming response.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseDelta {
    /// More text.
    Text(String),
    /// More thinking.
    Thinking(String),
    /// The model begins to request a tool call.
    ToolUse {
        /// The id of the call.
        id: String,
        /// The tool.
        tool: String,
    },
    /// More of the arguments of the last tool call, as JSON text.
    ToolInput(String),
    /// A block is complete.
    BlockEnded(ContentBlock),
    /// The request failed and is retried; earlier deltas of the response are void.
    Retrying {
        /// The number of attempts so far.
        attempt: u32,
        /// The backoff before the next attempt.
        after: Duration,
        /// Why the attempt failed.
        reason: String,
    },
}

/// A whole response.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// Text, thinking and tool calls.
    pub content: Vec<ContentBlock>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// The tokens used.
    pub usage: Usage,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It finished.
    EndTurn,
    /// It requests tool calls.
    ToolUse,
    /// The response reached its maximum length.
    MaxTokens,
    /// It refused to answer.
    Refusal,
}

/// Used tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Cached input tokens.
    pub cached: u64,
    /// Output tokens.
    pub output: u64,
}

/// A failed model request.
#[derive(Debug, Error)]
#[error("{model} did not answer")]
pub struct ModelError {
    /// The model and its host.
    pub model: String,
    /// The HTTP status with which the service refused the request, if it did.
    pub status: Option<u16>,
    /// The cause.
    #[source]
    pub kind: ModelErrorKind,
}

impl ModelErrorKind {
    /// The kind of error for logs, without anything that the service sent.
    pub(crate) fn log_label(&self) -> &'static str {
        match self {
            ModelErrorKind::NotConfigured => "not configured",
            ModelErrorKind::Unreachable(_) => "unreachable",
            ModelErrorKind::KeyRejected(_) => "key rejected",
            ModelErrorKind::Overloaded(_) => "overloaded",
            ModelErrorKind::ContextTooLong(_) => "context too long",
            ModelErrorKind::Rejected { .. } => "rejected",
            ModelErrorKind::InvalidResponse(_) => "invalid response",
            ModelErrorKind::StreamInterrupted(_) => "stream interrupted",
        }
    }
}

/// The cause of a [`ModelError`].
#[derive(Debug, Error)]
pub enum ModelErrorKind {
    /// No model is set.
    #[error("no model is set up")]
    NotConfigured,
    /// The service cannot be reached.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The API key is wrong or missing.
    #[error("it does not accept the key: {0}")]
    KeyRejected(String),
    /// The service is overloaded or limits the rate, after all retries.
    #[error("it is overloaded: {0}")]
    Overloaded(String),
    /// The conversation exceeds the context window.
    #[error("the conversation is too long for it: {0}")]
    ContextTooLong(String),
    /// The service rejected the request.
    #[error("it refused the request ({status}): {message}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// The service's message.
        message: String,
    },
    /// The response is malformed.
    #[error("its response is invalid: {0}")]
    InvalidResponse(String),
    /// The response stream broke off.
    #[error("its answer broke off: {0}")]
    StreamInterrupted(String),
}

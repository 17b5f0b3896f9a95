//! The port to a model that answers conversations: what it is asked, what it says on the way and how it fails.
//! Clients of real services and scripted ones stand behind it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::message::{ContentBlock, Message};

/// A model.
pub trait LanguageModel: Send + Sync {
    /// What it is called, for people.
    fn name(&self) -> &str;

    /// How many tokens it can look at, where that is known.
    fn context_window(&self) -> Option<u64>;

    /// Answers a conversation. Says what it says piece by piece, and gives the whole in the end. Dropping it stops it.
    fn respond<'a>(
        &'a self,
        request: ModelRequest,
        deltas: mpsc::Sender<ResponseDelta>,
    ) -> ResponseFuture<'a>;
}

/// An answer under way.
pub type ResponseFuture<'a> =
    Pin<Box<dyn Future<Output = Result<ModelResponse, ModelError>> + Send + 'a>>;

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// What it should know of its place.
    pub system_prompt: Arc<str>,
    /// What was said so far.
    pub messages: Arc<[Message]>,
    /// What it may call.
    pub tools: Arc<[ToolDefinition]>,
    /// The longest answer, in tokens, where that matters to who asks.
    pub max_tokens: Option<u64>,
}

/// A tool as a model sees it.
#[derive(Debug, Clone)]
pub struct ToolDefinition {
    /// Its exposed name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What its arguments look like.
    pub input_schema: Json,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseDelta {
    /// More words.
    Text(String),
    /// More thought.
    Thinking(String),
    /// It asks again after a failure; what it said of this answer so far does not count.
    Retrying {
        /// How often it has been tried.
        attempt: u32,
        /// How long it waits.
        after: Duration,
        /// Why.
        reason: String,
    },
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelResponse {
    /// What the model said, thought and wants called.
    pub content: Vec<ContentBlock>,
    /// Why it stopped.
    pub stop_reason: StopReason,
    /// What it cost.
    pub usage: Usage,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It was done.
    EndTurn,
    /// It wants calls made.
    ToolUse,
    /// Its answer may not be longer.
    MaxTokens,
    /// It would not answer.
    Refusal,
}

/// What was used, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read by the model, what it remembered included.
    pub input: u64,
    /// Of that, what it remembered.
    pub cached: u64,
    /// Written by the model.
    pub output: u64,
}

/// Why a model did not answer.
#[derive(Debug, Error)]
#[error("{model} did not answer")]
pub struct ModelError {
    /// Which model, and where.
    pub model: String,
    /// Why.
    #[source]
    pub kind: ModelErrorKind,
}

/// Why.
#[derive(Debug, Error)]
pub enum ModelErrorKind {
    /// No model is set.
    #[error("no model is set up")]
    NotConfigured,
    /// It cannot be reached.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The key is wrong or missing.
    #[error("it does not accept the key: {0}")]
    KeyRejected(String),
    /// Too much was asked of it, for longer than we were willing to wait.
    #[error("it is asked too much: {0}")]
    Overloaded(String),
    /// The conversation is longer than it can look at.
    #[error("the conversation is too long for it: {0}")]
    ContextTooLong(String),
    /// It says that the request is wrong.
    #[error("it refused the request ({status}): {message}")]
    Rejected {
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// It answered something that is no answer.
    #[error("it answered nonsense: {0}")]
    InvalidResponse(String),
    /// It began and did not end.
    #[error("its answer broke off: {0}")]
    StreamInterrupted(String),
}

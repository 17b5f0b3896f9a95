//! The port to a model that answers conversations: what it is asked, what it says on the way and how it fails.
//! Clients of real services and scripted ones stand behind it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::utterance::{Part, Utterance};

/// A model.
pub trait LanguageModel: Send + Sync {
    /// What it is called, for people.
    fn name(&self) -> &str;

    /// How many tokens it can look at, where that is known.
    fn window(&self) -> Option<u64>;

    /// Answers a conversation. Says what it says piece by piece, and gives the whole in the end. Dropping it stops it.
    fn answer<'a>(&'a self, request: ModelRequest, said: mpsc::Sender<Delta>) -> Answering<'a>;
}

/// An answer under way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answered, ModelError>> + Send + 'a>>;

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// What it should know of its place.
    pub system: Arc<str>,
    /// What was said so far.
    pub said: Arc<[Utterance]>,
    /// What it may call.
    pub tools: Arc<[ToolOffer]>,
    /// The longest answer, in tokens, where that matters to who asks.
    pub max_tokens: Option<u64>,
}

/// A tool as a model sees it.
#[derive(Debug, Clone)]
pub struct ToolOffer {
    /// Its exposed name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What its arguments look like.
    pub schema: Json,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// More words.
    Text(String),
    /// More thought.
    Thought(String),
    /// It asks again after a failure; what it said of this answer so far does not count.
    Again {
        /// How often it has been tried.
        attempt: u32,
        /// How long it waits.
        after: Duration,
        /// Why.
        because: String,
    },
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// What the model said, thought and wants called.
    pub parts: Vec<Part>,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    pub usage: Usage,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was done.
    End,
    /// It wants calls made.
    Calls,
    /// Its answer may not be longer.
    Length,
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
    NotSet,
    /// It cannot be reached.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The key is wrong or missing.
    #[error("it does not accept the key: {0}")]
    Key(String),
    /// Too much was asked of it, for longer than we were willing to wait.
    #[error("it is asked too much: {0}")]
    Busy(String),
    /// The conversation is longer than it can look at.
    #[error("the conversation is too long for it: {0}")]
    TooLong(String),
    /// It says that the request is wrong.
    #[error("it refused the request ({status}): {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it says.
        message: String,
    },
    /// It answered something that is no answer.
    #[error("it answered nonsense: {0}")]
    Senseless(String),
    /// It began and did not end.
    #[error("its answer broke off: {0}")]
    BrokenOff(String),
}

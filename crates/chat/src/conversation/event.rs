//! The events of a conversation, in order. Text in them that comes from a server or a model is untrusted: the UI
//! sanitizes it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use switchboard::pool::Pool;

use crate::channel::ReceivedChannelMessage;
use crate::message::{ContentBlock, ToolResult};
use crate::model::language_model::{ModelError, StopReason, Usage};

/// An event of a conversation.
#[derive(Debug)]
pub enum ConversationEvent {
    /// Queued messages became part of the conversation. Sent once for all that were accepted together.
    MessagesAccepted {
        /// The number of messages.
        count: usize,
    },
    /// Messages of channels became part of the conversation.
    ChannelMessages(Vec<ReceivedChannelMessage>),
    /// More text of the response.
    Text(String),
    /// More of the model's thinking.
    Thinking(String),
    /// The model began to request a tool call. Not every provider sends this, and the arguments follow.
    ToolUseStarted {
        /// The id of the call, as the model gave it.
        id: String,
        /// The tool's exposed name.
        tool: String,
    },
    /// More of the arguments of the tool call that began last, as JSON text.
    ToolInput(String),
    /// A block of the response is complete. Not every provider sends this.
    BlockEnded(ContentBlock),
    /// The model finished a response; usually its tool calls follow.
    ResponseEnded(FinishedResponse),
    /// A call started. It may still need permission.
    CallStarted(ToolCallView),
    /// A call reported its progress.
    CallProgress {
        /// The id of the call.
        id: Arc<str>,
        /// The progress so far.
        progress: f64,
        /// The total, if the server states it.
        total: Option<f64>,
        /// The server's message.
        message: Option<String>,
    },
    /// A call ended.
    CallEnded {
        /// The id of the call.
        id: Arc<str>,
        /// How it ended.
        outcome: CallOutcome,
        /// Its result as text; images and files are named in it.
        text: String,
        /// Its result, as the model gets it; `None` for a call that the user made.
        result: Option<Arc<ToolResult>>,
        /// What its server said besides, for programs: `structuredContent` and `_meta`. Untrusted.
        details: Option<Json>,
        /// How long it took, including the time the user took to decide.
        duration: Duration,
    },
    /// The model gave its answer as JSON that matches the schema of the conversation. The turn ends.
    StructuredOutput(Json),
    /// The tokens used by the conversation so far.
    Usage(Usage),
    /// A model request failed and is retried.
    Retrying {
        /// The number of attempts so far.
        attempt: u32,
        /// The backoff before the next attempt.
        after: Duration,
        /// Why the attempt failed.
        reason: String,
    },
    /// The turn ended. Queued messages start the next one.
    TurnEnded(TurnEnd),
}

/// A response of the model.
#[derive(Debug, Clone)]
pub struct FinishedResponse {
    /// Text, thinking and tool calls, in order.
    pub content: Vec<ContentBlock>,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// The tokens used by this response.
    pub usage: Usage,
}

/// A tool call for display.
#[derive(Debug, Clone)]
pub struct ToolCallView {
    /// Its id in the conversation.
    pub id: Arc<str>,
    /// The tool's exposed name.
    pub tool: Arc<str>,
    /// Its title: the server's and the tool's name.
    pub title: String,
    /// The arguments.
    pub arguments: Json,
}

impl ToolCallView {
    /// A call of the tool with this exposed name, titled by the server and the tool that `pool` knows it as.
    pub fn new(pool: &Pool, id: &str, tool: &str, arguments: Json) -> ToolCallView {
        let title = match pool.find(tool) {
            Some(found) if found.server.is_empty() => found.display_name().to_owned(),
            Some(found) => format!("{}: {}", found.server, found.display_name()),
            None => tool.to_owned(),
        };
        ToolCallView { id: id.into(), tool: tool.into(), title, arguments }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// Successfully.
    Done,
    /// The tool reported an error.
    ToolError,
    /// It was not made: unknown tool, invalid arguments, no connection.
    Failed,
    /// Permission was denied.
    Denied,
    /// The user interrupted it.
    Interrupted,
}

/// How a turn ended.
#[derive(Debug)]
pub enum TurnEnd {
    /// The model finished.
    Finished,
    /// The response reached its maximum length.
    CutShort,
    /// The model refused to answer.
    Refused,
    /// The user interrupted it.
    Interrupted,
    /// The turn reached the maximum number of rounds.
    TooManyRounds,
    /// The model did not give the JSON that the conversation is to return, although it was reminded.
    NoStructuredOutput,
    /// A hook refused the message or ended the turn, for this reason.
    StoppedByHook(String),
    /// The model request failed. The messages are kept.
    Failed(ModelError),
}

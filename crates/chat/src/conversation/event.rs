//! What a face hears of a conversation, in order. Everything in it that came from a server or a model is untrusted text:
//! whoever shows it makes it printable.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use switchboard::pool::Pool;

use crate::model::language_model::{ModelError, Usage};

/// Something that happened.
#[derive(Debug)]
pub enum ConversationEvent {
    /// What a person said has been taken up; a turn begins. Said once for everything that was taken up together.
    MessagesAccepted {
        /// How many sayings that waited are now part of the conversation.
        count: usize,
    },
    /// The model goes on with its words.
    Text(String),
    /// The model goes on thinking.
    Thinking(String),
    /// The model has ended one answer: what follows is another one (after calls, usually).
    ResponseEnded,
    /// A call begins (it may still need somebody's leave).
    CallStarted(ToolCallView),
    /// A call says how far it is.
    CallProgress {
        /// Which.
        id: Arc<str>,
        /// How far.
        progress: f64,
        /// Of how much.
        total: Option<f64>,
        /// What it is doing.
        message: Option<String>,
    },
    /// A call has ended.
    CallEnded {
        /// Which.
        id: Arc<str>,
        /// How.
        outcome: CallOutcome,
        /// What it gave, as text; pictures and files are named in it.
        text: String,
        /// How long it took, people's time included.
        duration: Duration,
    },
    /// What the conversation costs so far.
    Usage(Usage),
    /// The model did not answer, and is asked again.
    Retrying {
        /// How often it has been tried.
        attempt: u32,
        /// How long it waits.
        after: Duration,
        /// Why.
        reason: String,
    },
    /// The turn is over; the person may speak (or what waits is taken up next).
    TurnEnded(TurnEnd),
}

/// A call as a face shows it.
#[derive(Debug, Clone)]
pub struct ToolCallView {
    /// Its name among the calls of the conversation.
    pub id: Arc<str>,
    /// The tool's exposed name.
    pub tool: Arc<str>,
    /// The name a person reads: the server's and the tool's.
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
    /// Well.
    Done,
    /// The tool says that it failed.
    ToolError,
    /// It was never made: no tool, bad arguments, a server that is gone.
    Failed,
    /// Nobody allowed it.
    Denied,
    /// The person stopped it.
    Interrupted,
}

/// How a turn ended.
#[derive(Debug)]
pub enum TurnEnd {
    /// The model has said what it had to say.
    Finished,
    /// The model stopped because its answer may not be longer.
    CutShort,
    /// The model would not answer.
    Refused,
    /// The person stopped it.
    Interrupted,
    /// Too many rounds of calls in one turn.
    TooManyRounds,
    /// The model could not be asked. What was said is kept.
    Failed(ModelError),
}

//! Hooks of a conversation: code that sees a message before the model does, decides about a tool call before the
//! permission rules do, and changes or adds to what the model gets. The agent loop calls them; an embedding program or an
//! editor implements them.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value as Json;

use crate::conversation::event::CallOutcome;
use crate::message::{ContentBlock, ToolResult, ToolUse};

/// The future of a hook. Dropping it withdraws what the hook asks for.
pub type HookFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Hooks of a conversation. Every method has a default that changes nothing. A hook may take any time: the conversation
/// can be interrupted meanwhile.
pub trait ConversationHooks: Send + Sync {
    /// A user's message, before it becomes part of the conversation.
    fn message_submitted<'a>(
        &'a self,
        message: &'a [ContentBlock],
    ) -> HookFuture<'a, SubmittedMessage> {
        let _unused = message;
        ready(SubmittedMessage::default())
    }

    /// Messages of channels, before they become part of the conversation. They are no prompt of the user: what the user
    /// has selected or mentioned does not belong to them.
    fn channel_messages_submitted<'a>(
        &'a self,
        messages: &'a [ContentBlock],
    ) -> HookFuture<'a, SubmittedMessage> {
        let _unused = messages;
        ready(SubmittedMessage::default())
    }

    /// A tool call, before the permission rules decide about it. Several calls may be asked about at the same time.
    fn before_call<'a>(&'a self, call: &'a ToolUse) -> HookFuture<'a, BeforeCall> {
        let _unused = call;
        ready(BeforeCall::default())
    }

    /// A tool call that ended, also if it was not made.
    fn after_call<'a>(&'a self, call: FinishedCall<'a>) -> HookFuture<'a, AfterCall> {
        let _unused = call;
        ready(AfterCall::default())
    }

    /// All calls of a response ended. The blocks are added to their results.
    fn after_round<'a>(&'a self) -> HookFuture<'a, Vec<ContentBlock>> {
        ready(Vec::new())
    }

    /// The model requests no more calls, so the turn is about to end.
    fn turn_ending<'a>(&'a self, attempt: EndAttempt) -> HookFuture<'a, TurnEnding> {
        let _unused = attempt;
        ready(TurnEnding::End)
    }
}

fn ready<'a, T: Send + 'a>(value: T) -> HookFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

/// What a hook does with a user's message.
#[derive(Debug, Default)]
pub struct SubmittedMessage {
    /// Blocks that are added behind the message.
    pub context: Vec<ContentBlock>,
    /// Why the message must not be sent. The turn ends without a request to the model.
    pub refused_because: Option<String>,
}

/// What a hook decides about a call that is to be made.
#[derive(Debug, Default)]
pub struct BeforeCall {
    /// Whether the call is made.
    pub decision: CallDecision,
    /// Arguments that replace those of the model.
    pub arguments: Option<Json>,
    /// Texts for the model, behind the result.
    pub context: Vec<String>,
    /// Why the turn ends after this call.
    pub stop_because: Option<String>,
}

/// Whether a call is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CallDecision {
    /// The permission rules decide, and the user where they say so.
    #[default]
    ByRules,
    /// The call is made without asking the user. Rules that deny it still hold.
    Allow {
        /// Where the decision comes from, for the audit log.
        decided_by: String,
    },
    /// The user is asked, even if a rule allows the call.
    Ask {
        /// Why, for the user.
        because: String,
    },
    /// The call is not made, and the model gets this text as its result.
    Deny {
        /// The text.
        message: String,
    },
}

/// A call that ended.
#[derive(Debug, Clone, Copy)]
pub struct FinishedCall<'a> {
    /// The call, with the arguments it was made with.
    pub call: &'a ToolUse,
    /// Its result.
    pub result: &'a ToolResult,
    /// How it ended.
    pub outcome: CallOutcome,
}

/// What a hook does after a call.
#[derive(Debug, Default)]
pub struct AfterCall {
    /// A result that replaces the tool's.
    pub replaced_result: Option<Vec<ContentBlock>>,
    /// Texts for the model, behind the result.
    pub context: Vec<String>,
    /// Why the turn ends after this call.
    pub stop_because: Option<String>,
    /// Why the model does not get the result. The call counts as failed, and this text is its result.
    pub withheld_because: Option<String>,
}

/// The attempt to end a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndAttempt {
    /// No hook has continued this turn.
    First,
    /// A hook has continued this turn already.
    Repeated,
}

/// Whether a turn ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnding {
    /// It ends.
    End,
    /// It goes on: the model gets this text as a message.
    Continue(String),
}

//! The setup and the status of a conversation. No behaviour: `agent_loop` reads the one and writes the other.

use std::sync::Arc;

use switchboard::channel::ChannelInbox;
use switchboard::{CallContext, Host};

use crate::conversation::hooks::ConversationHooks;
use crate::conversation::structured_output::StructuredOutput;
use crate::message::Message;
use crate::model::language_model::LanguageModel;

/// The default of [`ConversationSetup::max_rounds`].
pub const DEFAULT_MAX_ROUNDS: usize = 50;

/// What a conversation starts with.
pub struct ConversationSetup {
    /// The host that makes tool calls.
    pub host: Host,
    /// The rules of tool calls, and the prompt that asks the user.
    pub call_context: Arc<CallContext>,
    /// The model. Without one, every turn fails with a hint.
    pub model: Option<Arc<dyn LanguageModel>>,
    /// The system prompt. The agent loop adds the servers' instructions.
    pub system_prompt: Arc<str>,
    /// The messages of the conversation that it continues.
    pub history: Vec<Message>,
    /// The most requests to the model in one turn.
    pub max_rounds: usize,
    /// The hooks, in the order in which they are called.
    pub hooks: Vec<Arc<dyn ConversationHooks>>,
    /// The schema of the answer, if it is to be JSON.
    pub structured_output: Option<StructuredOutput>,
    /// The messages of channels. Those that wait start a turn, or join the next one.
    pub channels: Option<ChannelInbox>,
}

/// The status of a conversation.
#[derive(Debug, Clone, Default)]
pub struct ConversationStatus {
    /// The id of its transcript, once there is a message.
    pub id: Option<Arc<str>>,
    /// The size of the context after the last response, in tokens.
    pub context_tokens: u64,
    /// Why the transcript could not be written.
    pub write_error: Option<Arc<str>>,
}

//! What a conversation is made of, and how it stands. No behaviour: `agent_loop` reads the one and writes the other.

use std::sync::Arc;

use switchboard::call::pipeline::CallContext;
use switchboard::host::Host;

use crate::message::Message;
use crate::model::language_model::LanguageModel;

/// How often a model may call tools and go on in one turn, unless told otherwise.
pub const DEFAULT_MAX_ROUNDS: usize = 50;

/// What a conversation is made of.
pub struct ConversationSetup {
    /// Where tools are called.
    pub host: Host,
    /// Under which rules, and who is asked.
    pub call_context: Arc<CallContext>,
    /// Who answers. Without one, everything that is said fails with a hint.
    pub model: Option<Arc<dyn LanguageModel>>,
    /// What the model should know of its place. What servers say of themselves is added by the loop.
    pub system_prompt: Arc<str>,
    /// What was said before, where a conversation is gone on with.
    pub history: Vec<Message>,
    /// How often a model may call tools and go on, in one turn.
    pub max_rounds: usize,
}

/// How a conversation stands.
#[derive(Debug, Clone, Default)]
pub struct ConversationStatus {
    /// What its record on disk is called, where it is kept and something was said.
    pub id: Option<Arc<str>>,
    /// How many tokens the model last looked at and wrote: what the next answer begins with.
    pub context_tokens: u64,
    /// Why it is not kept on disk any more, where that failed.
    pub write_error: Option<Arc<str>>,
}

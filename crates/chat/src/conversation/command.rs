//! The commands that a [`Conversation`](super::handle::Conversation) handle sends to its agent loop.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::channel::PendingChannelMessage;
use crate::conversation::structured_output::StructuredOutput;
use crate::message::ContentBlock;
use crate::model::language_model::LanguageModel;

/// A command to the agent loop.
pub(crate) enum Command {
    Send(Vec<ContentBlock>),
    SendFromChannels(Vec<PendingChannelMessage>),
    Interrupt,
    Clear,
    SetModel(Option<Arc<dyn LanguageModel>>),
    SetSystemPrompt(Arc<str>),
    SetStructuredOutput(StructuredOutput),
    WithdrawLast(oneshot::Sender<bool>),
}

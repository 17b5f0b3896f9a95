//! The commands that a [`Conversation`](super::handle::Conversation) handle sends to its agent loop.

use std::sync::Arc;

use switchboard::CallContext;
use tokio::sync::oneshot;

use crate::message::ContentBlock;
use crate::model::language_model::LanguageModel;

/// A command to the agent loop.
pub(crate) enum Command {
    Send(Vec<ContentBlock>),
    Interrupt,
    Clear,
    SetModel(Option<Arc<dyn LanguageModel>>),
    SetCallContext(Arc<CallContext>),
    WithdrawLast(oneshot::Sender<bool>),
}

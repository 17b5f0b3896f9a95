//! A conversation as a face holds it: what can be said to it. The loop behind it is one task, and lives in `agent_task`.

use std::sync::Arc;

use switchboard::call::pipeline::CallContext;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::conversation::agent_loop::AgentLoop;
use crate::conversation::agent_loop::channel::LoopChannel;
use crate::conversation::command::Command;
use crate::conversation::event::ConversationEvent;
use crate::conversation::setup::{ConversationSetup, ConversationStatus};
use crate::message::ContentBlock;
use crate::model::language_model::LanguageModel;
use crate::transcript::Transcript;

/// How many orders may wait. The loop takes them whatever else it does.
const COMMAND_BUFFER: usize = 16;
/// How much may have happened that nobody has looked at yet; then the conversation waits.
const EVENT_BUFFER: usize = 256;

/// A conversation. Clones are the same one; it ends when all are gone.
#[derive(Debug, Clone)]
pub struct Conversation {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<ConversationStatus>,
}

impl Conversation {
    /// Begins one that nobody keeps. What happens in it comes out of the receiver; the task ends after the last `Talk`
    /// is gone, and what is under way then is stopped.
    pub fn start(
        setup: ConversationSetup,
    ) -> (Conversation, mpsc::Receiver<ConversationEvent>, JoinHandle<()>) {
        Conversation::spawn(setup, None)
    }

    /// The same, kept on disk as it goes.
    pub fn start_recorded(
        setup: ConversationSetup,
        transcript: Transcript,
    ) -> (Conversation, mpsc::Receiver<ConversationEvent>, JoinHandle<()>) {
        Conversation::spawn(setup, Some(transcript))
    }

    fn spawn(
        setup: ConversationSetup,
        transcript: Option<Transcript>,
    ) -> (Conversation, mpsc::Receiver<ConversationEvent>, JoinHandle<()>) {
        let (commands, command_receiver) = mpsc::channel(COMMAND_BUFFER);
        let (event_sender, events) = mpsc::channel(EVENT_BUFFER);
        let (status_sender, status) = watch::channel(ConversationStatus::default());
        let (agent_loop, model) = AgentLoop::new(setup, transcript, status_sender);
        let channel = LoopChannel::new(command_receiver, event_sender, model);
        let task = tokio::spawn(agent_loop.run(channel));
        (Conversation { commands, status }, events, task)
    }

    /// Says something. While a turn is under way it waits, and is taken up as soon as the model can hear it: after the
    /// calls of this round, else in a turn of its own.
    pub async fn send(&self, parts: Vec<ContentBlock>) {
        let _ended = self.commands.send(Command::Send(parts)).await;
    }

    /// Stops the turn under way, its calls included. What was said stays.
    pub async fn interrupt(&self) {
        let _ended = self.commands.send(Command::Interrupt).await;
    }

    /// Forgets everything that was said, and what waits. A turn under way is stopped.
    pub async fn clear(&self) {
        let _ended = self.commands.send(Command::Clear).await;
    }

    /// Goes on with another model, from the next answer on.
    pub async fn set_model(&self, model: Option<Arc<dyn LanguageModel>>) {
        let _ended = self.commands.send(Command::SetModel(model)).await;
    }

    /// Goes on at another desk, from the next round on: other rules, or more or less to be asked.
    pub async fn set_call_context(&self, call_context: Arc<CallContext>) {
        let _ended = self.commands.send(Command::SetCallContext(call_context)).await;
    }

    /// Takes back what was said last. Says whether it still waited: what was taken up stays said.
    pub async fn withdraw_last(&self) -> bool {
        let (reply, withdrawn) = oneshot::channel();
        let _ended = self.commands.send(Command::WithdrawLast(reply)).await;
        withdrawn.await.unwrap_or(false)
    }

    /// How the conversation stands.
    pub fn status(&self) -> ConversationStatus {
        self.status.borrow().clone()
    }
}

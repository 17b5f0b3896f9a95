//! The handle of a conversation that a UI holds. The task behind it is in `agent_loop`.

use std::sync::Arc;

use switchboard::CallContext;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::channel::PendingChannelMessage;
use crate::conversation::agent_loop::AgentLoop;
use crate::conversation::agent_loop::channel::LoopChannel;
use crate::conversation::command::Command;
use crate::conversation::event::ConversationEvent;
use crate::conversation::setup::{ConversationSetup, ConversationStatus};
use crate::conversation::structured_output::StructuredOutput;
use crate::message::ContentBlock;
use crate::model::language_model::LanguageModel;
use crate::transcript::Transcript;

/// How many commands may wait. The loop receives them at all times.
const COMMAND_BUFFER: usize = 16;
/// How many events may wait for the UI; then the conversation waits.
const EVENT_BUFFER: usize = 256;

/// A handle of a conversation. Clones share it; it ends when all are dropped.
#[derive(Debug, Clone)]
pub struct Conversation {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<ConversationStatus>,
    call_context: watch::Sender<Arc<CallContext>>,
}

impl Conversation {
    /// Starts a conversation without a transcript. Its events come out of the receiver. Its task ends after the last handle
    /// is dropped, and stops a running turn.
    pub fn start(
        setup: ConversationSetup,
    ) -> (Conversation, mpsc::Receiver<ConversationEvent>, JoinHandle<()>) {
        Conversation::spawn(setup, None)
    }

    /// Starts a conversation that is written to a transcript.
    pub fn start_recorded(
        setup: ConversationSetup,
        transcript: Transcript,
    ) -> (Conversation, mpsc::Receiver<ConversationEvent>, JoinHandle<()>) {
        Conversation::spawn(setup, Some(transcript))
    }

    fn spawn(
        mut setup: ConversationSetup,
        transcript: Option<Transcript>,
    ) -> (Conversation, mpsc::Receiver<ConversationEvent>, JoinHandle<()>) {
        let (commands, command_receiver) = mpsc::channel(COMMAND_BUFFER);
        let (event_sender, events) = mpsc::channel(EVENT_BUFFER);
        let (status_sender, status) = watch::channel(ConversationStatus::default());
        let (call_context, _) = watch::channel(setup.call_context.clone());
        let observed = call_context.subscribe();
        let inbox = setup.channels.take();
        let (agent_loop, model) = AgentLoop::new(setup, transcript, (status_sender, observed));
        let channel = LoopChannel::new(command_receiver, event_sender, (model, inbox));
        let task = tokio::spawn(agent_loop.run(channel));
        (Conversation { commands, status, call_context }, events, task)
    }

    /// Sends a message. During a turn it is queued, and accepted after the calls of the current round or in the next turn.
    pub async fn send(&self, blocks: Vec<ContentBlock>) {
        let _ended = self.commands.send(Command::Send(blocks)).await;
    }

    /// Sends messages of channels, for a program that decides itself when turns begin. They are accepted at the beginning
    /// of the next turn.
    pub async fn send_from_channels(&self, messages: Vec<PendingChannelMessage>) {
        let _ended = self.commands.send(Command::SendFromChannels(messages)).await;
    }

    /// Interrupts the running turn and its calls. The messages stay.
    pub async fn interrupt(&self) {
        let _ended = self.commands.send(Command::Interrupt).await;
    }

    /// Removes all messages, including queued ones. A running turn is interrupted.
    pub async fn clear(&self) {
        let _ended = self.commands.send(Command::Clear).await;
    }

    /// Changes the model, from the next request on.
    pub async fn set_model(&self, model: Option<Arc<dyn LanguageModel>>) {
        let _ended = self.commands.send(Command::SetModel(model)).await;
    }

    /// Changes the call context (rules, permission mode) for every call whose permission is not decided yet.
    pub fn set_call_context(&self, call_context: Arc<CallContext>) {
        self.call_context.send_replace(call_context);
    }

    /// Changes the system prompt, from the next turn on.
    pub async fn set_system_prompt(&self, system_prompt: Arc<str>) {
        let _ended = self.commands.send(Command::SetSystemPrompt(system_prompt)).await;
    }

    /// Asks for answers that match a schema, from the next turn on.
    pub async fn set_structured_output(&self, output: StructuredOutput) {
        let _ended = self.commands.send(Command::SetStructuredOutput(output)).await;
    }

    /// Withdraws the last queued message. Returns false where none was queued any more.
    pub async fn withdraw_last(&self) -> bool {
        let (reply, withdrawn) = oneshot::channel();
        let _ended = self.commands.send(Command::WithdrawLast(reply)).await;
        withdrawn.await.unwrap_or(false)
    }

    /// The status of the conversation.
    pub fn status(&self) -> ConversationStatus {
        self.status.borrow().clone()
    }
}

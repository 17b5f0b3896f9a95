//! The channel between the agent loop and the UI: commands in, events out. It receives commands while it waits to send
//! an event, so that loop and UI cannot deadlock on each other.

use std::collections::VecDeque;
use std::sync::Arc;

use switchboard::channel::ChannelInbox;
use tokio::sync::mpsc;

use crate::channel::{PendingChannelMessage, take_for_turn};
use crate::conversation::command::Command;
use crate::conversation::event::ConversationEvent;
use crate::conversation::structured_output::StructuredOutput;
use crate::message::ContentBlock;
use crate::model::language_model::LanguageModel;

/// Why the running turn should stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopCause {
    /// The user interrupted it.
    Interrupt,
    /// The user cleared the conversation.
    Clear,
    /// Every handle is dropped.
    Disconnected,
}

pub(crate) struct LoopChannel {
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<ConversationEvent>,
    model: Option<Arc<dyn LanguageModel>>,
    /// Messages that are not accepted yet. Bounded by what a user types during one round.
    queued: Vec<Vec<ContentBlock>>,
    /// Messages of channels that wait for the next turn: the few that were taken, and where more come from.
    channel_messages: VecDeque<PendingChannelMessage>,
    inbox: Option<ChannelInbox>,
    /// A new system prompt, until the loop takes it.
    system_prompt: Option<Arc<str>>,
    /// A new schema of the answers, until the loop takes it.
    structured_output: Option<StructuredOutput>,
    stop_cause: Option<StopCause>,
}

impl LoopChannel {
    pub(crate) fn new(
        commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<ConversationEvent>,
        (model, inbox): (Option<Arc<dyn LanguageModel>>, Option<ChannelInbox>),
    ) -> LoopChannel {
        LoopChannel {
            commands,
            events,
            model,
            queued: Vec::new(),
            channel_messages: VecDeque::new(),
            inbox,
            system_prompt: None,
            structured_output: None,
            stop_cause: None,
        }
    }

    pub(crate) fn model(&self) -> Option<Arc<dyn LanguageModel>> {
        self.model.clone()
    }

    pub(crate) fn take_system_prompt(&mut self) -> Option<Arc<str>> {
        self.system_prompt.take()
    }

    pub(crate) fn take_structured_output(&mut self) -> Option<StructuredOutput> {
        self.structured_output.take()
    }

    pub(crate) fn stop_cause(&self) -> Option<StopCause> {
        self.stop_cause
    }

    /// Notes that the turn has stopped.
    pub(crate) fn clear_stop_cause(&mut self) {
        self.stop_cause = self.stop_cause.filter(|it| *it == StopCause::Disconnected);
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.queued.is_empty() || !self.channel_messages.is_empty()
    }

    pub(crate) fn take_queued(&mut self) -> Vec<Vec<ContentBlock>> {
        std::mem::take(&mut self.queued)
    }

    /// Takes the messages of channels for a turn, in the order in which they came. What one turn has no room for waits for
    /// the next one.
    pub(crate) fn take_channel_messages(&mut self) -> Vec<PendingChannelMessage> {
        take_for_turn(&mut self.channel_messages, self.inbox.as_mut())
    }

    /// Receives the next command, or the next message of a channel.
    pub(crate) async fn receive_when_idle(&mut self) {
        let Some(inbox) = &mut self.inbox else { return self.receive().await };
        tokio::select! {
            biased;
            command = self.commands.recv() => self.apply(command),
            message = inbox.next() => match message {
                Some(message) => self.channel_messages.push_back(message.into()),
                // The host has stopped.
                None => self.inbox = None,
            },
        }
    }

    /// Receives the next command.
    pub(crate) async fn receive(&mut self) {
        match self.stop_cause {
            // A closed channel would return at once, again and again.
            Some(StopCause::Disconnected) => std::future::pending().await,
            Some(StopCause::Interrupt | StopCause::Clear) | None => {
                let command = self.commands.recv().await;
                self.apply(command);
            }
        }
    }

    fn apply(&mut self, command: Option<Command>) {
        let cause = match command {
            Some(Command::Send(blocks)) => return self.queued.push(blocks),
            Some(Command::SendFromChannels(messages)) => {
                return self.channel_messages.extend(messages);
            }
            Some(Command::SetModel(model)) => {
                self.model = model;
                return;
            }
            Some(Command::SetSystemPrompt(system_prompt)) => {
                self.system_prompt = Some(system_prompt);
                return;
            }
            Some(Command::SetStructuredOutput(output)) => {
                self.structured_output = Some(output);
                return;
            }
            Some(Command::WithdrawLast(reply)) => {
                let _caller_gone = reply.send(self.queued.pop().is_some());
                return;
            }
            Some(Command::Interrupt) => StopCause::Interrupt,
            // Messages of channels stay: their senders do not know of it, and would not send them again.
            Some(Command::Clear) => {
                self.queued.clear();
                StopCause::Clear
            }
            None => StopCause::Disconnected,
        };
        self.stop_cause = self.stop_cause.max(Some(cause));
    }

    /// Sends an event once there is room for it.
    pub(crate) async fn send(&mut self, event: ConversationEvent) {
        while self.stop_cause != Some(StopCause::Disconnected) {
            let command = tokio::select! {
                biased;
                room = self.events.reserve() => {
                    match room {
                        Ok(room) => room.send(event),
                        Err(_) => self.stop_cause = Some(StopCause::Disconnected),
                    }
                    return;
                }
                command = self.commands.recv() => command,
            };
            self.apply(command);
        }
    }
}

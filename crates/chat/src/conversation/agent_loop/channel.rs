//! The channel between the agent loop and the UI: commands in, events out. It receives commands while it waits to send
//! an event, so that loop and UI cannot deadlock on each other.

use std::sync::Arc;

use switchboard::CallContext;
use tokio::sync::mpsc;

use crate::conversation::command::Command;
use crate::conversation::event::ConversationEvent;
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
    /// A new call context, until the loop takes it.
    call_context: Option<Arc<CallContext>>,
    stop_cause: Option<StopCause>,
}

impl LoopChannel {
    pub(crate) fn new(
        commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<ConversationEvent>,
        model: Option<Arc<dyn LanguageModel>>,
    ) -> LoopChannel {
        LoopChannel {
            commands,
            events,
            model,
            queued: Vec::new(),
            call_context: None,
            stop_cause: None,
        }
    }

    pub(crate) fn model(&self) -> Option<Arc<dyn LanguageModel>> {
        self.model.clone()
    }

    pub(crate) fn take_call_context(&mut self) -> Option<Arc<CallContext>> {
        self.call_context.take()
    }

    pub(crate) fn stop_cause(&self) -> Option<StopCause> {
        self.stop_cause
    }

    /// Notes that the turn has stopped.
    pub(crate) fn clear_stop_cause(&mut self) {
        self.stop_cause = self.stop_cause.filter(|it| *it == StopCause::Disconnected);
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    pub(crate) fn take_queued(&mut self) -> Vec<Vec<ContentBlock>> {
        std::mem::take(&mut self.queued)
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
            Some(Command::SetModel(model)) => {
                self.model = model;
                return;
            }
            Some(Command::SetCallContext(call_context)) => {
                self.call_context = Some(call_context);
                return;
            }
            Some(Command::WithdrawLast(reply)) => {
                let _caller_gone = reply.send(self.queued.pop().is_some());
                return;
            }
            Some(Command::Interrupt) => StopCause::Interrupt,
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

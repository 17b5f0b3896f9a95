//! The channels of a session: their messages, and what the user has to know about them.

use std::collections::VecDeque;
use std::sync::Arc;

use switchboard::channel::ChannelInbox;
use switchboard::{Host, Snapshot};
use tokio::sync::watch;

use crate::channel::{ChannelNotices, ReceivedChannelMessage};

/// How many messages begin one turn.
const MAX_MESSAGES: usize = 32;

/// The messages of channels.
pub(crate) struct SessionInbox {
    /// None where the session takes no messages or the host has stopped.
    inbox: Option<ChannelInbox>,
    /// Messages whose turn was interrupted before the model saw them.
    postponed: Vec<ReceivedChannelMessage>,
    /// Whether they come by themselves: an interrupt that they follow at once would be none.
    are_postponed_due: bool,
}

impl SessionInbox {
    pub(crate) fn new(inbox: Option<ChannelInbox>) -> SessionInbox {
        SessionInbox { inbox, postponed: Vec::new(), are_postponed_due: false }
    }

    /// Keeps messages until the next turn has ended or another one comes.
    pub(crate) fn postpone(&mut self, messages: Vec<ReceivedChannelMessage>) {
        self.postponed = messages;
        self.are_postponed_due = false;
    }

    pub(crate) fn end_turn(&mut self) {
        self.are_postponed_due = true;
    }

    /// Waits for messages, and takes all that wait. Cancel-safe: nothing waits between the first message and the end.
    pub(crate) async fn next_messages(&mut self) -> Vec<ReceivedChannelMessage> {
        if self.are_postponed_due && !self.postponed.is_empty() {
            return std::mem::take(&mut self.postponed);
        }
        let Some(inbox) = &mut self.inbox else { return std::future::pending().await };
        let Some(first) = inbox.next().await else {
            self.inbox = None;
            return std::future::pending().await;
        };
        let rest = std::iter::from_fn(|| inbox.take_waiting());
        let new = std::iter::once(first).chain(rest).take(MAX_MESSAGES).map(Into::into);
        self.postponed.drain(..).chain(new).collect()
    }
}

/// The lines about channels that the user has not seen.
pub(crate) struct SessionNotices {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    notices: ChannelNotices,
    lines: VecDeque<String>,
}

impl SessionNotices {
    pub(crate) fn new(host: &Host) -> SessionNotices {
        SessionNotices {
            snapshots: host.watch(),
            notices: ChannelNotices::default(),
            lines: VecDeque::new(),
        }
    }

    /// Waits for a line. Cancel-safe.
    pub(crate) async fn next(&mut self) -> String {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return line;
            }
            if self.snapshots.changed().await.is_err() {
                return std::future::pending().await;
            }
            let snapshot = self.snapshots.borrow_and_update().clone();
            self.lines.extend(self.notices.new_lines(&snapshot));
        }
    }
}

//! The channels of a session: their messages, and what the user has to know about them.

use std::collections::VecDeque;
use std::sync::Arc;

use switchboard::channel::ChannelInbox;
use switchboard::{Host, Snapshot};
use tokio::sync::watch;

use crate::channel::{ChannelNotices, PendingChannelMessage, take_for_turn};

/// The messages of channels; none where the session takes none or the host has stopped.
pub(crate) struct SessionInbox {
    inbox: Option<ChannelInbox>,
    /// Messages that were taken, and do not belong to a turn: those of a turn that was interrupted before the model saw
    /// them, and one for which a turn had no room.
    waiting: VecDeque<PendingChannelMessage>,
    /// Whether they come by themselves: an interrupt that messages follow at once would be none.
    are_waiting_due: bool,
}

impl SessionInbox {
    pub(crate) fn new(inbox: Option<ChannelInbox>) -> SessionInbox {
        SessionInbox { inbox, waiting: VecDeque::new(), are_waiting_due: true }
    }

    /// Keeps messages until the next turn has ended or another one comes.
    pub(crate) fn postpone(&mut self, messages: Vec<PendingChannelMessage>) {
        for message in messages.into_iter().rev() {
            self.waiting.push_front(message);
        }
        self.are_waiting_due = false;
    }

    pub(crate) fn end_turn(&mut self) {
        self.are_waiting_due = true;
    }

    /// Waits for messages, and takes those of one turn. Cancel-safe: nothing waits after the first message was taken.
    pub(crate) async fn next_messages(&mut self) -> Vec<PendingChannelMessage> {
        if self.waiting.is_empty() || !self.are_waiting_due {
            let Some(inbox) = &mut self.inbox else { return std::future::pending().await };
            match inbox.next().await {
                Some(first) => self.waiting.push_back(first.into()),
                None => {
                    self.inbox = None;
                    return std::future::pending().await;
                }
            }
        }
        self.are_waiting_due = true;
        take_for_turn(&mut self.waiting, self.inbox.as_mut())
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

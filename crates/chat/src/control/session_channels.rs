//! The channels of a session: their messages, and what the user has to know about them.

use std::collections::VecDeque;
use std::sync::Arc;

use switchboard::channel::ChannelInbox;
use switchboard::{Host, Snapshot};
use tokio::sync::watch;

use crate::channel::{ChannelNotices, ReceivedChannelMessage};

/// How many messages begin one turn.
const MAX_MESSAGES: usize = 32;

/// The messages of channels; none where the session takes none or the host has stopped.
pub(crate) struct SessionInbox(pub(crate) Option<ChannelInbox>);

impl SessionInbox {
    /// Waits for messages, and takes all that wait. Cancel-safe: nothing waits between the first message and the end.
    pub(crate) async fn next_messages(&mut self) -> Vec<ReceivedChannelMessage> {
        let Some(inbox) = &mut self.0 else { return std::future::pending().await };
        let Some(first) = inbox.next().await else {
            self.0 = None;
            return std::future::pending().await;
        };
        let rest = std::iter::from_fn(|| inbox.take_waiting());
        std::iter::once(first).chain(rest).take(MAX_MESSAGES).map(Into::into).collect()
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

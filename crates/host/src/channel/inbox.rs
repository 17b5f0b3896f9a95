//! The queue between the connections of channels and a conversation. It is bounded for all channels together and for each of
//! them, so that one that floods it does not displace the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How many messages of all channels may wait.
const MAX_WAITING: usize = 128;
/// How many messages of one channel may wait.
const MAX_WAITING_OF_ONE: usize = 32;

/// A message of a channel. Untrusted and not escaped.
#[derive(Debug)]
pub struct ChannelMessage {
    /// The server.
    pub server: String,
    /// The text.
    pub content: String,
    /// The attributes: names of ASCII letters, digits and `_`, and their values.
    pub meta: Vec<(String, String)>,
    /// Counts it as dropped if the conversation does not accept it.
    pub receipt: ChannelReceipt,
    /// Its place in the queue.
    _slot: OwnedSemaphorePermit,
}

/// Counts messages that were passed on to a conversation, and not accepted by it.
#[derive(Debug, Clone, Default)]
pub struct ChannelReceipt(Arc<AtomicU64>);

impl ChannelReceipt {
    /// The conversation did not accept the message: it has ended, or a hook refused it.
    pub fn not_accepted(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The messages of the channels of a session.
#[derive(Debug)]
pub struct ChannelInbox(mpsc::Receiver<ChannelMessage>);

impl ChannelInbox {
    /// Waits for the next message; `None` when the host has stopped. Cancel-safe.
    pub async fn next(&mut self) -> Option<ChannelMessage> {
        self.0.recv().await
    }

    /// The next message, if one waits.
    pub fn take_waiting(&mut self) -> Option<ChannelMessage> {
        self.0.try_recv().ok()
    }
}

impl Drop for ChannelInbox {
    fn drop(&mut self) {
        // The sender finds out that no conversation takes messages any more.
        self.0.close();
        while let Some(message) = self.take_waiting() {
            message.receipt.not_accepted();
        }
    }
}

/// The places of one channel in the queue.
#[derive(Debug, Clone)]
pub(super) struct ChannelSlots {
    places: Arc<Semaphore>,
    receipt: ChannelReceipt,
}

impl ChannelSlots {
    /// How many messages were passed on, and not accepted.
    pub(super) fn not_accepted(&self) -> u64 {
        self.receipt.count()
    }
}

impl Default for ChannelSlots {
    fn default() -> ChannelSlots {
        let places = Arc::new(Semaphore::new(MAX_WAITING_OF_ONE));
        ChannelSlots { places, receipt: ChannelReceipt::default() }
    }
}

/// The message does not fit into the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InboxFull;

/// The sending half of the queue.
#[derive(Debug)]
pub(super) struct InboxSender(mpsc::Sender<ChannelMessage>);

impl InboxSender {
    pub(super) fn send(
        &self,
        slots: &ChannelSlots,
        server: &str,
        (content, meta): (String, Vec<(String, String)>),
    ) -> Result<(), InboxFull> {
        let slot = slots.places.clone().try_acquire_owned().map_err(|_| InboxFull)?;
        let (server, receipt) = (server.to_owned(), slots.receipt.clone());
        let message = ChannelMessage { server, content, meta, receipt, _slot: slot };
        self.0.try_send(message).map_err(|_| InboxFull)
    }
}

/// Makes a queue.
pub(super) fn inbox() -> (InboxSender, ChannelInbox) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    (InboxSender(sender), ChannelInbox(receiver))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> (String, Vec<(String, String)>) {
        (text.to_owned(), Vec::new())
    }

    #[test]
    fn one_channel_cannot_displace_the_messages_of_another() {
        let (sender, mut inbox) = inbox();
        let (loud, quiet) = (ChannelSlots::default(), ChannelSlots::default());
        let sent = (0..1000).filter(|_| sender.send(&loud, "loud", text("x")).is_ok()).count();
        assert_eq!(sent, MAX_WAITING_OF_ONE);
        assert_eq!(sender.send(&quiet, "quiet", text("y")), Ok(()));
        // A message that was taken makes room for another one of the same channel.
        drop(inbox.take_waiting().expect("a message"));
        assert_eq!(sender.send(&loud, "loud", text("z")), Ok(()));
        assert_eq!(sender.send(&loud, "loud", text("z")), Err(InboxFull));
        let rest: Vec<ChannelMessage> = std::iter::from_fn(|| inbox.take_waiting()).collect();
        assert_eq!(rest.len(), MAX_WAITING_OF_ONE + 1);
        assert_eq!(rest.iter().filter(|it| it.server == "quiet").count(), 1);
    }

    #[test]
    fn messages_that_wait_when_the_conversation_ends_are_not_accepted() {
        let (sender, mut inbox) = inbox();
        let slots = ChannelSlots::default();
        for _ in 0..3 {
            sender.send(&slots, "s", text("x")).expect("there is room");
        }
        drop(inbox.take_waiting());
        assert_eq!(slots.not_accepted(), 0);
        drop(inbox);
        assert_eq!(slots.not_accepted(), 2);
        assert_eq!(sender.send(&slots, "s", text("x")), Err(InboxFull));
    }

    #[test]
    fn the_queue_of_all_channels_is_bounded() {
        let (sender, _inbox) = inbox();
        let sent: usize = (0..100)
            .map(|_| ChannelSlots::default())
            .map(|slots| (0..10).filter(|_| sender.send(&slots, "s", text("x")).is_ok()).count())
            .sum();
        assert_eq!(sent, MAX_WAITING);
    }
}

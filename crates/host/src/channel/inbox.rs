//! The queue between the connections of channels and a conversation. It is bounded for all channels together and for each of
//! them, so that one that floods it does not displace the others.

use std::sync::Arc;

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
    /// Its place in the queue.
    _slot: OwnedSemaphorePermit,
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

/// The places of one channel in the queue.
#[derive(Debug, Clone)]
pub(super) struct ChannelSlots(Arc<Semaphore>);

impl Default for ChannelSlots {
    fn default() -> ChannelSlots {
        ChannelSlots(Arc::new(Semaphore::new(MAX_WAITING_OF_ONE)))
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
        let slot = slots.0.clone().try_acquire_owned().map_err(|_| InboxFull)?;
        let server = server.to_owned();
        let message = ChannelMessage { server, content, meta, _slot: slot };
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
    fn the_queue_of_all_channels_is_bounded() {
        let (sender, _inbox) = inbox();
        let sent: usize = (0..100)
            .map(|_| ChannelSlots::default())
            .map(|slots| (0..10).filter(|_| sender.send(&slots, "s", text("x")).is_ok()).count())
            .sum();
        assert_eq!(sent, MAX_WAITING);
    }
}

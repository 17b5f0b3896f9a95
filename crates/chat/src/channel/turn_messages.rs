//! Chooses the messages of channels that one turn begins with: as many as fit, in the order in which they came. The others
//! stay in the inbox, whose bounds hold for them.

use std::collections::VecDeque;

use switchboard::channel::{ChannelInbox, ChannelMessage, ChannelReceipt};

use super::envelope::ReceivedChannelMessage;

/// How many messages begin one turn.
const MAX_MESSAGES: usize = 32;
/// How many bytes of their contents.
const MAX_BYTES: usize = 256 * 1024;

/// A message that the conversation has not accepted. Dropping it counts it as one that was dropped.
#[derive(Debug)]
pub struct PendingChannelMessage {
    message: ReceivedChannelMessage,
    receipt: Option<ChannelReceipt>,
}

impl PendingChannelMessage {
    /// The message.
    pub(crate) fn message(&self) -> &ReceivedChannelMessage {
        &self.message
    }

    /// Notes that it is part of the conversation.
    pub(crate) fn accept(mut self) {
        self.receipt = None;
    }
}

impl From<ChannelMessage> for PendingChannelMessage {
    fn from(message: ChannelMessage) -> PendingChannelMessage {
        let ChannelMessage { server, content, meta, receipt, .. } = message;
        let message = ReceivedChannelMessage { server, content, meta };
        PendingChannelMessage { message, receipt: Some(receipt) }
    }
}

impl Drop for PendingChannelMessage {
    fn drop(&mut self) {
        if let Some(receipt) = &self.receipt {
            receipt.not_accepted();
        }
    }
}

/// Takes the messages for a turn: those in `waiting`, then those of the inbox. At most one message of the inbox, the one that
/// has no room any more, is left in `waiting`.
pub(crate) fn take_for_turn(
    waiting: &mut VecDeque<PendingChannelMessage>,
    inbox: Option<&mut ChannelInbox>,
) -> Vec<PendingChannelMessage> {
    let mut inbox = inbox;
    let mut taken = Vec::new();
    let mut bytes = 0;
    while taken.len() < MAX_MESSAGES {
        let next = waiting
            .pop_front()
            .or_else(|| inbox.as_mut()?.take_waiting().map(PendingChannelMessage::from));
        let Some(next) = next else { break };
        bytes += next.message.content.len();
        // A single message always has room.
        if bytes > MAX_BYTES && !taken.is_empty() {
            waiting.push_front(next);
            break;
        }
        taken.push(next);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sizes: &[usize], expected: &[usize]) {
        let message = |size: &usize| PendingChannelMessage {
            message: ReceivedChannelMessage {
                server: "s".to_owned(),
                content: "x".repeat(*size),
                meta: Vec::new(),
            },
            receipt: None,
        };
        let mut waiting: VecDeque<PendingChannelMessage> = sizes.iter().map(message).collect();
        let mut turns = Vec::new();
        while !waiting.is_empty() {
            turns.push(take_for_turn(&mut waiting, None).len());
        }
        assert_eq!(turns, expected);
    }

    #[test]
    fn a_turn_has_room_for_a_number_of_messages_and_for_a_number_of_bytes() {
        check(&[], &[]);
        check(&[1; 40], &[32, 8]);
        check(&[60_000; 6], &[4, 2]);
        check(&[MAX_BYTES, 0, 1], &[2, 1]);
        check(&[MAX_BYTES + 1, MAX_BYTES + 1, 1], &[1, 1, 1]);
    }
}

//! Two transports in one process. Messages are passed on without serialization.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use crate::jsonrpc::message::Message;
use crate::transport::{CloseReason, OutgoingMessage, Transport, TransportEvent};

/// How many messages the channel holds before the sender queues more on its side.
const CHANNEL_CAPACITY: usize = 64;
/// The number of bytes that a message adds to [`Transport::queued_bytes`].
const MESSAGE_WEIGHT: usize = 1024;

/// One end of a pair. Dropping it closes both.
#[derive(Debug)]
pub struct InMemoryTransport {
    outgoing: mpsc::Sender<Message>,
    incoming: mpsc::Receiver<Message>,
    /// Messages that did not fit the channel. Bounded by the peer through [`Transport::queued_bytes`].
    overflow: VecDeque<Message>,
}

/// Creates a connected pair. Messages arrive at the other end in order and asynchronously, so the two ends can
/// answer each other to any depth.
pub fn pair() -> (InMemoryTransport, InMemoryTransport) {
    let (one, from_one) = mpsc::channel(CHANNEL_CAPACITY);
    let (other, from_other) = mpsc::channel(CHANNEL_CAPACITY);
    let end =
        |outgoing, incoming| InMemoryTransport { outgoing, incoming, overflow: VecDeque::new() };
    (end(one, from_other), end(other, from_one))
}

impl Transport for InMemoryTransport {
    fn push(&mut self, outgoing: OutgoingMessage) {
        let message = outgoing.message;
        if !self.overflow.is_empty() {
            self.overflow.push_back(message);
        } else if let Err(mpsc::error::TrySendError::Full(message)) =
            self.outgoing.try_send(message)
        {
            self.overflow.push_back(message);
        }
    }

    fn queued_bytes(&self) -> usize {
        self.overflow.len() * MESSAGE_WEIGHT
    }

    async fn shutdown(&mut self) {
        while let Some(message) = self.overflow.pop_front() {
            if self.outgoing.send(message).await.is_err() {
                return;
            }
        }
    }

    async fn next(&mut self) -> Result<TransportEvent, CloseReason> {
        loop {
            tokio::select! {
                message = self.incoming.recv() => {
                    return message.map(TransportEvent::Message).ok_or(CloseReason::Closed);
                }
                room = self.outgoing.reserve(), if !self.overflow.is_empty() => match room {
                    Ok(room) => {
                        if let Some(message) = self.overflow.pop_front() {
                            room.send(message);
                        }
                    }
                    Err(_) => return Err(CloseReason::Closed),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: usize) -> Message {
        Message::Notification { method: number.to_string().into(), params: None }
    }

    #[tokio::test]
    async fn messages_arrive_in_order_beyond_the_channel_capacity() {
        let (mut one, mut other) = pair();
        for number in 0..CHANNEL_CAPACITY * 3 {
            one.push(message(number).into());
        }
        assert_eq!(one.queued_bytes(), CHANNEL_CAPACITY * 2 * MESSAGE_WEIGHT);
        for number in 0..CHANNEL_CAPACITY * 3 {
            let arrived = tokio::select! {
                arrived = other.next() => arrived,
                end = one.next() => panic!("nothing comes back: {end:?}"),
            };
            assert_eq!(arrived, Ok(TransportEvent::Message(message(number))));
        }
        assert_eq!(one.queued_bytes(), 0);
    }

    #[tokio::test]
    async fn closing_one_end_closes_both_after_sent_messages() {
        let (mut one, mut other) = pair();
        one.push(message(1).into());
        drop(one);
        assert_eq!(other.next().await, Ok(TransportEvent::Message(message(1))));
        assert_eq!(other.next().await, Err(CloseReason::Closed));
        other.push(message(2).into());
        assert_eq!(other.next().await, Err(CloseReason::Closed));
    }
}

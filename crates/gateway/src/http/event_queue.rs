//! The events that wait for the client of a stream to read them. They are bounded in number and in bytes, and counted
//! for the account of the client until they are read or the stream has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::http::limits::accounts::Account;

/// The most events in a queue, besides those that were sent before its reader came.
const CAPACITY: usize = 256;
/// The number of bytes in a queue from which on it is full. One event may exceed it.
const MAX_QUEUE_BYTES: usize = 1024 * 1024;

/// An event that was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueError {
    /// The reader is too slow, or the account has too many events that are not read.
    Full,
    /// The reader is gone.
    Closed,
}

/// The end of a queue that events are sent to. The stream ends when it is dropped.
#[derive(Debug)]
pub(crate) struct EventSender {
    events: mpsc::Sender<Bytes>,
    unread: Arc<UnreadBytes>,
}

/// The end of a queue that events are read from.
#[derive(Debug)]
pub(crate) struct EventReader {
    events: mpsc::Receiver<Bytes>,
    unread: Arc<UnreadBytes>,
}

/// The bytes in a queue, counted for an account.
#[derive(Debug)]
struct UnreadBytes {
    account: Arc<Account>,
    queued: AtomicUsize,
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        self.account.release_unread(*self.queued.get_mut());
    }
}

/// A queue for a client of this account, with room for some more events than usual.
pub(crate) fn event_queue(account: &Arc<Account>, extra: usize) -> (EventSender, EventReader) {
    let (sender, receiver) = mpsc::channel(CAPACITY + extra);
    let unread = Arc::new(UnreadBytes { account: account.clone(), queued: AtomicUsize::new(0) });
    let reader = EventReader { events: receiver, unread: unread.clone() };
    (EventSender { events: sender, unread }, reader)
}

impl EventSender {
    /// Queues an event.
    pub(crate) fn try_send(&self, event: Bytes) -> Result<(), QueueError> {
        let size = event.len();
        if self.unread.queued.load(Ordering::Relaxed) >= MAX_QUEUE_BYTES {
            return Err(QueueError::Full);
        }
        if !self.unread.account.reserve_unread(size) {
            return Err(QueueError::Full);
        }
        // Counted first, because the reader may be faster than this task.
        self.unread.queued.fetch_add(size, Ordering::Relaxed);
        self.events.try_send(event).map_err(|error| {
            self.unread.release(size);
            match error {
                TrySendError::Full(_) => QueueError::Full,
                TrySendError::Closed(_) => QueueError::Closed,
            }
        })
    }
}

impl Stream for EventReader {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let next = self.events.poll_recv(task);
        if let Poll::Ready(Some(event)) = &next {
            self.unread.release(event.len());
        }
        next
    }
}

impl UnreadBytes {
    fn release(&self, size: usize) {
        self.queued.fetch_sub(size, Ordering::Relaxed);
        self.account.release_unread(size);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::http::limits::accounts::Accounts;
    use crate::http::limits::{Limits, Quota};

    fn event(size: usize) -> Bytes {
        vec![b'x'; size].into()
    }

    fn read(reader: &mut EventReader) -> Option<usize> {
        match Pin::new(reader).poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => event.map(|it| it.len()),
            Poll::Pending => Some(0),
        }
    }

    #[test]
    fn events_that_are_not_read_are_bounded_in_bytes() {
        let account = Accounts::new(Limits::default()).account("a");
        let (sender, mut reader) = event_queue(&account, 0);
        let large = MAX_QUEUE_BYTES * 3;
        assert_eq!(sender.try_send(event(large)), Ok(()), "an event may be of any size");
        assert_eq!(sender.try_send(event(1)), Err(QueueError::Full));
        assert_eq!(read(&mut reader), Some(large));
        assert_eq!(sender.try_send(event(1)), Ok(()));
        assert_eq!(read(&mut reader), Some(1));
        drop(sender);
        assert_eq!(read(&mut reader), None);
    }

    #[test]
    fn events_that_are_not_read_count_for_the_account_until_the_stream_has_ended() {
        let replay_bytes = Quota { per_principal: 100, total: 150 };
        let accounts = Accounts::new(Limits { replay_bytes, ..Limits::default() });
        let (ada, bob) = (accounts.account("ada"), accounts.account("bob"));
        let (first, first_reader) = event_queue(&ada, 0);
        let (second, _second_reader) = event_queue(&ada, 0);
        let (of_bob, _reader_of_bob) = event_queue(&bob, 0);
        assert_eq!(first.try_send(event(90)), Ok(()));
        assert_eq!(second.try_send(event(20)), Err(QueueError::Full));
        assert_eq!(of_bob.try_send(event(70)), Err(QueueError::Full), "over the total");
        // The queue of a connection that does not read stays as long as the connection.
        drop(first);
        assert_eq!(second.try_send(event(20)), Err(QueueError::Full));
        drop(first_reader);
        assert_eq!(second.try_send(event(20)), Ok(()));
        assert_eq!(of_bob.try_send(event(70)), Ok(()));
    }
}

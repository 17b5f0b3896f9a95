//! The event streams of a session, with the events that were sent lately, so that a client can resume a stream that was
//! interrupted. Does no I/O: readers are channels.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use switchboard_wire::jsonrpc::message::Message;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::http::response::{sse_event, sse_first_event, sse_keepalive};

/// The capacity of a reader's queue. A slower reader loses its stream and may resume it.
const READER_CAPACITY: usize = 256;
/// The most bytes that a session keeps for replay.
const MAX_REPLAY_BYTES: usize = 4 * 1024 * 1024;
/// The most events that a stream keeps for replay.
const MAX_REPLAY_EVENTS: usize = 1000;
/// The most closed streams that a session keeps for replay.
const MAX_CLOSED_STREAMS: usize = 32;
/// The number of the stream for messages outside of requests.
pub(super) const GET_STREAM: u64 = 0;

/// The streams of a session, by number.
#[derive(Debug, Default)]
pub(super) struct EventStreams {
    streams: BTreeMap<u64, ResumableStream>,
    last_stream: u64,
}

#[derive(Debug, Default)]
struct ResumableStream {
    next_event: u64,
    /// The latest events and their numbers.
    replay: VecDeque<(u64, Bytes)>,
    replay_bytes: usize,
    reader: Option<mpsc::Sender<Bytes>>,
    /// The first event that no reader has received.
    first_unread: u64,
    is_closed: bool,
}

impl EventStreams {
    /// Opens a stream for a request.
    pub(super) fn open(&mut self) -> (u64, mpsc::Receiver<Bytes>) {
        self.last_stream += 1;
        let number = self.last_stream;
        let closed: Vec<u64> =
            self.streams.iter().filter(|it| it.1.is_closed).map(|it| *it.0).collect();
        for number in closed.iter().take(closed.len().saturating_sub(MAX_CLOSED_STREAMS)) {
            self.streams.remove(number);
        }
        (number, self.attach_reader(number, None))
    }

    /// Opens the stream for messages outside of requests. A previous reader loses it.
    pub(super) fn open_get_stream(&mut self) -> mpsc::Receiver<Bytes> {
        self.attach_reader(GET_STREAM, None)
    }

    /// Ends the stream for messages outside of requests.
    pub(super) fn remove_get_stream(&mut self) {
        self.streams.remove(&GET_STREAM);
    }

    /// Resumes a stream after an event. None if the stream or the event is unknown.
    pub(super) fn resume(&mut self, last_event_id: &str) -> Option<mpsc::Receiver<Bytes>> {
        let (number, after) = last_event_id.split_once('-')?;
        let (number, after) = (number.parse().ok()?, after.parse().ok()?);
        let stream = self.streams.get(&number)?;
        (after < stream.next_event).then(|| self.attach_reader(number, Some(after)))
    }

    /// Attaches a reader to a stream. A new reader first gets an event id to resume from.
    fn attach_reader(&mut self, number: u64, after: Option<u64>) -> mpsc::Receiver<Bytes> {
        let stream = self.streams.entry(number).or_default();
        let missed_events =
            after.map_or(0, |after| stream.replay.iter().filter(|it| it.0 > after).count());
        // The missed events must fit besides the next ones, or the stream would have a gap.
        let (sender, reader) = mpsc::channel(READER_CAPACITY + missed_events);
        match after {
            None => {
                let id = event_id(number, stream.next_event);
                stream.next_event += 1;
                let _there_is_room = sender.try_send(sse_first_event(&id));
                let unread = stream.first_unread;
                for (_, bytes) in stream.replay.iter().filter(|it| it.0 >= unread) {
                    let _as_much_as_fits = sender.try_send(bytes.clone());
                }
                stream.first_unread = stream.next_event;
            }
            Some(after) => {
                for (_, bytes) in stream.replay.iter().filter(|it| it.0 > after) {
                    let _there_is_room = sender.try_send(bytes.clone());
                }
            }
        }
        stream.reader = (!stream.is_closed).then_some(sender);
        reader
    }

    /// Sends a message on a stream and keeps it for replay. The stream outside of requests is created if necessary.
    pub(super) fn send(&mut self, number: u64, message: &Message) {
        let stream = match number {
            GET_STREAM => self.streams.entry(number).or_default(),
            _ => match self.streams.get_mut(&number) {
                Some(stream) => stream,
                None => return,
            },
        };
        let event = stream.next_event;
        stream.next_event += 1;
        let bytes = sse_event(Some(&event_id(number, event)), message);
        if let Some(reader) = &stream.reader {
            match reader.try_send(bytes.clone()) {
                Ok(()) => stream.first_unread = stream.next_event,
                Err(_) => stream.reader = None,
            }
        }
        stream.replay_bytes += bytes.len();
        stream.replay.push_back((event, bytes));
        while stream.replay.len() > MAX_REPLAY_EVENTS {
            stream.drop_oldest();
        }
        self.trim_replay();
    }

    /// Drops events beyond the limit: first those of closed streams, then the oldest of the largest stream.
    fn trim_replay(&mut self) {
        let mut total: usize = self.streams.values().map(|it| it.replay_bytes).sum();
        while total > MAX_REPLAY_BYTES {
            let closed = self
                .streams
                .iter()
                .find(|it| it.1.is_closed && it.1.replay_bytes > 0)
                .map(|it| *it.0);
            let largest = self.streams.iter().max_by_key(|it| it.1.replay_bytes).map(|it| *it.0);
            let Some(number) = closed.or(largest) else { return };
            let Some(stream) = self.streams.get_mut(&number) else { return };
            let before = stream.replay_bytes;
            stream.drop_oldest();
            total -= before - stream.replay_bytes;
            if before == stream.replay_bytes {
                return;
            }
        }
    }

    /// Closes a stream. Its events stay for replay.
    pub(super) fn close(&mut self, number: u64) {
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.reader = None;
            stream.is_closed = true;
        }
    }

    /// Sends a keepalive to all readers. Returns whether there are any.
    pub(super) fn send_keepalives(&mut self) -> bool {
        let mut has_readers = false;
        for stream in self.streams.values_mut() {
            if let Some(reader) = &stream.reader {
                match reader.try_send(sse_keepalive()) {
                    Ok(()) | Err(TrySendError::Full(_)) => has_readers = true,
                    Err(TrySendError::Closed(_)) => stream.reader = None,
                }
            }
        }
        has_readers
    }
}

impl ResumableStream {
    fn drop_oldest(&mut self) {
        if let Some((_, bytes)) = self.replay.pop_front() {
            self.replay_bytes -= bytes.len();
        }
    }
}

fn event_id(stream: u64, event: u64) -> String {
    format!("{stream}-{event}")
}

#[cfg(test)]
mod tests {
    use switchboard_wire::jsonrpc::message::Payload;

    use super::*;

    fn message(text: &str) -> Message {
        let params = Some(Payload::from_json(format!("\"{text}\"").into()));
        Message::Notification { method: "n".to_owned().into(), params }
    }

    /// The ids of the events that a reader has, and the end of the stream as `-`.
    fn ids(reader: &mut mpsc::Receiver<Bytes>) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            match reader.try_recv() {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let id = text.lines().find_map(|it| it.strip_prefix("id: "));
                    ids.push(id.unwrap_or_default().to_owned());
                }
                Err(mpsc::error::TryRecvError::Empty) => return ids,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    ids.push("-".to_owned());
                    return ids;
                }
            }
        }
    }

    #[test]
    fn a_closed_stream_is_replayed_after_the_event_that_the_client_names() {
        let mut streams = EventStreams::default();
        let (number, mut reader) = streams.open();
        streams.send(number, &message("a"));
        streams.send(number, &message("b"));
        streams.close(number);
        assert_eq!(ids(&mut reader), ["1-0", "1-1", "1-2", "-"]);
        let mut resumed = streams.resume("1-1").expect("a known event");
        assert_eq!(ids(&mut resumed), ["1-2", "-"]);
        for unknown in ["1-9", "2-0", "x-1", "1"] {
            assert!(streams.resume(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn messages_outside_of_requests_wait_for_the_first_reader() {
        let mut streams = EventStreams::default();
        streams.send(GET_STREAM, &message("a"));
        assert!(!streams.send_keepalives());
        let mut reader = streams.open_get_stream();
        assert_eq!(ids(&mut reader), ["0-1", "0-0"]);
        assert!(streams.send_keepalives());
        let mut next = streams.open_get_stream();
        assert_eq!(ids(&mut reader), ["", "-"]);
        assert_eq!(ids(&mut next), ["0-2"]);
    }

    #[test]
    fn replay_is_bounded_and_closed_streams_are_trimmed_first() {
        let mut streams = EventStreams::default();
        let (closed, _reader) = streams.open();
        streams.send(closed, &message("a"));
        streams.close(closed);
        let (open, _reader) = streams.open();
        let large = message(&"x".repeat(MAX_REPLAY_BYTES / 2));
        streams.send(open, &large);
        streams.send(open, &large);
        let kept = |number: u64| streams.streams[&number].replay.len();
        assert_eq!((kept(closed), kept(open)), (0, 1));
    }
}

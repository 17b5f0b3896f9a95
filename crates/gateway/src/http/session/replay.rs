//! The event streams of a session, with the events that were sent lately, so that a client can resume a stream that was
//! interrupted. Does no I/O: readers are queues. A reader that is too slow loses its stream and may resume it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use switchboard_wire::jsonrpc::message::Message;
use switchboard_wire::protocol::request_meta;

use crate::http::event_queue::{EventReader, EventSender, QueueError, event_queue};
use crate::http::limits::accounts::ReplayBudget;
use crate::http::response::{sse_event, sse_first_event, sse_keepalive};
use crate::shared::session_log::SentEvent;
use crate::telemetry::limit_kind::LimitKind;

/// The most bytes that a session keeps for replay.
const MAX_REPLAY_BYTES: usize = 4 * 1024 * 1024;
/// The most events that a stream keeps for replay.
const MAX_REPLAY_EVENTS: usize = 1000;
/// The most closed streams that a session keeps for replay.
const MAX_CLOSED_STREAMS: usize = 32;
/// The largest number of an event that a client may name of a stream that another replica has begun.
const MAX_EVENT_NUMBER: u64 = 1 << 40;
/// The number of the stream for messages outside of requests.
pub(super) const GET_STREAM: u64 = 0;

/// Does a stream begin with an event that has an id and no message?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrimingEvent {
    Sent,
    Omitted,
}

impl PrimingEvent {
    /// What clients of a protocol version expect.
    pub(super) fn of_version(version: &str) -> PrimingEvent {
        match request_meta::supports_priming_event(version) {
            true => PrimingEvent::Sent,
            false => PrimingEvent::Omitted,
        }
    }
}

/// The streams of a session, by number.
#[derive(Debug)]
pub(super) struct EventStreams {
    priming_event: PrimingEvent,
    streams: BTreeMap<u64, ResumableStream>,
    last_stream: u64,
    budget: ReplayBudget,
    /// Events before this position of the budget were dropped.
    dropped_before: u64,
    /// The limit that an event has exceeded lately.
    exceeded: Option<LimitKind>,
    /// Another replica has begun some of the streams.
    is_restored: bool,
}

#[derive(Debug, Default)]
struct ResumableStream {
    next_event: u64,
    /// The latest events.
    replay: VecDeque<BufferedEvent>,
    replay_bytes: usize,
    reader: Option<EventSender>,
    /// The first event that no reader has received.
    first_unread: u64,
    is_closed: bool,
}

/// An event that is kept for replay.
#[derive(Debug)]
struct BufferedEvent {
    number: u64,
    /// Its position among all events of the principal.
    position: u64,
    bytes: Bytes,
}

impl EventStreams {
    pub(super) fn new(priming_event: PrimingEvent, budget: ReplayBudget) -> EventStreams {
        EventStreams {
            priming_event,
            streams: BTreeMap::new(),
            last_stream: 0,
            budget,
            dropped_before: 0,
            exceeded: None,
            is_restored: false,
        }
    }

    /// Opens a stream for a request.
    pub(super) fn open(&mut self) -> (u64, EventReader) {
        self.last_stream += 1;
        let number = self.last_stream;
        let closed: Vec<u64> =
            self.streams.iter().filter(|it| it.1.is_closed).map(|it| *it.0).collect();
        for number in closed.iter().take(closed.len().saturating_sub(MAX_CLOSED_STREAMS)) {
            self.remove(*number);
        }
        (number, self.attach_reader(number, None))
    }

    /// Opens the stream for messages outside of requests. A previous reader loses it.
    pub(super) fn open_get_stream(&mut self) -> EventReader {
        self.attach_reader(GET_STREAM, None)
    }

    /// Ends the stream for messages outside of requests.
    pub(super) fn remove_get_stream(&mut self) {
        self.remove(GET_STREAM);
    }

    fn remove(&mut self, number: u64) {
        if let Some(stream) = self.streams.remove(&number) {
            self.budget.release(stream.replay_bytes);
        }
    }

    /// Drops the events that exceed the limit of the principal.
    pub(super) fn drop_over_budget(&mut self) {
        let start = self.budget.start();
        if start == self.dropped_before {
            return;
        }
        self.dropped_before = start;
        for stream in self.streams.values_mut() {
            while stream.replay.front().is_some_and(|it| it.position < start) {
                self.budget.release(stream.drop_oldest());
            }
        }
    }

    /// The limit that an event has exceeded since the last call.
    pub(super) fn take_exceeded(&mut self) -> Option<LimitKind> {
        self.exceeded.take()
    }

    /// Resumes a stream after an event. None if the stream or the event is unknown.
    pub(super) fn resume(&mut self, last_event_id: &str) -> Option<EventReader> {
        let (number, after) = last_event_id.split_once('-')?;
        let (number, after) = (number.parse().ok()?, after.parse().ok()?);
        let stream = self.streams.get_mut(&number)?;
        if self.is_restored && !stream.is_closed && after < MAX_EVENT_NUMBER {
            stream.next_event = stream.next_event.max(after + 1);
        }
        (after < stream.next_event).then(|| self.attach_reader(number, Some(after)))
    }

    /// Attaches a reader to a stream. A new reader first gets an event id to resume from, where its version has that.
    fn attach_reader(&mut self, number: u64, after: Option<u64>) -> EventReader {
        let stream = self.streams.entry(number).or_default();
        let first_missed = after.map_or(stream.first_unread, |after| after + 1);
        let is_missed = |it: &&BufferedEvent| it.number >= first_missed;
        let missed_count = stream.replay.iter().filter(is_missed).count();
        // The missed events need room besides the next ones.
        let (sender, reader) = event_queue(self.budget.account(), missed_count);
        if after.is_none() && self.priming_event == PrimingEvent::Sent {
            let id = event_id(number, stream.next_event);
            stream.next_event += 1;
            let _stream_ends_below = sender.try_send(sse_first_event(&id));
        }
        let mut first_unqueued = None;
        for event in stream.replay.iter().filter(is_missed) {
            if sender.try_send(event.bytes.clone()).is_err() {
                first_unqueued = Some(event.number);
                break;
            }
        }
        if after.is_none() {
            stream.first_unread = first_unqueued.unwrap_or(stream.next_event);
        }
        // A stream without a gap: where not all fits, it ends, and the client resumes it after the last event.
        let stays_open = first_unqueued.is_none() && !stream.is_closed;
        stream.reader = stays_open.then_some(sender);
        reader
    }

    /// Sends a message on a stream and keeps it for replay. The stream outside of requests is created if necessary.
    pub(super) fn send(&mut self, number: u64, message: &Message) {
        if let Some(event) = self.encode(number, message) {
            self.deliver(event);
        }
    }

    /// Makes a message the next event of a stream. [`EventStreams::deliver`] must follow.
    pub(super) fn encode(&mut self, number: u64, message: &Message) -> Option<SentEvent> {
        let stream = match number {
            GET_STREAM => self.streams.entry(number).or_default(),
            _ => self.streams.get_mut(&number)?,
        };
        let event = stream.next_event;
        stream.next_event += 1;
        let bytes = sse_event(Some(&event_id(number, event)), message);
        Some(SentEvent { stream: number, number: event, bytes })
    }

    /// Sends an event and keeps it for replay.
    pub(super) fn deliver(&mut self, event: SentEvent) {
        let SentEvent { stream: number, number: event, bytes } = event;
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if let Some(reader) = &stream.reader {
            match reader.try_send(bytes.clone()) {
                Ok(()) => stream.first_unread = event + 1,
                Err(_) => stream.reader = None,
            }
        }
        stream.replay_bytes += bytes.len();
        let (position, exceeded) = self.budget.keep(bytes.len());
        self.exceeded = exceeded.or(self.exceeded);
        stream.replay.push_back(BufferedEvent { number: event, position, bytes });
        while stream.replay.len() > MAX_REPLAY_EVENTS {
            self.budget.release(stream.drop_oldest());
        }
        self.drop_over_budget();
        self.trim_replay();
    }

    /// The number of the newest stream of a request.
    pub(super) fn last_stream(&self) -> u64 {
        self.last_stream
    }

    /// All events that are kept.
    pub(super) fn kept_events(&self) -> Vec<SentEvent> {
        let of_stream = |(stream, it): (&u64, &ResumableStream)| {
            let stream = *stream;
            let event = move |it: &BufferedEvent| SentEvent {
                stream,
                number: it.number,
                bytes: it.bytes.clone(),
            };
            it.replay.iter().map(event).collect::<Vec<_>>()
        };
        self.streams.iter().flat_map(of_stream).collect()
    }

    /// Goes on with the streams of another replica. `open` are the streams that have not ended. The other replica may have
    /// sent more than it has kept, so that every position in them can be resumed from.
    pub(super) fn restore(&mut self, last_stream: u64, events: Vec<SentEvent>, open: &[u64]) {
        self.is_restored = true;
        self.last_stream = last_stream;
        for number in open {
            self.streams.entry(*number).or_default();
        }
        for event in events {
            self.last_stream = self.last_stream.max(event.stream);
            let stream = self.streams.entry(event.stream).or_default();
            stream.next_event = event.number + 1;
            self.deliver(event);
        }
        for (number, stream) in &mut self.streams {
            stream.is_closed = *number != GET_STREAM && !open.contains(number);
        }
    }

    /// The client has read the stream outside of requests before: it resumes after the last event that it knows.
    pub(super) fn set_get_stream_read(&mut self) {
        let stream = self.streams.entry(GET_STREAM).or_default();
        stream.first_unread = stream.next_event;
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
            let dropped = stream.drop_oldest();
            self.budget.release(dropped);
            total -= dropped;
            if dropped == 0 {
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
                    Ok(()) | Err(QueueError::Full) => has_readers = true,
                    Err(QueueError::Closed) => stream.reader = None,
                }
            }
        }
        has_readers
    }
}

impl ResumableStream {
    /// Drops the oldest event, and returns its size.
    fn drop_oldest(&mut self) -> usize {
        let size = self.replay.pop_front().map_or(0, |it| it.bytes.len());
        self.replay_bytes -= size;
        size
    }
}

/// Another message in place of an event.
pub(super) fn encode_as(event: &SentEvent, message: &Message) -> SentEvent {
    let bytes = sse_event(Some(&event_id(event.stream, event.number)), message);
    SentEvent { stream: event.stream, number: event.number, bytes }
}

fn event_id(stream: u64, event: u64) -> String {
    format!("{stream}-{event}")
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use futures_util::Stream;

    use switchboard_wire::jsonrpc::message::Payload;

    use super::*;
    use crate::http::limits::Limits;
    use crate::http::limits::accounts::Accounts;

    fn event_streams() -> EventStreams {
        let accounts = Accounts::new(Limits::default());
        let account = accounts.account("a");
        EventStreams::new(PrimingEvent::Sent, ReplayBudget::new(accounts, account))
    }

    fn message(text: &str) -> Message {
        let params = Some(Payload::from_json(format!("\"{text}\"").into()));
        Message::Notification { method: "n".to_owned().into(), params }
    }

    /// The ids of the events that a reader has, and the end of the stream as `-`.
    fn ids(reader: &mut EventReader) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            match Pin::new(&mut *reader).poll_next(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(bytes)) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let id = text.lines().find_map(|it| it.strip_prefix("id: "));
                    ids.push(id.unwrap_or_default().to_owned());
                }
                Poll::Pending => return ids,
                Poll::Ready(None) => {
                    ids.push("-".to_owned());
                    return ids;
                }
            }
        }
    }

    #[test]
    fn a_closed_stream_is_replayed_after_the_event_that_the_client_names() {
        let mut streams = event_streams();
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
        let mut streams = event_streams();
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
        let mut streams = event_streams();
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

    #[test]
    fn a_reader_that_does_not_read_loses_its_stream_after_a_number_of_bytes_and_resumes_without_a_gap()
     {
        let mut streams = event_streams();
        let (number, mut reader) = streams.open();
        let large = message(&"x".repeat(600_000));
        for _ in 0..5 {
            streams.send(number, &large);
        }
        assert_eq!(ids(&mut reader), ["1-0", "1-1", "1-2", "-"]);
        let mut resumed = streams.resume("1-2").expect("a known event");
        assert_eq!(ids(&mut resumed), ["1-3", "1-4", "-"], "no more than fits");
        let mut resumed = streams.resume("1-4").expect("a known event");
        streams.send(number, &message("next"));
        assert_eq!(ids(&mut resumed), ["1-5", "1-6"]);
    }
}

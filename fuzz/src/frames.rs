//! Newline-delimited messages: parsed by `wire::jsonrpc::message`, split by `wire::transport::stdio`.

use std::collections::VecDeque;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::{Message, Messages, Payload, RequestId};
use switchboard_wire::transport::stdio::StdioTransport;
use switchboard_wire::transport::{CloseReason, MalformedInput, Transport, TransportEvent};
use tokio::io::{AsyncRead, ReadBuf, Sink};

use crate::chunking::Chunking;

/// More than the prefix of an oversized message in which its id is searched.
const LIMIT: usize = 4200;

/// - The messages do not depend on how the stream is split, nor on whether a read was pending.
/// - A line gives the same message as [`message::parse`] alone.
/// - A written message is one line, parses to the same message, and is equal to its JSON.
pub fn check(bytes: &[u8]) {
    let [whole, others @ ..] = Chunking::ALL.map(|chunking| read_all(chunking.apply(bytes)));
    for other in others {
        assert_eq!(other, whole, "what arrives depends on how the stream is cut");
    }
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    if let Some(short) = lines.map(parse_line).collect::<Option<Vec<_>>>() {
        let expected: Vec<TransportEvent> = short.into_iter().flatten().collect();
        assert_eq!(whole.0, expected, "a line is not what it is by itself");
    }
    for arrival in &whole.0 {
        match arrival {
            TransportEvent::Message(message) => round_trips(message),
            TransportEvent::RelatedMessage { .. } => panic!("nothing was asked"),
            TransportEvent::DeliveryFailed { id, .. } => {
                assert!(id.is_some(), "an oversized message is reported without its id")
            }
            TransportEvent::Malformed(_) => {}
        }
    }
    let json = serde_json::from_slice::<Json>(bytes).ok();
    match message::parse(&Bytes::copy_from_slice(bytes)) {
        Ok(Messages::One(message)) => {
            round_trips(&message);
            json.iter().for_each(|json| agrees_with_json(json, &message));
        }
        Ok(Messages::Batch(parts)) => {
            let elements = json.as_ref().and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
            for (index, message) in parts.iter().enumerate() {
                let Ok(message) = message else { continue };
                round_trips(message);
                elements.get(index).iter().for_each(|json| agrees_with_json(json, message));
            }
        }
        Err(_) => {}
    }
}

/// The message of one line; None where the line is not a complete message that is accepted.
fn parse_line(line: &[u8]) -> Option<Vec<TransportEvent>> {
    let whole = line.strip_suffix(b"\n");
    if whole.unwrap_or(line).len() > LIMIT {
        return None;
    }
    let Some(line) = whole.filter(|line| !line.trim_ascii().is_empty()) else {
        return Some(Vec::new());
    };
    let one = |part| match part {
        Ok(message) => TransportEvent::Message(message),
        Err(error) => TransportEvent::Malformed(MalformedInput::from(error)),
    };
    Some(match message::parse(&Bytes::copy_from_slice(line)) {
        Ok(Messages::One(message)) => vec![TransportEvent::Message(message)],
        Ok(Messages::Batch(parts)) => parts.into_iter().map(one).collect(),
        Err(error) => vec![TransportEvent::Malformed(MalformedInput::new(error, line))],
    })
}

fn round_trips(message: &Message) {
    let mut line = Vec::new();
    message.write_to(&mut line);
    let line = Bytes::from(line);
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'), "a message is more than one line");
    let read = match message::parse(&line) {
        Ok(Messages::One(read)) => read,
        other => panic!("what was written reads as {other:?}"),
    };
    assert_eq!(
        without_line_breaks(read),
        without_line_breaks(message.clone()),
        "it reads as something else"
    );
}

/// Line breaks between the tokens of a payload have no meaning.
fn without_line_breaks(message: Message) -> Message {
    let blank = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    let bytes = |bytes: &Bytes| bytes.iter().map(blank).collect::<Bytes>();
    let payload = |payload: Payload| Payload::from_json(bytes(payload.as_bytes()));
    let number = |id: RequestId| match id {
        RequestId::Number(number) => RequestId::Number(number),
        RequestId::Other(raw) => RequestId::Other(bytes(&raw)),
    };
    match message {
        Message::Request { id, method, params } => {
            Message::Request { id: number(id), method, params: params.map(payload) }
        }
        Message::Notification { method, params } => {
            Message::Notification { method, params: params.map(payload) }
        }
        Message::Response { id, outcome } => Message::Response {
            id: id.map(number),
            outcome: outcome.map(payload).map_err(|mut error| {
                error.data = error.data.map(payload);
                error
            }),
        },
    }
}

/// Compares with a full JSON parser.
fn agrees_with_json(json: &Json, message: &Message) {
    assert!(json.is_object(), "{json} is taken for a message");
    let params_in = json.get("params").filter(|it| !it.is_null()).cloned();
    let value = |payload: &Payload| payload.decode::<Json>().ok();
    match message {
        Message::Request { id, method, params } => {
            assert_eq!(json["method"], **method);
            assert_eq!(json["id"], id.to_json());
            assert_eq!(params_in, params.as_ref().and_then(value));
        }
        Message::Notification { method, params } => {
            assert_eq!(json["method"], **method);
            assert!(json["id"].is_null());
            assert_eq!(params_in, params.as_ref().and_then(value));
        }
        Message::Response { id, outcome } => {
            assert!(json["method"].is_null());
            assert_eq!(json["id"], id.as_ref().map(RequestId::to_json).unwrap_or_default());
            assert_eq!(json["error"].is_null(), outcome.is_ok());
            if let Ok(result) = outcome {
                assert_eq!(Some(json["result"].clone()), value(result));
            }
        }
    }
}

fn read_all(pieces: Vec<Bytes>) -> (Vec<TransportEvent>, CloseReason) {
    let reader = ChunkReader { pieces: pieces.into(), was_pending: false };
    let mut link = StdioTransport::<ChunkReader, Sink>::new(reader, tokio::io::sink(), LIMIT);
    let mut arrivals = Vec::new();
    loop {
        match poll_until_ready(&mut link) {
            Ok(arrival) => arrivals.push(arrival),
            Err(end) => return (arrivals, end),
        }
    }
}

/// Polls with a new future each time until there is a message, as a peer does that waits for several things.
fn poll_until_ready(link: &mut impl Transport) -> Result<TransportEvent, CloseReason> {
    loop {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(next) = pin!(link.next()).poll(&mut context) {
            return next;
        }
    }
}

/// A reader that returns `Pending` before every chunk.
struct ChunkReader {
    pieces: VecDeque<Bytes>,
    was_pending: bool,
}

impl AsyncRead for ChunkReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.was_pending = !self.was_pending;
        if self.was_pending {
            return Poll::Pending;
        }
        // A read of zero bytes is the end, so empty chunks are skipped.
        while let Some(mut piece) = self.pieces.pop_front() {
            if piece.is_empty() {
                continue;
            }
            buffer.put_slice(&piece.split_to(piece.len().min(buffer.remaining())));
            if !piece.is_empty() {
                self.pieces.push_front(piece);
            }
            break;
        }
        Poll::Ready(Ok(()))
    }
}

//! Messages between bytes and memory: parsed, written, cut out of lines and out of events.

use std::hint::black_box;
use std::io::Cursor;

use bytes::Bytes;
use switchboard_wire::http::sse_decoder::SseDecoder;
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId};
use switchboard_wire::transport::stdio::{DEFAULT_MAX_MESSAGE_SIZE, StdioTransport};
use switchboard_wire::transport::{Transport, TransportEvent};

use super::runtime;
use crate::failure::Failure;

const SMALL: usize = 100;
const LARGE: usize = 10_000;

pub fn read_small(times: usize) -> Result<(), Failure> {
    read(SMALL, times)
}

pub fn read_large(times: usize) -> Result<(), Failure> {
    read(LARGE, times)
}

pub fn write_small(times: usize) -> Result<(), Failure> {
    write(SMALL, times)
}

pub fn write_large(times: usize) -> Result<(), Failure> {
    write(LARGE, times)
}

pub fn lines_small(times: usize) -> Result<(), Failure> {
    lines(SMALL, times)
}

pub fn lines_large(times: usize) -> Result<(), Failure> {
    lines(LARGE, times)
}

pub fn events_small(times: usize) -> Result<(), Failure> {
    events(SMALL, times)
}

pub fn events_large(times: usize) -> Result<(), Failure> {
    events(LARGE, times)
}

/// A result with a text of about this size. Some of it is escaped, as texts are.
fn result(size: usize) -> String {
    let text = "one line of a file, as \\\"text\\\"\\n".repeat(size / 32);
    format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}")
}

fn answer(size: usize) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1234,\"result\":{}}}", result(size))
}

fn read(size: usize, times: usize) -> Result<(), Failure> {
    let bytes = Bytes::from(answer(size));
    for _ in 0..times {
        let read = message::parse(black_box(&bytes));
        black_box(read).map_err(|error| Failure::client("the parser", error))?;
    }
    Ok(())
}

fn write(size: usize, times: usize) -> Result<(), Failure> {
    let outcome = Ok(Payload::from_json(Bytes::from(result(size))));
    let message = Message::Response { id: Some(RequestId::Number(1234)), outcome };
    let mut buffer = Vec::with_capacity(2 * LARGE);
    for _ in 0..times {
        buffer.clear();
        black_box(&message).write_to(&mut buffer);
        black_box(&buffer);
    }
    Ok(())
}

fn lines(size: usize, times: usize) -> Result<(), Failure> {
    let stream = format!("{}\n", answer(size)).repeat(times);
    let mut link = StdioTransport::new(
        Cursor::new(stream.into_bytes()),
        tokio::io::sink(),
        DEFAULT_MAX_MESSAGE_SIZE,
    );
    runtime()?.block_on(async {
        for _ in 0..times {
            match link.next().await {
                Ok(TransportEvent::Message(message)) => drop(black_box(message)),
                other => return Err(Failure::client("the reader", format!("{other:?}"))),
            }
        }
        Ok(())
    })
}

fn events(size: usize, times: usize) -> Result<(), Failure> {
    let piece = Bytes::from(format!("event: message\nid: 7-1234\ndata: {}\n\n", answer(size)));
    let mut decoder = SseDecoder::new(DEFAULT_MAX_MESSAGE_SIZE);
    for _ in 0..times {
        decoder.feed(black_box(&piece).clone());
        match decoder.next() {
            Some(Ok(event)) => drop(black_box(event)),
            other => return Err(Failure::client("the decoder", format!("{other:?}"))),
        }
    }
    Ok(())
}

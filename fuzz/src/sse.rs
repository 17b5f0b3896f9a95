//! Server-sent events, decoded by `wire::http::sse_decoder`.

use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::http::sse_decoder::{EventTooLarge, SseDecoder, SseEvent};

use crate::chunking::Chunking;

/// The longest id that is kept.
const LONGEST_ID: usize = 4 * 1024;
const LARGE_LIMIT: usize = 1 << 20;
const SMALL_LIMIT: usize = 40;

/// Everything that can be known of a stream.
#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    events: Vec<Result<SseEvent, EventTooLarge>>,
    last_id: Option<Vec<u8>>,
    retry: Option<Duration>,
}

/// - What is read does not depend on how the stream is cut, be there room or not.
/// - It is what a plain reading of the standard gives, where there is room.
/// - No event holds more than there is room for, and nothing follows one that did.
/// - An id can go back to the server in a header.
pub fn check(bytes: &[u8]) {
    for limit in [LARGE_LIMIT, SMALL_LIMIT] {
        let [whole, others @ ..] = Chunking::ALL.map(|chunking| decode(chunking, bytes, limit));
        for other in others {
            assert_eq!(other, whole, "what is read depends on how the stream is cut");
        }
        for (index, event) in whole.events.iter().enumerate() {
            match event {
                Ok(event) => assert!(event.data.len() <= limit, "an event is too large"),
                Err(EventTooLarge) => {
                    assert_eq!(index + 1, whole.events.len(), "something follows")
                }
            }
        }
        let id = whole.last_id.as_deref().unwrap_or_default();
        assert!(id.len() <= LONGEST_ID && !id.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r')));
        if limit == LARGE_LIMIT {
            assert_eq!(whole, decode_by_specification(bytes), "the standard reads it otherwise");
        }
    }
}

fn decode(chunking: Chunking, bytes: &[u8], limit: usize) -> Decoded {
    let mut decoder = SseDecoder::new(limit);
    let mut events = Vec::new();
    for piece in chunking.apply(bytes) {
        decoder.feed(piece);
        while let Some(event) = decoder.next() {
            events.push(event);
        }
    }
    let last_id = decoder.last_id().map(<[u8]>::to_vec);
    Decoded { events, last_id, retry: decoder.retry() }
}

/// Section 9.2.6 of the HTML standard, word by word, without regard to speed or size.
fn decode_by_specification(bytes: &[u8]) -> Decoded {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let (mut name, mut id) = (Vec::new(), Vec::new());
    let mut data: Option<Vec<u8>> = None;
    let mut read = Decoded { events: Vec::new(), last_id: None, retry: None };
    for line in lines(bytes) {
        if line.is_empty() {
            read.last_id = Some(id.clone()).filter(|id| !id.is_empty());
            let name = Bytes::from(std::mem::take(&mut name));
            if let Some(data) = data.take() {
                read.events.push(Ok(SseEvent { name, data: data.into() }));
            }
            continue;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                let before = data.take().map(|mut before| {
                    before.push(b'\n');
                    before
                });
                data = Some([&before.unwrap_or_default()[..], value].concat());
            }
            b"event" => name = value.to_vec(),
            b"id" if value.len() <= LONGEST_ID && !value.contains(&0) => id = value.to_vec(),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let number = std::str::from_utf8(value).ok().and_then(|it| it.parse().ok());
                read.retry = number.map(Duration::from_millis).or(read.retry);
            }
            _ => {}
        }
    }
    read
}

/// Every line that has an end. What has none does not count.
fn lines(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&rest[..end]);
        let behind = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[end + behind..];
    }
    lines
}

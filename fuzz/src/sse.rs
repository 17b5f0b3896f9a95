//! Server-sent events, decoded by `wire::http::sse_decoder`.

use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::http::sse_decoder::{EventTooLarge, SseDecoder, SseEvent};

use crate::chunking::Chunking;

/// The maximum length of an id that is kept.
const LONGEST_ID: usize = 4 * 1024;
const LARGE_LIMIT: usize = 1 << 20;
const SMALL_LIMIT: usize = 40;

/// The observable results of decoding a stream.
#[derive(Debug, PartialEq, Eq)]
struct DecodeResult {
    events: Vec<Result<SseEvent, EventTooLarge>>,
    last_id: Option<Vec<u8>>,
    retry: Option<Duration>,
}

/// - For any size limit, the result does not depend on how the stream is split.
/// - It is the result of a literal implementation of the standard, within the size limit.
/// - No event exceeds the size limit, and no event follows one that did.
/// - An event id is a valid header value.
pub fn check(bytes: &[u8]) {
    for limit in [LARGE_LIMIT, SMALL_LIMIT] {
        let [whole, others @ ..] = Chunking::ALL.map(|chunking| decode(chunking, bytes, limit));
        for other in others {
            assert_eq!(other, whole, "the result depends on how the stream is split");
        }
        for (index, event) in whole.events.iter().enumerate() {
            match event {
                Ok(event) => assert!(event.data.len() <= limit, "an event is too large"),
                Err(EventTooLarge) => {
                    assert_eq!(
                        index + 1,
                        whole.events.len(),
                        "an event follows one that is too large"
                    )
                }
            }
        }
        let id = whole.last_id.as_deref().unwrap_or_default();
        assert!(id.len() <= LONGEST_ID && !id.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r')));
        if limit == LARGE_LIMIT {
            assert_eq!(
                whole,
                decode_by_specification(bytes),
                "the result differs from the standard"
            );
        }
    }
}

fn decode(chunking: Chunking, bytes: &[u8], limit: usize) -> DecodeResult {
    let mut decoder = SseDecoder::new(limit);
    let mut events = Vec::new();
    for piece in chunking.apply(bytes) {
        decoder.feed(piece);
        while let Some(event) = decoder.next() {
            events.push(event);
        }
    }
    let last_id = decoder.last_id().map(<[u8]>::to_vec);
    DecodeResult { events, last_id, retry: decoder.retry() }
}

/// Section 9.2.6 of the HTML standard, implemented literally, without regard to speed or size.
fn decode_by_specification(bytes: &[u8]) -> DecodeResult {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let (mut name, mut id) = (Vec::new(), Vec::new());
    let mut data: Option<Vec<u8>> = None;
    let mut read = DecodeResult { events: Vec::new(), last_id: None, retry: None };
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

/// Every terminated line. An unterminated one does not count.
fn lines(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&rest[..end]);
        let behind = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = &rest[end + behind..];
    }
    lines
}

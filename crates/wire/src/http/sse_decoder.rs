//! A decoder for server-sent events (WHATWG HTML standard, section 9.2.6).
//! Data stays raw bytes; the JSON parser checks whether they are UTF-8.

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::response::HttpResponse;
use crate::transport_error::TransportError;

/// The longest id that is kept, because it is sent back in a header.
const MAX_ID_LENGTH: usize = 4 * 1024;
/// The allowance for the parts of a line besides the data: a field name, a colon and a space.
const LINE_OVERHEAD: usize = 64;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The event type; empty if it was not set.
    pub name: Bytes,
    /// The data; may be empty.
    pub data: Bytes,
}

impl SseEvent {
    /// Whether the event has the default type.
    pub fn is_message(&self) -> bool {
        self.name.is_empty() || self.name == b"message".as_slice()
    }
}

/// An event or a line exceeds the size limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLarge;

/// Decodes events from a byte stream that arrives in chunks.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The unread rest of the last chunk.
    chunk: Bytes,
    /// The start of a line whose end has not arrived.
    line: BytesMut,
    position: Position,
    name: Bytes,
    data: EventData,
    /// The id of the current event, which later events inherit.
    id: Bytes,
    last_id: Bytes,
    retry: Option<Duration>,
}

/// The position of the next byte in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// In the first line, which may start with a byte order mark.
    Start,
    /// In any other line.
    Within,
    /// After a carriage return: a following line feed belongs to the same line end.
    AfterReturn,
    /// After an event that exceeds the limit; nothing more is decoded.
    Failed,
}

#[derive(Debug)]
enum EventData {
    None,
    /// The usual case, which is not copied.
    Line(Bytes),
    Lines(BytesMut),
}

impl SseDecoder {
    /// A decoder for events of up to `limit` bytes of data.
    pub fn new(limit: usize) -> SseDecoder {
        SseDecoder {
            limit,
            chunk: Bytes::new(),
            line: BytesMut::new(),
            position: Position::Start,
            name: Bytes::new(),
            data: EventData::None,
            id: Bytes::new(),
            last_id: Bytes::new(),
            retry: None,
        }
    }

    /// Adds the next chunk. It replaces the previous one, so call [`SseDecoder::next`] until it returns `None`
    /// first.
    pub fn feed(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// The next event of the chunk.
    #[expect(clippy::should_implement_trait, reason = "more may follow behind a `None`")]
    pub fn next(&mut self) -> Option<Result<SseEvent, EventTooLarge>> {
        while let Some(line) = self.next_line() {
            let event = match line {
                Ok(line) if line.is_empty() => self.dispatch().map(Ok),
                Ok(line) => self.field(line).err().map(Err),
                Err(too_large) => Some(Err(too_large)),
            };
            if let Some(Err(EventTooLarge)) = event {
                self.position = Position::Failed;
            }
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// The id to resume from when the stream breaks.
    pub fn last_id(&self) -> Option<&[u8]> {
        (!self.last_id.is_empty()).then_some(&self.last_id[..])
    }

    /// The delay before a reconnect, if the server set one.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn next_line(&mut self) -> Option<Result<Bytes, EventTooLarge>> {
        let is_first = match self.position {
            Position::Failed => return None,
            Position::Start => true,
            Position::Within => false,
            Position::AfterReturn => {
                match self.chunk.first() {
                    None => return None,
                    Some(b'\n') => self.chunk.advance(1),
                    Some(_) => {}
                }
                self.position = Position::Within;
                false
            }
        };
        let max_length = self.limit.saturating_add(LINE_OVERHEAD);
        let Some(end) = memchr::memchr2(b'\r', b'\n', &self.chunk) else {
            self.line.extend_from_slice(&self.chunk);
            self.chunk.clear();
            return (self.line.len() > max_length).then_some(Err(EventTooLarge));
        };
        let mut line = self.chunk.split_to(end);
        if !self.line.is_empty() {
            self.line.extend_from_slice(&line);
            line = self.line.split().freeze();
        }
        self.position = match self.chunk.first() {
            Some(b'\r') => Position::AfterReturn,
            Some(_) | None => Position::Within,
        };
        self.chunk.advance(1);
        if line.len() > max_length {
            return Some(Err(EventTooLarge));
        }
        if is_first && line.starts_with(BYTE_ORDER_MARK) {
            line.advance(BYTE_ORDER_MARK.len());
        }
        Some(Ok(line))
    }

    fn field(&mut self, mut line: Bytes) -> Result<(), EventTooLarge> {
        let (name, mut value) = match memchr::memchr(b':', &line) {
            Some(colon) => {
                let name = line.split_to(colon);
                line.advance(1);
                (name, line)
            }
            None => (line, Bytes::new()),
        };
        if value.first() == Some(&b' ') {
            value.advance(1);
        }
        match &name[..] {
            b"data" => return self.data.add(value, self.limit),
            b"event" => self.name = value,
            b"id" if value.len() <= MAX_ID_LENGTH && !value.contains(&0) => {
                // Copied, because a slice would keep the whole chunk alive.
                self.id = Bytes::copy_from_slice(&value);
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let text = String::from_utf8_lossy(&value);
                self.retry = text.parse().ok().map(Duration::from_millis).or(self.retry);
            }
            // A comment or an unknown field.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        self.last_id = self.id.clone();
        let name = std::mem::take(&mut self.name);
        let data = match std::mem::replace(&mut self.data, EventData::None) {
            EventData::None => return None,
            EventData::Line(line) => line,
            EventData::Lines(lines) => lines.freeze(),
        };
        Some(SseEvent { name, data })
    }
}

impl EventData {
    fn add(&mut self, line: Bytes, limit: usize) -> Result<(), EventTooLarge> {
        let length = match self {
            EventData::None => 0,
            EventData::Line(first) => first.len() + 1,
            EventData::Lines(lines) => lines.len() + 1,
        };
        if length + line.len() > limit {
            return Err(EventTooLarge);
        }
        let mut lines = match std::mem::replace(self, EventData::None) {
            EventData::None => {
                *self = EventData::Line(line);
                return Ok(());
            }
            EventData::Line(first) => BytesMut::from(&first[..]),
            EventData::Lines(lines) => lines,
        };
        lines.extend_from_slice(b"\n");
        lines.extend_from_slice(&line);
        *self = EventData::Lines(lines);
        Ok(())
    }
}

/// The event stream of a response.
#[derive(Debug)]
pub(crate) struct SseStream {
    response: HttpResponse,
    decoder: SseDecoder,
}

impl SseStream {
    pub(crate) fn new(response: HttpResponse, limit: usize) -> SseStream {
        SseStream { response, decoder: SseDecoder::new(limit) }
    }

    /// The next event; `None` at the regular end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<SseEvent>, TransportError> {
        loop {
            match self.decoder.next() {
                Some(Ok(event)) => return Ok(Some(event)),
                Some(Err(EventTooLarge)) => {
                    return Err(TransportError::TooLarge { limit: self.decoder.limit });
                }
                None => {}
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.decoder.feed(chunk),
                Ok(None) => return Ok(None),
                Err(_) => return Err(TransportError::IncompleteResponse),
            }
        }
    }

    pub(crate) fn last_id(&self) -> Option<&[u8]> {
        self.decoder.last_id()
    }

    pub(crate) fn retry(&self) -> Option<Duration> {
        self.decoder.retry()
    }

    pub(crate) fn into_response(self) -> HttpResponse {
        self.response
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type DecodedStream =
        (Vec<Result<(String, String), EventTooLarge>>, Option<String>, Option<u64>);

    /// The results of all chunks.
    fn read(chunks: &[&[u8]], limit: usize) -> DecodedStream {
        let mut decoder = SseDecoder::new(limit);
        let mut events = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for chunk in chunks {
            decoder.feed(Bytes::copy_from_slice(chunk));
            while let Some(event) = decoder.next() {
                events.push(event.map(|event| (text(&event.name), text(&event.data))));
            }
        }
        let retry =
            decoder.retry().map(|retry| retry.as_secs() * 1000 + u64::from(retry.subsec_millis()));
        (events, decoder.last_id().map(text), retry)
    }

    fn check(stream: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(name, data)| Ok((name.to_string(), data.to_string()))).collect();
        assert_eq!(read(&[stream.as_bytes()], 1000).0, expected, "{stream:?}");
    }

    #[test]
    fn lines_end_in_any_of_three_ways() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = format!("data: a{end}data:b{end}{end}event: x{end}data:  c{end}{end}");
            check(&stream, &[("", "a\nb"), ("x", " c")]);
        }
    }

    #[test]
    fn a_byte_order_mark_and_comments_are_passed_over() {
        check("\u{feff}data: a\n\n: data: b\n:\n\ndata: c\n\n", &[("", "a"), ("", "c")]);
        check("data: a\n\n\u{feff}data: b\n\n", &[("", "a")]);
    }

    #[test]
    fn only_data_makes_an_event_and_only_an_empty_line_sends_it() {
        check("event: x\nid: 1\n\n", &[]);
        check("event: x\n\ndata: a\n\n", &[("", "a")]);
        check("data\n\ndata:\n\n", &[("", ""), ("", "")]);
        check("data: a\ndata", &[]);
        check("data: a\n", &[]);
    }

    #[test]
    fn ids_persist_and_take_effect_with_the_event() {
        assert_eq!(read(&[b"id: 1\ndata: a\n\nid: 2\n"], 100).1, Some("1".to_owned()));
        assert_eq!(read(&[b"id: 1\n\ndata: a\n\n"], 100).1, Some("1".to_owned()));
        assert_eq!(read(&[b"id: 1\n\nid: 2\0\n\n"], 100).1, Some("1".to_owned()));
        assert_eq!(read(&[b"id: 1\n\nid\n\n"], 100).1, None);
        let endless = [b"id: 1\n\nid: ".as_slice(), &[b'x'; MAX_ID_LENGTH + 1], b"\n\n"];
        assert_eq!(read(&endless, 10_000).1, Some("1".to_owned()));
    }

    #[test]
    fn retry_is_digits_only() {
        assert_eq!(read(&[b"retry: 1500\n"], 100).2, Some(1500));
        for wrong in
            ["retry: 1500\nretry: -1\n", "retry: 1500\nretry:\n", "retry:1500\nretry: 1s\n"]
        {
            assert_eq!(read(&[wrong.as_bytes()], 100).2, Some(1500), "{wrong}");
        }
        let huge = "retry: 1500\nretry: 99999999999999999999999\n";
        assert_eq!(read(&[huge.as_bytes()], 100).2, Some(1500));
    }

    #[test]
    fn an_oversized_event_ends_the_stream() {
        let events = |stream: &str| read(&[stream.as_bytes()], 4).0;
        assert_eq!(events("data: 1234\n\n"), [Ok((String::new(), "1234".to_owned()))]);
        assert_eq!(events("data: 12345\n\ndata: a\n\n"), [Err(EventTooLarge)]);
        assert_eq!(events("data: 12\ndata: 3\n\n").len(), 1);
        assert_eq!(events("data: 12\ndata: 34\n\n"), [Err(EventTooLarge)]);
        assert_eq!(events(&format!(":{}", "x".repeat(200))), [Err(EventTooLarge)]);
    }

    /// Streams that consist mostly of significant tokens.
    fn any_stream() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            prop::sample::select(vec![
                "\r",
                "\n",
                "\r\n",
                "\n\n",
                "data",
                "data:",
                "data: ",
                "event: ",
                "id: ",
                "retry: ",
                ":",
                " ",
                "\u{feff}",
                "1500",
                "{\"a\":1}",
                "\0",
            ])
            .prop_map(|token| token.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..5),
        ];
        prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_change_the_events(
            stream in any_stream(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            limit in 0usize..40,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut start = 0;
            for cut in cuts.into_iter().chain([stream.len()]) {
                chunks.push(&stream[start..cut]);
                start = cut;
            }
            let whole = read(&[&stream], limit);
            prop_assert_eq!(&read(&chunks, limit), &whole);
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            prop_assert_eq!(&read(&bytes, limit), &whole);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), limit in 0usize..300) {
            let _whatever_it_is = read(&[&bytes], limit);
        }
    }
}

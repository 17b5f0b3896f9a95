//! Messages over byte streams, one per line: the stdio transport.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::jsonrpc::message;
use crate::jsonrpc::message::Messages;
use crate::jsonrpc::oversized;
use crate::transport::{CloseReason, MalformedInput, OutgoingMessage, Transport, TransportEvent};
use crate::transport_error::TransportError;

pub use crate::jsonrpc::message::DEFAULT_MAX_MESSAGE_SIZE;

/// The capacity of a pipe.
const READ_SIZE: usize = 64 * 1024;
/// Lines up to this size are copied out of the buffer, so that the buffer is reusable at once, and a small payload
/// that is kept does not keep a large buffer alive.
const MAX_COPIED_LINE: usize = 64 * 1024;
/// Longer lines take the buffer with them; shorter ones leave it for reuse once they are dropped.
const MAX_SHARED_LINE: usize = 2 * 1024 * 1024;

/// How many bytes of one line are skipped before the connection is closed.
const MAX_SKIPPED: usize = 2 * 1024 * 1024 * 1024;

/// A transport over a reader and a writer.
#[derive(Debug)]
pub struct StdioTransport<R, W> {
    reader: R,
    writer: W,
    line_reader: LineReader,
    write_buffer: WriteBuffer,
}

impl<R, W> StdioTransport<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    /// A transport that accepts messages up to `limit` bytes.
    pub fn new(reader: R, writer: W, limit: usize) -> StdioTransport<R, W> {
        StdioTransport {
            reader,
            writer,
            line_reader: LineReader::new(limit),
            write_buffer: WriteBuffer::default(),
        }
    }
}

impl<R, W> Transport for StdioTransport<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    fn push(&mut self, outgoing: OutgoingMessage) {
        outgoing.message.write_to(&mut self.write_buffer.bytes);
        self.write_buffer.bytes.push(b'\n');
    }

    fn queued_bytes(&self) -> usize {
        self.write_buffer.remaining()
    }

    async fn shutdown(&mut self) {
        while self.write_buffer.remaining() > 0 {
            if self.write_buffer.write_some(&mut self.writer).await.is_err() {
                return;
            }
        }
    }

    async fn next(&mut self) -> Result<TransportEvent, CloseReason> {
        loop {
            if let Some(event) = self.line_reader.next_event() {
                return event;
            }
            // Only `read_buf` adds to the buffer, so received bytes survive when this future is dropped.
            self.line_reader.buffer.reserve(READ_SIZE);
            tokio::select! {
                biased;
                written = self.write_buffer.write_some(&mut self.writer), if self.write_buffer.remaining() > 0 => {
                    written.map_err(|error| CloseReason::Io(error.kind()))?;
                }
                read = self.reader.read_buf(&mut self.line_reader.buffer) => match read {
                    Ok(0) => return Err(self.line_reader.close_reason()),
                    Ok(_) => {}
                    Err(error) => return Err(CloseReason::Io(error.kind())),
                },
            }
        }
    }
}

/// Bytes to send, of one or more messages.
#[derive(Debug, Default)]
struct WriteBuffer {
    bytes: Vec<u8>,
    written: usize,
}

impl WriteBuffer {
    /// The capacity that an emptied buffer keeps.
    const MAX_KEPT_CAPACITY: usize = 256 * 1024;

    fn remaining(&self) -> usize {
        self.bytes.len() - self.written
    }

    async fn write_some(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
        let count = writer.write(&self.bytes[self.written..]).await?;
        if count == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        self.written += count;
        if self.remaining() == 0 {
            self.bytes.clear();
            self.bytes.shrink_to(WriteBuffer::MAX_KEPT_CAPACITY);
            self.written = 0;
            writer.flush().await?;
        }
        Ok(())
    }
}

/// A line exceeds the size limit.
#[derive(Debug)]
struct LineTooLong;

/// Splits received bytes into lines.
#[derive(Debug)]
struct LineReader {
    buffer: BytesMut,
    /// How far the buffer has been searched for a line end.
    searched: usize,
    /// Events that were not returned yet: parts of a batch, and failures of oversized messages.
    ready: VecDeque<TransportEvent>,
    /// How many bytes of an oversized line were skipped, until its end arrives.
    skipped: Option<usize>,
    limit: usize,
}

impl LineReader {
    fn new(limit: usize) -> LineReader {
        LineReader {
            buffer: BytesMut::new(),
            searched: 0,
            ready: VecDeque::new(),
            skipped: None,
            limit,
        }
    }

    /// The next event in the received bytes.
    fn next_event(&mut self) -> Option<Result<TransportEvent, CloseReason>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.skipped.is_some()
                && let Err(end) = self.skip()?
            {
                return Some(Err(end));
            }
            let line = match self.next_line()? {
                Ok(line) => line,
                Err(LineTooLong) => match self.start_skipping() {
                    Ok(()) => continue,
                    Err(end) => return Some(Err(end)),
                },
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match message::parse(&line) {
                Ok(Messages::One(message)) => return Some(Ok(TransportEvent::Message(message))),
                Ok(Messages::Batch(parts)) => {
                    self.ready.extend(parts.into_iter().map(TransportEvent::from))
                }
                Err(error) => {
                    let malformed = MalformedInput::new(error, &line);
                    return Some(Ok(TransportEvent::Malformed(malformed)));
                }
            }
        }
    }

    fn next_line(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        match memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            Some(found) => {
                let end = self.searched + found;
                self.searched = 0;
                if end > self.limit {
                    return Some(Err(LineTooLong));
                }
                Some(Ok(self.take_line(end)))
            }
            None => {
                self.searched = self.buffer.len();
                (self.searched > self.limit).then_some(Err(LineTooLong))
            }
        }
    }

    /// Fails the call that an oversized line answers and skips the line, so that other calls continue. If the line
    /// answers no call, the connection closes.
    fn start_skipping(&mut self) -> Result<(), CloseReason> {
        let Some(id) = oversized::response_id(&self.buffer) else {
            return Err(CloseReason::TooLarge { limit: self.limit });
        };
        let error = TransportError::TooLarge { limit: self.limit };
        self.ready.push_back(TransportEvent::DeliveryFailed { id: Some(id), error });
        self.skipped = Some(0);
        Ok(())
    }

    /// Drops the received bytes of an oversized line. Returns once its end arrived.
    fn skip(&mut self) -> Option<Result<(), CloseReason>> {
        let skipped_bytes = self.skipped.unwrap_or_default();
        match memchr::memchr(b'\n', &self.buffer) {
            Some(end) => {
                self.skipped = None;
                self.buffer = BytesMut::from(&self.buffer[end + 1..]);
                self.searched = 0;
                Some(Ok(()))
            }
            None => {
                let skipped_bytes = skipped_bytes.saturating_add(self.buffer.len());
                self.skipped = Some(skipped_bytes);
                match self.buffer.capacity() > MAX_SHARED_LINE {
                    true => self.buffer = BytesMut::new(),
                    false => self.buffer.clear(),
                }
                self.searched = 0;
                (skipped_bytes > MAX_SKIPPED)
                    .then_some(Err(CloseReason::TooLarge { limit: self.limit }))
            }
        }
    }

    /// Takes a line and its line end out of the buffer.
    fn take_line(&mut self, end: usize) -> Bytes {
        if end <= MAX_COPIED_LINE {
            let line = Bytes::copy_from_slice(&self.buffer[..end]);
            self.buffer.advance(end + 1);
            return line;
        }
        let line = self.buffer.split_to(end).freeze();
        self.buffer.advance(1);
        if end > MAX_SHARED_LINE {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        line
    }

    fn close_reason(&self) -> CloseReason {
        match self.buffer.trim_ascii().is_empty() && self.skipped.is_none() {
            true => CloseReason::Closed,
            false => CloseReason::Truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::DuplexStream;

    use super::*;
    use crate::jsonrpc::message::{Message, Payload};

    type TestTransport = StdioTransport<DuplexStream, tokio::io::Sink>;

    /// A transport that reads what is written to the other half.
    fn transport(limit: usize) -> (TestTransport, DuplexStream) {
        let (reader, writer) = tokio::io::duplex(1 << 20);
        (StdioTransport::new(reader, tokio::io::sink(), limit), writer)
    }

    /// All events until the transport closes.
    async fn events(chunks: &[&[u8]], limit: usize) -> (Vec<String>, CloseReason) {
        let (mut transport, mut writer) = transport(limit);
        for chunk in chunks {
            writer.write_all(chunk).await.expect("there is room");
        }
        drop(writer);
        let mut seen = Vec::new();
        loop {
            match transport.next().await {
                Ok(TransportEvent::Message(Message::Notification { method, .. })) => {
                    seen.push(method.into_owned())
                }
                Ok(TransportEvent::Message(_) | TransportEvent::RelatedMessage { .. }) => {
                    seen.push("message".to_owned());
                }
                Ok(TransportEvent::DeliveryFailed { id, error }) => {
                    seen.push(format!("{id:?}: {error}"))
                }
                Ok(TransportEvent::Malformed(malformed)) => {
                    seen.push(malformed.error.to_string());
                }
                Err(end) => return (seen, end),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_found_wherever_the_chunks_end() {
        let chunks: [&[u8]; 4] = [
            b"{\"method\":",
            b"\"a\"}\n{\"method\":\"b\"}\r\n\n  \n",
            b"{\"meth",
            b"od\":\"c\"}\n",
        ];
        assert_eq!(
            events(&chunks, 100).await,
            (vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], CloseReason::Closed)
        );
    }

    #[tokio::test]
    async fn malformed_lines_are_skipped_and_a_truncated_last_line_is_reported() {
        let (seen, end) =
            events(&[b"Server running\n[{\"method\":\"a\"}, 7]\n{\"method\":\"b\"}\n{\"half"], 100)
                .await;
        assert_eq!(seen, ["it is not a JSON object", "a", "it is not a JSON object", "b"]);
        assert_eq!(end, CloseReason::Truncated);
    }

    #[tokio::test]
    async fn a_line_without_end_stops_at_the_limit() {
        let flood = vec![b'x'; 4096];
        assert_eq!(
            events(&[&flood], 1000).await,
            (Vec::new(), CloseReason::TooLarge { limit: 1000 })
        );
        let mut long = vec![b' '; 2000];
        long.push(b'\n');
        assert_eq!(events(&[&long], 1000).await.1, CloseReason::TooLarge { limit: 1000 });
    }

    #[tokio::test]
    async fn an_oversized_response_fails_alone() {
        let large = format!(
            "{{\"method\":\"a\"}}\n{{\"id\":7,\"result\":\"{}\"}}\n{{\"method\":\"b\"}}\n",
            "x".repeat(5000)
        );
        let failed = "Some(Number(7)): the response exceeds 1000 bytes";
        for size in [1, 7, 999, 1000, 1001, 4000, 10_000] {
            let chunks: Vec<&[u8]> = large.as_bytes().chunks(size).collect();
            let (seen, end) = events(&chunks, 1000).await;
            assert_eq!(seen, ["a", failed, "b"], "{size}");
            assert_eq!(end, CloseReason::Closed);
        }
        let (seen, end) = events(&[&large.as_bytes()[..3000]], 1000).await;
        assert_eq!((seen.len(), end), (2, CloseReason::Truncated));
    }

    #[tokio::test]
    async fn lines_of_every_size_arrive_complete_and_in_order() {
        let sizes = [
            1,
            1000,
            MAX_COPIED_LINE - 100,
            MAX_COPIED_LINE,
            MAX_COPIED_LINE + 1,
            3 * MAX_COPIED_LINE,
            MAX_SHARED_LINE,
            MAX_SHARED_LINE + 1,
            2,
            1,
        ];
        let (reader, mut writer) = tokio::io::duplex(1 << 16);
        let writing = tokio::spawn(async move {
            for size in sizes {
                let line = format!("{{\"method\":\"{}\"}}\n", "x".repeat(size));
                writer.write_all(line.as_bytes()).await.expect("it is read");
            }
        });
        let mut transport =
            StdioTransport::new(reader, tokio::io::sink(), DEFAULT_MAX_MESSAGE_SIZE);
        let mut seen = Vec::new();
        while let Ok(TransportEvent::Message(Message::Notification { method, .. })) =
            transport.next().await
        {
            assert!(method.bytes().all(|byte| byte == b'x'));
            seen.push(method.len());
        }
        assert_eq!(seen, sizes);
        writing.await.expect("it was all read");
    }

    /// A reader that has read a line of about this size, and the payload of the line.
    fn after_a_line_of(size: usize) -> (LineReader, Payload) {
        let mut line_reader = LineReader::new(DEFAULT_MAX_MESSAGE_SIZE);
        line_reader.buffer.reserve(READ_SIZE);
        let line = format!("{{\"method\":\"x\",\"params\":[\"{}\"]}}\n", "y".repeat(size));
        line_reader.buffer.extend_from_slice(line.as_bytes());
        match line_reader.next_event() {
            Some(Ok(TransportEvent::Message(Message::Notification {
                params: Some(it), ..
            }))) => (line_reader, it),
            other => panic!("it is a notification: {other:?}"),
        }
    }

    #[test]
    fn the_buffer_is_reused_while_a_small_payload_is_alive() {
        let (mut line_reader, _kept) = after_a_line_of(100);
        line_reader.buffer.reserve(READ_SIZE);
        assert_eq!(line_reader.buffer.capacity(), READ_SIZE);
        assert!(line_reader.buffer.try_reclaim(READ_SIZE));
    }

    #[test]
    fn a_huge_line_leaves_no_huge_buffer_behind() {
        let (mut line_reader, payload) = after_a_line_of(MAX_SHARED_LINE + 1);
        drop(payload);
        line_reader.buffer.reserve(READ_SIZE);
        assert!(line_reader.buffer.capacity() < 4 * READ_SIZE, "{}", line_reader.buffer.capacity());
    }

    #[tokio::test]
    async fn a_dropped_wait_loses_nothing() {
        let (mut transport, mut writer) = transport(1000);
        writer.write_all(b"{\"method\":\"a\"").await.expect("there is room");
        for _ in 0..3 {
            let waited =
                tokio::time::timeout(std::time::Duration::from_millis(1), transport.next()).await;
            assert!(waited.is_err());
        }
        writer.write_all(b"}\n").await.expect("there is room");
        let expected = Message::Notification { method: "a".into(), params: None };
        assert_eq!(transport.next().await, Ok(TransportEvent::Message(expected)));
    }

    #[tokio::test]
    async fn pushed_messages_are_written_line_by_line() {
        let (reader, _open) = tokio::io::duplex(64);
        let (mut written, writer) = tokio::io::duplex(1 << 16);
        let mut transport = StdioTransport::new(reader, writer, 1000);
        for method in ["a", "b"] {
            transport.push(Message::Notification { method: method.into(), params: None }.into());
        }
        assert!(transport.queued_bytes() > 0);
        let waited =
            tokio::time::timeout(std::time::Duration::from_millis(20), transport.next()).await;
        assert!(waited.is_err() && transport.queued_bytes() == 0);
        let mut text = vec![0; 200];
        let count = written.read(&mut text).await.expect("it was written");
        assert_eq!(
            String::from_utf8_lossy(&text[..count]),
            "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Chunk boundaries do not change the messages, and no bytes cause a panic.
        #[test]
        fn chunk_boundaries_do_not_change_the_messages(bytes in "[{}\\[\\]\":a-c\n ]{0,200}", cut in any::<prop::sample::Index>()) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let bytes = bytes.as_bytes();
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            let whole = runtime.block_on(events(&[bytes], 1000));
            let parts = runtime.block_on(events(&[front, back], 1000));
            prop_assert_eq!(whole, parts);
        }
    }
}

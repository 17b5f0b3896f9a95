//! Where the body of an HTTP/1.1 response ends: after its length, after its last chunk, or with the connection (RFC
//! 9112, section 6).
//! Pure: takes received bytes and splits off what belongs to the body.

use bytes::{Buf, Bytes, BytesMut};
use httparse::Status;
use memchr::memchr;

/// How many bytes to read if the length is unknown.
const DEFAULT_READ: usize = 8 * 1024;
/// The largest body that is returned in one part. A larger announced length is not trusted.
const MAX_WHOLE_BODY: u64 = 1024 * 1024;
/// The longest chunk size line, and the most that may follow the last chunk.
const MAX_CHUNK_LINE: usize = 4 * 1024;
const MAX_TRAILERS: usize = 16 * 1024;

/// How the end of the body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// This many bytes remain.
    Length(u64),
    /// In chunks; the state of the parser.
    Chunked(ChunkState),
    /// The body ends with the connection.
    UntilClose,
}

/// The next element of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChunkState {
    /// A chunk size line.
    Size,
    /// This many bytes of a chunk.
    Data(u64),
    /// The line end after a chunk.
    LineEnd,
    /// Trailers, of which this many bytes were seen.
    Trailers(usize),
    /// The end.
    Done,
}

/// In how many parts a body is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// As received.
    AsReceived,
    /// In one part, if possible.
    Whole,
}

/// The result of one step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyPart {
    /// Part of the body.
    Bytes(Bytes),
    /// More bytes are needed, this many at best.
    NeedMore(usize),
    /// The body is complete.
    End,
}

/// The chunked encoding is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidChunk;

impl BodyFraming {
    /// Whether the body is complete.
    pub(crate) fn is_complete(self) -> bool {
        matches!(self, BodyFraming::Length(0) | BodyFraming::Chunked(ChunkState::Done))
    }

    /// How many bytes remain, if that is known.
    pub(crate) fn remaining(self) -> Option<u64> {
        match self {
            BodyFraming::Length(left) => Some(left),
            BodyFraming::Chunked(_) | BodyFraming::UntilClose => None,
        }
    }

    /// Takes the next part of the body out of the received bytes.
    pub(crate) fn next(
        &mut self,
        read: &mut BytesMut,
        mode: ReadMode,
    ) -> Result<BodyPart, InvalidChunk> {
        match self {
            BodyFraming::Length(0) => Ok(BodyPart::End),
            BodyFraming::Length(left) => {
                let missing = left.saturating_sub(read.len() as u64);
                let waits_for_whole =
                    mode == ReadMode::Whole && *left <= MAX_WHOLE_BODY && missing > 0;
                if waits_for_whole || read.is_empty() {
                    let most = if waits_for_whole { MAX_WHOLE_BODY } else { DEFAULT_READ as u64 };
                    return Ok(BodyPart::NeedMore(to_usize(missing.min(most))));
                }
                Ok(BodyPart::Bytes(take_up_to(read, left)))
            }
            BodyFraming::UntilClose if read.is_empty() => Ok(BodyPart::NeedMore(DEFAULT_READ)),
            BodyFraming::UntilClose => Ok(BodyPart::Bytes(read.split().freeze())),
            BodyFraming::Chunked(chunk) => chunk.next(read),
        }
    }
}

impl ChunkState {
    fn next(&mut self, read: &mut BytesMut) -> Result<BodyPart, InvalidChunk> {
        loop {
            match self {
                ChunkState::Size => {
                    let line = &read[..read.len().min(MAX_CHUNK_LINE)];
                    match httparse::parse_chunk_size(line).map_err(|_| InvalidChunk)? {
                        Status::Partial if line.len() == MAX_CHUNK_LINE => {
                            return Err(InvalidChunk);
                        }
                        Status::Partial => return Ok(BodyPart::NeedMore(DEFAULT_READ)),
                        Status::Complete((length, 0)) => {
                            read.advance(length);
                            *self = ChunkState::Trailers(0);
                        }
                        Status::Complete((length, size)) => {
                            read.advance(length);
                            *self = ChunkState::Data(size);
                        }
                    }
                }
                ChunkState::Data(_) if read.is_empty() => {
                    return Ok(BodyPart::NeedMore(DEFAULT_READ));
                }
                ChunkState::Data(left) => {
                    let part = take_up_to(read, left);
                    if *left == 0 {
                        *self = ChunkState::LineEnd;
                    }
                    return Ok(BodyPart::Bytes(part));
                }
                ChunkState::LineEnd => match read.first_chunk() {
                    None => return Ok(BodyPart::NeedMore(DEFAULT_READ)),
                    Some(b"\r\n") => {
                        read.advance(2);
                        *self = ChunkState::Size;
                    }
                    Some(_) => return Err(InvalidChunk),
                },
                ChunkState::Trailers(seen) => {
                    let Some(end) = memchr(b'\n', read) else {
                        let is_too_long = *seen + read.len() > MAX_TRAILERS;
                        return if is_too_long {
                            Err(InvalidChunk)
                        } else {
                            Ok(BodyPart::NeedMore(DEFAULT_READ))
                        };
                    };
                    let is_last = matches!(&read[..end], b"" | b"\r");
                    *seen += end + 1;
                    if *seen > MAX_TRAILERS {
                        return Err(InvalidChunk);
                    }
                    read.advance(end + 1);
                    if is_last {
                        *self = ChunkState::Done;
                    }
                }
                ChunkState::Done => return Ok(BodyPart::End),
            }
        }
    }
}

/// Takes what is available, up to the remaining length.
fn take_up_to(read: &mut BytesMut, left: &mut u64) -> Bytes {
    let length = to_usize((*left).min(read.len() as u64));
    *left -= length as u64;
    read.split_to(length).freeze()
}

fn to_usize(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body and the bytes after it, if the input arrives in parts of these sizes.
    fn read(
        mut framing: BodyFraming,
        text: &[u8],
        sizes: &[usize],
    ) -> Result<(Vec<u8>, Vec<u8>), InvalidChunk> {
        let (mut read, mut rest, mut body) = (BytesMut::new(), text, Vec::new());
        let mut sizes = sizes.iter().copied().cycle();
        loop {
            match framing.next(&mut read, ReadMode::AsReceived)? {
                BodyPart::Bytes(bytes) => body.extend_from_slice(&bytes),
                BodyPart::End => break,
                BodyPart::NeedMore(_) if rest.is_empty() => break,
                BodyPart::NeedMore(_) => {
                    let (now, later) =
                        rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
                    read.extend_from_slice(now);
                    rest = later;
                }
            }
        }
        read.extend_from_slice(rest);
        Ok((body, read.to_vec()))
    }

    const CHUNKED: BodyFraming = BodyFraming::Chunked(ChunkState::Size);

    #[track_caller]
    fn check_chunks(text: &str, expected: Result<(&str, &str), InvalidChunk>) {
        let expected = expected.map(|(body, rest)| (body.into(), rest.into()));
        assert_eq!(read(CHUNKED, text.as_bytes(), &[1]), expected, "{text:?}");
        assert_eq!(read(CHUNKED, text.as_bytes(), &[text.len()]), expected, "{text:?}");
    }

    #[test]
    fn chunks_are_joined_and_the_bytes_after_them_stay_in_the_buffer() {
        check_chunks("5\r\nhello\r\n6; a=b\r\n world\r\n0\r\n\r\n", Ok(("hello world", "")));
        check_chunks(
            "A\r\n0123456789\r\n0\r\nx: y\r\nz: w\r\n\r\nHTTP",
            Ok(("0123456789", "HTTP")),
        );
        check_chunks("0\r\n\r\n", Ok(("", "")));
    }

    #[test]
    fn invalid_chunks_are_errors() {
        check_chunks("x\r\n", Err(InvalidChunk));
        check_chunks("1\r\nab\r\n", Err(InvalidChunk));
        check_chunks("fffffffffffffffff\r\n", Err(InvalidChunk));
        check_chunks(&format!("1;{}", "a".repeat(MAX_CHUNK_LINE)), Err(InvalidChunk));
        check_chunks(&format!("0\r\n{}", "a: b\r\n".repeat(MAX_TRAILERS)), Err(InvalidChunk));
        check_chunks(&format!("0\r\n{}", "a".repeat(MAX_TRAILERS + 1)), Err(InvalidChunk));
    }

    #[test]
    fn a_whole_body_is_buffered_up_to_a_limit() {
        let mut read = BytesMut::from("ab");
        let mut small = BodyFraming::Length(4);
        assert_eq!(small.next(&mut read, ReadMode::Whole), Ok(BodyPart::NeedMore(2)));
        read.extend_from_slice(b"cdef");
        assert_eq!(
            small.next(&mut read, ReadMode::Whole),
            Ok(BodyPart::Bytes(Bytes::from("abcd")))
        );
        assert!(small.is_complete());
        assert_eq!(read, "ef");
        let mut large = BodyFraming::Length(MAX_WHOLE_BODY + 1);
        assert_eq!(large.next(&mut read, ReadMode::Whole), Ok(BodyPart::Bytes(Bytes::from("ef"))));
        assert_eq!(large.remaining(), Some(MAX_WHOLE_BODY - 1));
    }

    proptest! {
        #[test]
        fn read_boundaries_do_not_change_the_body(
            chunks in prop::collection::vec("[a-z\r\n]{1,40}", 0..8),
            sizes in prop::collection::vec(1_usize..30, 1..8),
        ) {
            let mut text = String::new();
            for chunk in &chunks {
                text.push_str(&format!("{:x}\r\n{chunk}\r\n", chunk.len()));
            }
            text.push_str("0\r\n\r\nnext");
            let whole = chunks.concat();
            let expected = Ok((whole.clone().into_bytes(), b"next".to_vec()));
            prop_assert_eq!(read(CHUNKED, text.as_bytes(), &sizes), expected.clone());
            let length = BodyFraming::Length(whole.len() as u64);
            prop_assert_eq!(read(length, format!("{whole}next").as_bytes(), &sizes), expected);
        }
    }
}

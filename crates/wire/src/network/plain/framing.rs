//! Where the body of a plain answer ends: after so many bytes, after its last chunk, or with the connection (RFC 9112,
//! section 6). Pure: it is given what was read, and says what of it belongs to the body.

use bytes::{Buf, Bytes, BytesMut};
use httparse::Status;
use memchr::memchr;

/// How much is asked for where nothing says how much is to come.
const USUAL: usize = 8 * 1024;
/// A body that is wanted whole comes in one piece up to this size. What a server announces is not believed beyond it.
const WHOLE: u64 = 1024 * 1024;
/// The longest line that says how large a chunk is, and the most that may follow the last chunk.
const CHUNK_LINE: usize = 4 * 1024;
const TRAILERS: usize = 16 * 1024;

/// How the rest of a body is told from what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes are left.
    Length(u64),
    /// It comes in chunks, and this is next.
    Chunked(Chunk),
    /// It ends with the connection.
    ToTheEnd,
}

/// What is next in a body of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// The line that says how large a chunk is.
    Size,
    /// So much of a chunk.
    Data(u64),
    /// The end of the line after a chunk.
    LineEnd,
    /// What may follow the last chunk, so much of it already seen.
    Trailers(usize),
    /// Nothing.
    Over,
}

/// In how many pieces a body is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pieces {
    /// As they come.
    Several,
    /// One, if that is possible.
    One,
}

/// What can be had of the bytes that were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A piece of the body.
    Bytes(Bytes),
    /// Nothing until more was read; this much would be welcome.
    Wanting(usize),
    /// The body is over.
    Over,
}

/// The chunks are not as they must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl Framing {
    /// Is there nothing more to come?
    pub(super) fn is_over(self) -> bool {
        matches!(self, Framing::Length(0) | Framing::Chunked(Chunk::Over))
    }

    /// How much is left, where that is known.
    pub(super) fn left(self) -> Option<u64> {
        match self {
            Framing::Length(left) => Some(left),
            Framing::Chunked(_) | Framing::ToTheEnd => None,
        }
    }

    /// Takes the next piece out of what was read.
    pub(super) fn next(&mut self, read: &mut BytesMut, pieces: Pieces) -> Result<Piece, Malformed> {
        match self {
            Framing::Length(0) => Ok(Piece::Over),
            Framing::Length(left) => {
                let missing = left.saturating_sub(read.len() as u64);
                let is_waited_for = pieces == Pieces::One && *left <= WHOLE && missing > 0;
                if is_waited_for || read.is_empty() {
                    let most = if is_waited_for { WHOLE } else { USUAL as u64 };
                    return Ok(Piece::Wanting(fitting(missing.min(most))));
                }
                Ok(Piece::Bytes(take(read, left)))
            }
            Framing::ToTheEnd if read.is_empty() => Ok(Piece::Wanting(USUAL)),
            Framing::ToTheEnd => Ok(Piece::Bytes(read.split().freeze())),
            Framing::Chunked(chunk) => chunk.next(read),
        }
    }
}

impl Chunk {
    fn next(&mut self, read: &mut BytesMut) -> Result<Piece, Malformed> {
        loop {
            match self {
                Chunk::Size => {
                    let line = &read[..read.len().min(CHUNK_LINE)];
                    match httparse::parse_chunk_size(line).map_err(|_| Malformed)? {
                        Status::Partial if line.len() == CHUNK_LINE => return Err(Malformed),
                        Status::Partial => return Ok(Piece::Wanting(USUAL)),
                        Status::Complete((length, 0)) => {
                            read.advance(length);
                            *self = Chunk::Trailers(0);
                        }
                        Status::Complete((length, size)) => {
                            read.advance(length);
                            *self = Chunk::Data(size);
                        }
                    }
                }
                Chunk::Data(_) if read.is_empty() => return Ok(Piece::Wanting(USUAL)),
                Chunk::Data(left) => {
                    let piece = take(read, left);
                    if *left == 0 {
                        *self = Chunk::LineEnd;
                    }
                    return Ok(Piece::Bytes(piece));
                }
                Chunk::LineEnd => match read.first_chunk() {
                    None => return Ok(Piece::Wanting(USUAL)),
                    Some(b"\r\n") => {
                        read.advance(2);
                        *self = Chunk::Size;
                    }
                    Some(_) => return Err(Malformed),
                },
                Chunk::Trailers(seen) => {
                    let Some(end) = memchr(b'\n', read) else {
                        let is_too_long = *seen + read.len() > TRAILERS;
                        return if is_too_long {
                            Err(Malformed)
                        } else {
                            Ok(Piece::Wanting(USUAL))
                        };
                    };
                    let is_last = matches!(&read[..end], b"" | b"\r");
                    *seen += end + 1;
                    if *seen > TRAILERS {
                        return Err(Malformed);
                    }
                    read.advance(end + 1);
                    if is_last {
                        *self = Chunk::Over;
                    }
                }
                Chunk::Over => return Ok(Piece::Over),
            }
        }
    }
}

/// As much as there is, and no more than is left.
fn take(read: &mut BytesMut, left: &mut u64) -> Bytes {
    let length = fitting((*left).min(read.len() as u64));
    *left -= length as u64;
    read.split_to(length).freeze()
}

fn fitting(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The body, and what is left behind it, when the text comes in pieces of these sizes.
    fn read(
        mut framing: Framing,
        text: &[u8],
        sizes: &[usize],
    ) -> Result<(Vec<u8>, Vec<u8>), Malformed> {
        let (mut read, mut rest, mut body) = (BytesMut::new(), text, Vec::new());
        let mut sizes = sizes.iter().copied().cycle();
        loop {
            match framing.next(&mut read, Pieces::Several)? {
                Piece::Bytes(bytes) => body.extend_from_slice(&bytes),
                Piece::Over => break,
                Piece::Wanting(_) if rest.is_empty() => break,
                Piece::Wanting(_) => {
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

    const CHUNKED: Framing = Framing::Chunked(Chunk::Size);

    #[track_caller]
    fn check_chunks(text: &str, expected: Result<(&str, &str), Malformed>) {
        let expected = expected.map(|(body, rest)| (body.into(), rest.into()));
        assert_eq!(read(CHUNKED, text.as_bytes(), &[1]), expected, "{text:?}");
        assert_eq!(read(CHUNKED, text.as_bytes(), &[text.len()]), expected, "{text:?}");
    }

    #[test]
    fn chunks_are_put_together_and_what_follows_them_is_left() {
        check_chunks("5\r\nhello\r\n6; a=b\r\n world\r\n0\r\n\r\n", Ok(("hello world", "")));
        check_chunks(
            "A\r\n0123456789\r\n0\r\nx: y\r\nz: w\r\n\r\nHTTP",
            Ok(("0123456789", "HTTP")),
        );
        check_chunks("0\r\n\r\n", Ok(("", "")));
    }

    #[test]
    fn chunks_that_are_none_are_refused() {
        check_chunks("x\r\n", Err(Malformed));
        check_chunks("1\r\nab\r\n", Err(Malformed));
        check_chunks("fffffffffffffffff\r\n", Err(Malformed));
        check_chunks(&format!("1;{}", "a".repeat(CHUNK_LINE)), Err(Malformed));
        check_chunks(&format!("0\r\n{}", "a: b\r\n".repeat(TRAILERS)), Err(Malformed));
        check_chunks(&format!("0\r\n{}", "a".repeat(TRAILERS + 1)), Err(Malformed));
    }

    #[test]
    fn a_body_that_is_wanted_whole_is_waited_for_unless_it_is_large() {
        let mut read = BytesMut::from("ab");
        let mut small = Framing::Length(4);
        assert_eq!(small.next(&mut read, Pieces::One), Ok(Piece::Wanting(2)));
        read.extend_from_slice(b"cdef");
        assert_eq!(small.next(&mut read, Pieces::One), Ok(Piece::Bytes(Bytes::from("abcd"))));
        assert!(small.is_over());
        assert_eq!(read, "ef");
        let mut large = Framing::Length(WHOLE + 1);
        assert_eq!(large.next(&mut read, Pieces::One), Ok(Piece::Bytes(Bytes::from("ef"))));
        assert_eq!(large.left(), Some(WHOLE - 1));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_in_which_pieces_a_body_comes(
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
            let length = Framing::Length(whole.len() as u64);
            prop_assert_eq!(read(length, format!("{whole}next").as_bytes(), &sizes), expected);
        }
    }
}

//! Splits a stream into chunks, as a network might; the same bytes always give the same chunks.

use bytes::Bytes;

/// Ways to split a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// One chunk.
    Whole,
    /// One byte per chunk.
    SingleBytes,
    /// Chunks of pseudo-random sizes, some of them empty.
    Random,
}

impl Chunking {
    /// Every way.
    pub const ALL: [Chunking; 3] = [Chunking::Whole, Chunking::SingleBytes, Chunking::Random];

    /// Splits the bytes.
    pub fn apply(self, bytes: &[u8]) -> Vec<Bytes> {
        match self {
            Chunking::Whole => vec![Bytes::copy_from_slice(bytes)],
            Chunking::SingleBytes => bytes.chunks(1).map(Bytes::copy_from_slice).collect(),
            Chunking::Random => random_chunks(bytes),
        }
    }
}

fn random_chunks(bytes: &[u8]) -> Vec<Bytes> {
    let mut state = seed(bytes);
    let mut rest = bytes;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        // Small chunks are those that split a token.
        state = mix(state);
        let size = match state >> 61 {
            0 => 0,
            1..=5 => 1 + (state >> 32) % 7,
            _ => 1 + (state >> 32) % 200,
        };
        let size = usize::try_from(size).map_or(rest.len(), |size| size.min(rest.len()));
        let (chunk, behind) = rest.split_at(size);
        chunks.push(Bytes::copy_from_slice(chunk));
        rest = behind;
    }
    chunks
}

/// A hash of the bytes (FNV-1a).
pub fn seed(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

fn mix(state: u64) -> u64 {
    let state =
        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    state ^ (state >> 29)
}

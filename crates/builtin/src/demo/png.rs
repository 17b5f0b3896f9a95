//! Writes square grayscale pictures as uncompressed PNG, without a library.

/// Encodes 8-bit grayscale pixels as PNG 1.2, with unfiltered rows.
pub(super) fn gray_png(pixels: &[u8], side: u16) -> Vec<u8> {
    let mut rows = Vec::with_capacity(pixels.len() + usize::from(side));
    for row in pixels.chunks(usize::from(side)) {
        rows.push(0);
        rows.extend_from_slice(row);
    }
    let size = u32::from(side).to_be_bytes();
    let header = [&size[..], &size[..], &[8, 0, 0, 0, 0]].concat();
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &header);
    chunk(&mut file, *b"IDAT", &zlib(&rows));
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], body: &[u8]) {
    let length = u32::try_from(body.len()).expect("the picture is small");
    file.extend_from_slice(&length.to_be_bytes());
    let start = file.len();
    file.extend_from_slice(&kind);
    file.extend_from_slice(body);
    let sum = crc32(&file[start..]);
    file.extend_from_slice(&sum.to_be_bytes());
}

/// A zlib stream (RFC 1950) of stored blocks (RFC 1951).
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = bytes.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).expect("a block is no longer than that");
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend_from_slice(&length.to_le_bytes());
        stream.extend_from_slice(&(!length).to_le_bytes());
        stream.extend_from_slice(block);
    }
    let (mut low, mut high) = (1u32, 0u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    stream.extend_from_slice(&(high << 16 | low).to_be_bytes());
    stream
}

/// The CRC of a PNG chunk.
fn crc32(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 };
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_known_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let stream = zlib(b"Wikipedia");
        assert_eq!(stream[stream.len() - 4..], 0x11e6_0398_u32.to_be_bytes());
    }
}

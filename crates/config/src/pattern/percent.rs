//! Decodes percent escapes.

/// Decodes every percent escape of a text; other bytes stay as they are.
pub(crate) fn percent_decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escape = match rest {
            [b'%', high, low, ..] => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        let (byte, after) = match escape {
            Some((high, low)) => (high * 16 + low, &rest[3..]),
            None => (*first, after),
        };
        decoded.push(byte);
        rest = after;
    }
    decoded
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

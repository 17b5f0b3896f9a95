//! Decodes and encodes text files so that unchanged parts stay the same: encoding, byte order mark and line
//! endings.

/// The encoding of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    /// With a byte order mark.
    Utf8Bom,
    Utf16Le,
    Utf16Be,
}

/// The line endings of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEndings {
    /// LF, or a single line.
    Lf,
    /// CRLF everywhere.
    CrLf,
    /// Both.
    Mixed,
}

/// A decoded text and its encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DecodedText {
    pub(crate) text: String,
    pub(crate) encoding: Encoding,
}

/// Why bytes are not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// They contain zero bytes.
    Binary,
    /// They are invalid in the detected encoding.
    Invalid(Encoding),
}

impl DecodeError {
    pub(crate) fn description(self) -> &'static str {
        match self {
            DecodeError::Binary => "it is binary",
            DecodeError::Invalid(Encoding::Utf8 | Encoding::Utf8Bom) => "it is not valid UTF-8",
            DecodeError::Invalid(Encoding::Utf16Le | Encoding::Utf16Be) => "it is not valid UTF-16",
        }
    }
}

impl Encoding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf8Bom => "utf-8-bom",
            Encoding::Utf16Le => "utf-16le",
            Encoding::Utf16Be => "utf-16be",
        }
    }

    fn bom(self) -> &'static [u8] {
        match self {
            Encoding::Utf8 => b"",
            Encoding::Utf8Bom => b"\xef\xbb\xbf",
            Encoding::Utf16Le => b"\xff\xfe",
            Encoding::Utf16Be => b"\xfe\xff",
        }
    }

    /// Encodes a text, with the byte order mark.
    pub(crate) fn encode(self, text: &str) -> Vec<u8> {
        let mut bytes = self.bom().to_vec();
        match self {
            Encoding::Utf8 | Encoding::Utf8Bom => bytes.extend_from_slice(text.as_bytes()),
            Encoding::Utf16Le => bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            Encoding::Utf16Be => bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
        }
        bytes
    }
}

impl LineEndings {
    pub(crate) fn detect(text: &str) -> LineEndings {
        let line_feeds = text.matches('\n').count();
        let crlf_pairs = text.matches("\r\n").count();
        match (line_feeds, crlf_pairs) {
            (_, 0) => LineEndings::Lf,
            (line_feeds, crlf_pairs) if line_feeds == crlf_pairs => LineEndings::CrLf,
            (_, _) => LineEndings::Mixed,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            LineEndings::Lf => "lf",
            LineEndings::CrLf => "crlf",
            LineEndings::Mixed => "mixed",
        }
    }

    /// Converts a text to these line endings; mixed ones stay as they are.
    pub(crate) fn normalize(self, text: &str) -> String {
        match self {
            LineEndings::CrLf => to_crlf(text),
            LineEndings::Lf | LineEndings::Mixed => text.to_owned(),
        }
    }
}

/// Converts all line endings to CRLF.
pub(crate) fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Decodes bytes.
pub(crate) fn decode(bytes: &[u8]) -> Result<DecodedText, DecodeError> {
    let with_bom = [Encoding::Utf8Bom, Encoding::Utf16Le, Encoding::Utf16Be];
    let encoding = with_bom.into_iter().find(|it| bytes.starts_with(it.bom()));
    let encoding = encoding.unwrap_or(Encoding::Utf8);
    let body = &bytes[encoding.bom().len()..];
    let text = match encoding {
        Encoding::Utf8 | Encoding::Utf8Bom => {
            if body.contains(&0) {
                return Err(DecodeError::Binary);
            }
            std::str::from_utf8(body).ok().map(str::to_owned)
        }
        Encoding::Utf16Le => decode_utf16(body, u16::from_le_bytes),
        Encoding::Utf16Be => decode_utf16(body, u16::from_be_bytes),
    };
    let text = text.ok_or(DecodeError::Invalid(encoding))?;
    Ok(DecodedText { text, encoding })
}

fn decode_utf16(body: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (crlf_pairs, []) = body.as_chunks::<2>() else { return None };
    let units: Vec<u16> = crlf_pairs.iter().map(|pair| unit(*pair)).collect();
    String::from_utf16(&units).ok()
}

/// The encoding for a new text that replaces these bytes, and the old text.
pub(crate) fn detect_encoding(bytes: &[u8]) -> (Encoding, Option<DecodedText>) {
    match decode(bytes) {
        Ok(decoded) => (decoded.encoding, Some(decoded)),
        Err(_) => (Encoding::Utf8, None),
    }
}

/// Prefixes lines with their numbers, as all tools show them.
pub(crate) fn with_line_numbers<'a>(lines: impl Iterator<Item = &'a str>, first: usize) -> String {
    let mut text = String::new();
    for (number, line) in (first..).zip(lines) {
        text.push_str(&format!("{number:>6}\t{line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_text_decodes_to_the_same_bytes(text in "\\PC*[\r\n]{0,3}\\PC*") {
            let all = [
                Encoding::Utf8, Encoding::Utf8Bom, Encoding::Utf16Le, Encoding::Utf16Be,
            ];
            for encoding in all {
                let bytes = encoding.encode(&text);
                if let Ok(decoded) = decode(&bytes) {
                    prop_assert_eq!(decoded.encoding.encode(&decoded.text), bytes);
                }
            }
        }

        #[test]
        fn decoded_bytes_encode_to_the_same_bytes(bytes: Vec<u8>) {
            if let Ok(decoded) = decode(&bytes) {
                prop_assert_eq!(decoded.encoding.encode(&decoded.text), bytes);
            }
        }
    }

    #[test]
    fn binary_and_invalid_text_are_detected() {
        assert_eq!(decode(b"a\0b"), Err(DecodeError::Binary));
        assert_eq!(decode(b"cup\xe9"), Err(DecodeError::Invalid(Encoding::Utf8)));
        assert_eq!(decode(b"\xff\xfea"), Err(DecodeError::Invalid(Encoding::Utf16Le)));
        assert_eq!(decode(b"\xfe\xff\xd8\x00"), Err(DecodeError::Invalid(Encoding::Utf16Be)));
        let with_bom = decode(b"\xff\xfea\0\r\0\n\0").unwrap();
        assert_eq!((with_bom.text.as_str(), with_bom.encoding.name()), ("a\r\n", "utf-16le"));
    }

    #[test]
    fn line_endings_are_detected_and_applied() {
        assert_eq!(LineEndings::detect("a\r\nb\r\n"), LineEndings::CrLf);
        assert_eq!(LineEndings::detect("a\r\nb\n"), LineEndings::Mixed);
        assert_eq!(LineEndings::detect("a\rb"), LineEndings::Lf);
        assert_eq!(LineEndings::CrLf.normalize("x\ny\r\n"), "x\r\ny\r\n");
        assert_eq!(LineEndings::Mixed.normalize("x\ny"), "x\ny");
    }
}

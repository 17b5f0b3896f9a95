//! Bytes of a file as text and back, so that what is not changed comes out as it went in: encoding, byte order mark
//! and line ends.

/// How a text is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    /// With a byte order mark.
    Utf8Marked,
    Utf16Little,
    Utf16Big,
}

/// How the lines of a text end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// With a line feed, or there is only one line.
    Feed,
    /// All of them with a carriage return and a line feed.
    ReturnFeed,
    /// Some so and some so.
    Mixed,
}

/// A text, and how it was written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) text: String,
    pub(super) encoding: Encoding,
}

/// Why bytes are no text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotText {
    /// There are zero bytes in it.
    Binary,
    /// It begins like text in this encoding, and is not.
    Broken(Encoding),
}

impl NotText {
    pub(super) fn words(self) -> &'static str {
        match self {
            NotText::Binary => "it is binary",
            NotText::Broken(Encoding::Utf8 | Encoding::Utf8Marked) => "it is not valid UTF-8",
            NotText::Broken(Encoding::Utf16Little | Encoding::Utf16Big) => "it is not valid UTF-16",
        }
    }
}

impl Encoding {
    pub(super) fn id(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf8Marked => "utf-8-bom",
            Encoding::Utf16Little => "utf-16le",
            Encoding::Utf16Big => "utf-16be",
        }
    }

    fn mark(self) -> &'static [u8] {
        match self {
            Encoding::Utf8 => b"",
            Encoding::Utf8Marked => b"\xef\xbb\xbf",
            Encoding::Utf16Little => b"\xff\xfe",
            Encoding::Utf16Big => b"\xfe\xff",
        }
    }

    /// A text as bytes.
    pub(super) fn encode(self, text: &str) -> Vec<u8> {
        let mut bytes = self.mark().to_vec();
        match self {
            Encoding::Utf8 | Encoding::Utf8Marked => bytes.extend_from_slice(text.as_bytes()),
            Encoding::Utf16Little => bytes.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            Encoding::Utf16Big => bytes.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
        }
        bytes
    }
}

impl LineEnds {
    pub(super) fn of(text: &str) -> LineEnds {
        let feeds = text.matches('\n').count();
        let pairs = text.matches("\r\n").count();
        match (feeds, pairs) {
            (_, 0) => LineEnds::Feed,
            (feeds, pairs) if feeds == pairs => LineEnds::ReturnFeed,
            (_, _) => LineEnds::Mixed,
        }
    }

    pub(super) fn id(self) -> &'static str {
        match self {
            LineEnds::Feed => "lf",
            LineEnds::ReturnFeed => "crlf",
            LineEnds::Mixed => "mixed",
        }
    }

    /// A text whose lines end in the same way, where there is one way.
    pub(super) fn adopt(self, text: &str) -> String {
        match self {
            LineEnds::ReturnFeed => with_returns(text),
            LineEnds::Feed | LineEnds::Mixed => text.to_owned(),
        }
    }
}

/// A text all of whose lines end with a carriage return and a line feed.
pub(super) fn with_returns(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Reads bytes as text.
pub(super) fn decode(bytes: &[u8]) -> Result<Decoded, NotText> {
    let marked = [Encoding::Utf8Marked, Encoding::Utf16Little, Encoding::Utf16Big];
    let encoding = marked.into_iter().find(|it| bytes.starts_with(it.mark()));
    let encoding = encoding.unwrap_or(Encoding::Utf8);
    let body = &bytes[encoding.mark().len()..];
    let text = match encoding {
        Encoding::Utf8 | Encoding::Utf8Marked => {
            if body.contains(&0) {
                return Err(NotText::Binary);
            }
            std::str::from_utf8(body).ok().map(str::to_owned)
        }
        Encoding::Utf16Little => of_units(body, u16::from_le_bytes),
        Encoding::Utf16Big => of_units(body, u16::from_be_bytes),
    };
    let text = text.ok_or(NotText::Broken(encoding))?;
    Ok(Decoded { text, encoding })
}

fn of_units(body: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, []) = body.as_chunks::<2>() else { return None };
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    String::from_utf16(&units).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_text_comes_out_as_it_went_in(text in "\\PC*[\r\n]{0,3}\\PC*") {
            let all = [
                Encoding::Utf8, Encoding::Utf8Marked, Encoding::Utf16Little, Encoding::Utf16Big,
            ];
            for encoding in all {
                let bytes = encoding.encode(&text);
                if let Ok(decoded) = decode(&bytes) {
                    prop_assert_eq!(decoded.encoding.encode(&decoded.text), bytes);
                }
            }
        }

        #[test]
        fn any_bytes_that_are_read_as_text_are_kept(bytes: Vec<u8>) {
            if let Ok(decoded) = decode(&bytes) {
                prop_assert_eq!(decoded.encoding.encode(&decoded.text), bytes);
            }
        }
    }

    #[test]
    fn what_is_no_text_is_told() {
        assert_eq!(decode(b"a\0b"), Err(NotText::Binary));
        assert_eq!(decode(b"cup\xe9"), Err(NotText::Broken(Encoding::Utf8)));
        assert_eq!(decode(b"\xff\xfea"), Err(NotText::Broken(Encoding::Utf16Little)));
        assert_eq!(decode(b"\xfe\xff\xd8\x00"), Err(NotText::Broken(Encoding::Utf16Big)));
        let marked = decode(b"\xff\xfea\0\r\0\n\0").unwrap();
        assert_eq!((marked.text.as_str(), marked.encoding.id()), ("a\r\n", "utf-16le"));
    }

    #[test]
    fn line_ends_are_seen_and_adopted() {
        assert_eq!(LineEnds::of("a\r\nb\r\n"), LineEnds::ReturnFeed);
        assert_eq!(LineEnds::of("a\r\nb\n"), LineEnds::Mixed);
        assert_eq!(LineEnds::of("a\rb"), LineEnds::Feed);
        assert_eq!(LineEnds::ReturnFeed.adopt("x\ny\r\n"), "x\r\ny\r\n");
        assert_eq!(LineEnds::Mixed.adopt("x\ny"), "x\ny");
    }
}

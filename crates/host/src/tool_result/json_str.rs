//! Texts inside a payload, read piece by piece where they lie: a large one is never copied whole to be looked at.

use std::io::{self, Read, Write};

use memchr::memchr;
use serde_json::value::RawValue;

/// A text, as it lies in JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonStr<'a> {
    body: &'a str,
    encoding: Encoding,
}

#[derive(Debug, Clone, Copy)]
enum Encoding {
    /// With JSON's escapes in it.
    Escaped,
    /// As it is meant.
    Plain,
}

enum Segment<'a> {
    Span(&'a str),
    Character(char),
}

impl<'a> JsonStr<'a> {
    /// The text that a piece of JSON is; none if it is something else.
    pub(crate) fn from_raw(raw: &'a RawValue) -> Option<JsonStr<'a>> {
        let body = raw.get().strip_prefix('"')?.strip_suffix('"')?;
        let encoding = match memchr(b'\\', body.as_bytes()) {
            Some(_) => Encoding::Escaped,
            None => Encoding::Plain,
        };
        Some(JsonStr { body, encoding })
    }

    /// JSON itself as a text.
    pub(crate) fn verbatim(body: &'a str) -> JsonStr<'a> {
        JsonStr { body, encoding: Encoding::Plain }
    }

    /// Its length as it lies there; what it means is no longer than that.
    pub(crate) fn raw_len(&self) -> usize {
        self.body.len()
    }

    fn segments(&self) -> Segments<'a> {
        Segments { rest: self.body, encoding: self.encoding }
    }

    pub(crate) fn char_count(&self) -> usize {
        let count = |segment| match segment {
            Segment::Span(span) => span.chars().count(),
            Segment::Character(_) => 1,
        };
        self.segments().map(count).sum()
    }

    /// At most so many characters from its beginning.
    pub(crate) fn prefix(&self, max: usize) -> String {
        let mut text = String::with_capacity(self.body.len().min(max));
        if self.body.len() <= max {
            for segment in self.segments() {
                match segment {
                    Segment::Span(span) => text.push_str(span),
                    Segment::Character(character) => text.push(character),
                }
            }
            return text;
        }
        let mut left = max;
        for segment in self.segments() {
            if left == 0 {
                break;
            }
            match segment {
                Segment::Span(span) => match span.char_indices().nth(left) {
                    Some((end, _)) => {
                        text.push_str(&span[..end]);
                        left = 0;
                    }
                    None => {
                        text.push_str(span);
                        left -= span.chars().count();
                    }
                },
                Segment::Character(character) => {
                    text.push(character);
                    left -= 1;
                }
            }
        }
        text
    }

    pub(crate) fn write_to(&self, to: &mut impl Write) -> io::Result<()> {
        for segment in self.segments() {
            match segment {
                Segment::Span(span) => to.write_all(span.as_bytes())?,
                Segment::Character(character) => {
                    to.write_all(character.encode_utf8(&mut [0; 4]).as_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// Its bytes without blanks, as a decoder of base64 wants them.
    pub(crate) fn without_whitespace(&self) -> WhitespaceStripped<'a> {
        WhitespaceStripped { pieces: self.segments(), span: b"", character: [0; 4], waiting: 0..0 }
    }
}

struct Segments<'a> {
    rest: &'a str,
    encoding: Encoding,
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = match self.encoding {
            Encoding::Plain => self.rest.len(),
            Encoding::Escaped => backslash(self.rest.as_bytes()).unwrap_or(self.rest.len()),
        };
        if end > 0 {
            let (span, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(Segment::Span(span));
        }
        let (character, length) = escape(&self.rest[1..]);
        self.rest = &self.rest[1 + length..];
        Some(Segment::Character(character))
    }
}

/// Where the next escape begins. In a text with many of them it is near, and there a search that looks at many bytes at
/// a time takes longer to set up than to look.
fn backslash(text: &[u8]) -> Option<usize> {
    const NEAR: usize = 16;
    let (near, far) = text.split_at(text.len().min(NEAR));
    let found = near.iter().position(|byte| *byte == b'\\');
    found.or_else(|| memchr(b'\\', far).map(|at| near.len() + at))
}

/// The character that an escape stands for, and how long it is after its backslash.
/// Half of a pair is no character; it becomes a mark, and the text around it stays.
fn escape(rest: &str) -> (char, usize) {
    let Some(first) = rest.chars().next() else { return (char::REPLACEMENT_CHARACTER, 0) };
    match first {
        'n' => ('\n', 1),
        't' => ('\t', 1),
        'r' => ('\r', 1),
        'b' => ('\u{8}', 1),
        'f' => ('\u{c}', 1),
        'u' => escape_by_number(rest),
        other => (other, other.len_utf8()),
    }
}

fn escape_by_number(rest: &str) -> (char, usize) {
    let unit = |from: usize| {
        rest.get(from..from + 4).and_then(|digits| u16::from_str_radix(digits, 16).ok())
    };
    let Some(high) = unit(1) else { return (char::REPLACEMENT_CHARACTER, 1) };
    if let Some(character) = char::from_u32(u32::from(high)) {
        return (character, 5);
    }
    let low = unit(7).filter(|_| rest.get(5..7) == Some("\\u"));
    let pair = low.and_then(|low| char::decode_utf16([high, low]).next()?.ok());
    pair.map_or((char::REPLACEMENT_CHARACTER, 5), |character| (character, 11))
}

/// See [`Words::compact`].
pub(crate) struct WhitespaceStripped<'a> {
    pieces: Segments<'a>,
    span: &'a [u8],
    character: [u8; 4],
    waiting: std::ops::Range<usize>,
}

impl Read for WhitespaceStripped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if let Some(at) = self.waiting.next() {
                buffer[filled] = self.character[at];
                filled += 1;
            } else if !self.span.is_empty() {
                let (now, later) = self.span.split_at(self.span.len().min(buffer.len() - filled));
                self.span = later;
                for run in now.split(u8::is_ascii_whitespace) {
                    buffer[filled..filled + run.len()].copy_from_slice(run);
                    filled += run.len();
                }
            } else {
                match self.pieces.next() {
                    None => break,
                    Some(Segment::Span(span)) => self.span = span.as_bytes(),
                    Some(Segment::Character(character)) if character.is_ascii_whitespace() => {}
                    Some(Segment::Character(character)) => {
                        self.waiting = 0..character.encode_utf8(&mut self.character).len();
                    }
                }
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("JSON")
    }

    fn check(json: &str, expected: &str) {
        let raw = raw(json);
        let json_str = JsonStr::from_raw(&raw).expect("a text");
        let mut written = Vec::new();
        json_str.write_to(&mut written).expect("memory takes everything");
        assert_eq!(String::from_utf8(written).expect("text"), expected);
        assert_eq!(json_str.char_count(), expected.chars().count());
        for max in 0..expected.chars().count() + 2 {
            assert_eq!(json_str.prefix(max), expected.chars().take(max).collect::<String>());
        }
    }

    #[test]
    fn escapes_mean_what_json_says() {
        check(r#""plain ü 😀""#, "plain ü 😀");
        check(r#""a\n\t\r\b\f\"\\\/z""#, "a\n\t\r\u{8}\u{c}\"\\/z");
        check(r#""\u00fc\ud83d\ude00 \u0000""#, "ü😀 \0");
        check("\"\"", "");
    }

    #[test]
    fn half_a_pair_is_a_mark_and_what_follows_stays() {
        check(r#""\ud83dx""#, "\u{fffd}x");
        check(r#""\ude00\ud83d\ud83d\ude00""#, "\u{fffd}\u{fffd}😀");
        check(r#""\ud83d\n""#, "\u{fffd}\n");
    }

    #[test]
    fn what_is_no_text_has_no_words() {
        for json in ["5", "null", "{}", "[\"a\"]"] {
            assert!(JsonStr::from_raw(&raw(json)).is_none(), "{json}");
        }
    }

    #[test]
    fn blanks_and_escapes_are_no_part_of_base64() {
        let raw = raw(r#"" YW\nJ\/ \r\nZ\u0047==""#);
        let mut text = String::new();
        JsonStr::from_raw(&raw)
            .expect("a text")
            .without_whitespace()
            .read_to_string(&mut text)
            .expect("memory");
        assert_eq!(text, "YWJ/ZG==");
    }

    proptest! {
        #[test]
        fn every_text_reads_back_as_itself(text in ".{0,40}", max in 0usize..50) {
            let raw = raw(&serde_json::Value::from(text.as_str()).to_string());
            let json_str = JsonStr::from_raw(&raw).expect("a text");
            prop_assert_eq!(json_str.char_count(), text.chars().count());
            prop_assert_eq!(json_str.prefix(max), text.chars().take(max).collect::<String>());
        }

        #[test]
        fn no_escape_makes_it_panic(body in "[\\\\ud8c0-9a-fü\"]{0,30}") {
            let json_str = JsonStr { body: &body, encoding: Encoding::Escaped };
            let _whatever_it_is = json_str.prefix(usize::MAX);
        }
    }
}

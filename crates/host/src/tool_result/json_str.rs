//! JSON strings inside a payload, decoded piece by piece: a large string is never copied as a whole to be inspected.

use std::io::{self, Read, Write};

use memchr::memchr;
use serde_json::value::RawValue;

/// A JSON string in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonStr<'a> {
    body: &'a str,
    encoding: Encoding,
}

#[derive(Debug, Clone, Copy)]
enum Encoding {
    /// With JSON escapes.
    Escaped,
    /// Without escapes.
    Plain,
}

enum Segment<'a> {
    Span(&'a str),
    Character(char),
}

impl<'a> JsonStr<'a> {
    /// The string in a JSON value; `None` for other types.
    pub(crate) fn from_raw(raw: &'a RawValue) -> Option<JsonStr<'a>> {
        let body = raw.get().strip_prefix('"')?.strip_suffix('"')?;
        let encoding = match memchr(b'\\', body.as_bytes()) {
            Some(_) => Encoding::Escaped,
            None => Encoding::Plain,
        };
        Some(JsonStr { body, encoding })
    }

    /// JSON text itself as a string.
    pub(crate) fn verbatim(body: &'a str) -> JsonStr<'a> {
        JsonStr { body, encoding: Encoding::Plain }
    }

    /// The length in bytes with escapes, an upper limit for the decoded length.
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

    /// At most `max` characters from the start.
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
        let mut remaining = max;
        for segment in self.segments() {
            if remaining == 0 {
                break;
            }
            match segment {
                Segment::Span(span) => match span.char_indices().nth(remaining) {
                    Some((end, _)) => {
                        text.push_str(&span[..end]);
                        remaining = 0;
                    }
                    None => {
                        text.push_str(span);
                        remaining -= span.chars().count();
                    }
                },
                Segment::Character(character) => {
                    text.push(character);
                    remaining -= 1;
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

    /// The decoded bytes without whitespace, for a base64 decoder.
    pub(crate) fn without_whitespace(&self) -> NonWhitespaceReader<'a> {
        NonWhitespaceReader {
            segments: self.segments(),
            span: b"",
            character: [0; 4],
            pending: 0..0,
        }
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
            Encoding::Escaped => find_backslash(self.rest.as_bytes()).unwrap_or(self.rest.len()),
        };
        if end > 0 {
            let (span, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Some(Segment::Span(span));
        }
        let (character, length) = decode_escape(&self.rest[1..]);
        self.rest = &self.rest[1 + length..];
        Some(Segment::Character(character))
    }
}

/// The position of the next backslash. It is often near in strings with many escapes, where the setup of `memchr`
/// costs more than a plain loop.
fn find_backslash(text: &[u8]) -> Option<usize> {
    const NEAR: usize = 16;
    let (near, far) = text.split_at(text.len().min(NEAR));
    let found = near.iter().position(|byte| *byte == b'\\');
    found.or_else(|| memchr(b'\\', far).map(|index| near.len() + index))
}

/// The character of an escape and the escape's length after the backslash. A lone surrogate becomes the replacement
/// character.
fn decode_escape(rest: &str) -> (char, usize) {
    let Some(first) = rest.chars().next() else { return (char::REPLACEMENT_CHARACTER, 0) };
    match first {
        'n' => ('\n', 1),
        't' => ('\t', 1),
        'r' => ('\r', 1),
        'b' => ('\u{8}', 1),
        'f' => ('\u{c}', 1),
        'u' => decode_unicode_escape(rest),
        other => (other, other.len_utf8()),
    }
}

fn decode_unicode_escape(rest: &str) -> (char, usize) {
    let code_unit = |from: usize| {
        rest.get(from..from + 4).and_then(|digits| u16::from_str_radix(digits, 16).ok())
    };
    let Some(high) = code_unit(1) else { return (char::REPLACEMENT_CHARACTER, 1) };
    if let Some(character) = char::from_u32(u32::from(high)) {
        return (character, 5);
    }
    let low = code_unit(7).filter(|_| rest.get(5..7) == Some("\\u"));
    let pair = low.and_then(|low| char::decode_utf16([high, low]).next()?.ok());
    pair.map_or((char::REPLACEMENT_CHARACTER, 5), |character| (character, 11))
}

/// See [`JsonStr::without_whitespace`].
pub(crate) struct NonWhitespaceReader<'a> {
    segments: Segments<'a>,
    span: &'a [u8],
    character: [u8; 4],
    pending: std::ops::Range<usize>,
}

impl Read for NonWhitespaceReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            if let Some(index) = self.pending.next() {
                buffer[filled] = self.character[index];
                filled += 1;
            } else if !self.span.is_empty() {
                let (chunk, rest) = self.span.split_at(self.span.len().min(buffer.len() - filled));
                self.span = rest;
                for run in chunk.split(u8::is_ascii_whitespace) {
                    buffer[filled..filled + run.len()].copy_from_slice(run);
                    filled += run.len();
                }
            } else {
                match self.segments.next() {
                    None => break,
                    Some(Segment::Span(span)) => self.span = span.as_bytes(),
                    Some(Segment::Character(character)) if character.is_ascii_whitespace() => {}
                    Some(Segment::Character(character)) => {
                        self.pending = 0..character.encode_utf8(&mut self.character).len();
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
        json_str.write_to(&mut written).expect("writing to memory succeeds");
        assert_eq!(String::from_utf8(written).expect("text"), expected);
        assert_eq!(json_str.char_count(), expected.chars().count());
        for max in 0..expected.chars().count() + 2 {
            assert_eq!(json_str.prefix(max), expected.chars().take(max).collect::<String>());
        }
    }

    #[test]
    fn escapes_are_decoded_as_in_json() {
        check(r#""plain ü 😀""#, "plain ü 😀");
        check(r#""a\n\t\r\b\f\"\\\/z""#, "a\n\t\r\u{8}\u{c}\"\\/z");
        check(r#""\u00fc\ud83d\ude00 \u0000""#, "ü😀 \0");
        check("\"\"", "");
    }

    #[test]
    fn a_lone_surrogate_becomes_the_replacement_character() {
        check(r#""\ud83dx""#, "\u{fffd}x");
        check(r#""\ude00\ud83d\ud83d\ude00""#, "\u{fffd}\u{fffd}😀");
        check(r#""\ud83d\n""#, "\u{fffd}\n");
    }

    #[test]
    fn other_json_types_are_not_strings() {
        for json in ["5", "null", "{}", "[\"a\"]"] {
            assert!(JsonStr::from_raw(&raw(json)).is_none(), "{json}");
        }
    }

    #[test]
    fn whitespace_is_stripped_and_escapes_are_decoded() {
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
        fn every_string_round_trips(text in ".{0,40}", max in 0usize..50) {
            let raw = raw(&serde_json::Value::from(text.as_str()).to_string());
            let json_str = JsonStr::from_raw(&raw).expect("a text");
            prop_assert_eq!(json_str.char_count(), text.chars().count());
            prop_assert_eq!(json_str.prefix(max), text.chars().take(max).collect::<String>());
        }

        #[test]
        fn no_escape_panics(body in "[\\\\ud8c0-9a-fü\"]{0,30}") {
            let json_str = JsonStr { body: &body, encoding: Encoding::Escaped };
            let _any_result = json_str.prefix(usize::MAX);
        }
    }
}

//! JSON for display: indented, coloured, long strings broken at their line ends. No character is left out.

use serde_json::Value as Json;

use crate::text::rich_text::{RichText, TonedText};
use crate::theme::Tone;

/// The indentation per level.
const INDENT: usize = 2;
/// Deeper levels are written on one line.
const MAX_DEPTH: usize = 40;

/// Appends a value.
pub fn push_json(content: &mut RichText, value: &Json) {
    let mut writer = Writer { output: content, depth: 0, line: Vec::new() };
    writer.value(value);
    writer.end_line();
}

struct Writer<'p> {
    output: &'p mut RichText,
    depth: usize,
    line: Vec<TonedText>,
}

impl Writer<'_> {
    fn push(&mut self, tone: Tone, text: impl Into<String>) {
        if self.line.is_empty() {
            self.line.push((Tone::Text, " ".repeat(self.depth * INDENT)));
        }
        self.line.push((tone, text.into()));
    }

    fn end_line(&mut self) {
        let pieces = std::mem::take(&mut self.line);
        if !pieces.is_empty() {
            self.output.push_line((self.depth + 1) * INDENT, pieces);
        }
    }

    fn value(&mut self, value: &Json) {
        match value {
            Json::Object(members) if !members.is_empty() && self.depth < MAX_DEPTH => {
                self.nested(("{", "}"), members.iter().map(|(key, value)| (Some(key), value)));
            }
            Json::Array(items) if !items.is_empty() && self.depth < MAX_DEPTH => {
                self.nested(("[", "]"), items.iter().map(|value| (None, value)));
            }
            Json::String(text) => self.string(text),
            Json::Number(_) | Json::Bool(_) | Json::Null => {
                self.push(Tone::Code, value.to_string())
            }
            Json::Object(_) | Json::Array(_) => self.push(Tone::Text, value.to_string()),
        }
    }

    fn nested<'j>(
        &mut self,
        (open, close): (&str, &str),
        members: impl Iterator<Item = (Option<&'j String>, &'j Json)>,
    ) {
        self.push(Tone::Muted, open);
        self.end_line();
        self.depth += 1;
        let mut members = members.peekable();
        while let Some((key, value)) = members.next() {
            if let Some(key) = key {
                self.push(Tone::Strong, Json::from(key.as_str()).to_string());
                self.push(Tone::Muted, ": ");
            }
            self.value(value);
            if members.peek().is_some() {
                self.push(Tone::Muted, ",");
            }
            self.end_line();
        }
        self.depth -= 1;
        self.push(Tone::Muted, close);
    }

    /// Breaks a string after each escaped line end, which stays visible.
    fn string(&mut self, text: &str) {
        let written = Json::from(text).to_string();
        let lines: Vec<&str> = written.split_inclusive("\\n").collect();
        // A backslash before the `n` may itself be escaped; then the line does not end.
        let is_plain = !written.contains("\\\\");
        if lines.len() < 2 || !is_plain {
            self.push(Tone::Success, written);
            return;
        }
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                self.depth += 1;
                self.push(Tone::Success, *line);
                self.depth -= 1;
            } else {
                self.push(Tone::Success, *line);
            }
            if index + 1 < lines.len() {
                self.end_line();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::theme::{GlyphSet, Palette, ScreenTheme};

    #[track_caller]
    fn check(value: Json, width: u16, expected: &str) {
        let mut content = RichText::default();
        push_json(&mut content, &value);
        let theme = ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Unicode };
        let laid: Vec<String> =
            content.layout(width, &theme).iter().map(ToString::to_string).collect();
        assert_eq!(laid.join("\n"), expected);
    }

    #[test]
    fn members_have_lines_of_their_own() {
        check(
            json!({"a": 1, "b": [true, {}], "c": {}}),
            40,
            "{\n  \"a\": 1,\n  \"b\": [\n    true,\n    {}\n  ],\n  \"c\": {}\n}",
        );
        check(json!([]), 40, "[]");
    }

    #[test]
    fn texts_break_where_their_lines_end_and_where_the_screen_does() {
        check(json!({"a": "x\ny"}), 40, "{\n  \"a\": \"x\\n\n    y\"\n}");
        check(json!({"a": "C:\\new"}), 40, "{\n  \"a\": \"C:\\\\new\"\n}");
        check(json!("aaaa bbbb cccc"), 10, "\"aaaa bbbb\n  cccc\"");
    }

    #[test]
    fn nothing_is_left_raw() {
        check(
            json!({"\x1b]0;x\x07": "\u{202e}\u{1b}[2J"}),
            60,
            "{\n  \"\\u001b]0;x\\u0007\": \"\\u{202e}\\u001b[2J\"\n}",
        );
    }

    #[test]
    fn great_depth_is_written_on_one_line() {
        let mut value = json!(1);
        for _ in 0..100 {
            value = json!([value]);
        }
        let mut content = RichText::default();
        push_json(&mut content, &value);
        let theme = ScreenTheme { palette: Palette::Plain, glyphs: GlyphSet::Unicode };
        assert_eq!(content.layout(500, &theme).len(), 2 * MAX_DEPTH + 1);
    }
}

//! A text field of one line, scrolled to its cursor.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::{Frame, text::Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::text::rich_text::sanitize;
use crate::theme::{ScreenTheme, Tone};
use crate::view::widget::input::{InputFocus, KeyOutcome};

/// The maximum length, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// A text field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextField {
    text: String,
    /// The byte offset of the cursor.
    cursor: usize,
}

impl TextField {
    /// A field with a text, and the cursor at its end.
    pub fn with_text(text: &str) -> TextField {
        let mut written = TextField::default();
        written.insert(text);
        written
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Inserts text at the cursor. Control characters become spaces.
    pub fn insert(&mut self, text: &str) {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        for c in text.trim_end_matches(['\r', '\n']).chars().filter(|c| *c != '\r').map(plain) {
            if self.text.len() + c.len_utf8() > MAX_BYTES {
                return;
            }
            self.text.insert(self.cursor, c);
            self.cursor += c.len_utf8();
        }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
    }

    /// Handles the keys that edit or move the cursor.
    pub fn on_key(&mut self, key: KeyEvent) -> KeyOutcome {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match (key.code, control) {
            (KeyCode::Char('a'), true) | (KeyCode::Home, _) => self.cursor = 0,
            (KeyCode::Char('e'), true) | (KeyCode::End, _) => self.cursor = self.text.len(),
            (KeyCode::Char('u'), true) => {
                self.text.replace_range(..self.cursor, "");
                self.cursor = 0;
            }
            (KeyCode::Char('k'), true) => self.text.truncate(self.cursor),
            (KeyCode::Char('w'), true) => self.remove_to(self.word_start()),
            (KeyCode::Backspace, _) => self.remove_to(self.previous_boundary()),
            (KeyCode::Delete, _) => {
                let after = self.next_boundary();
                self.text.replace_range(self.cursor..after, "");
            }
            (KeyCode::Left, _) => self.cursor = self.previous_boundary(),
            (KeyCode::Right, _) => self.cursor = self.next_boundary(),
            (KeyCode::Char(c), false) => self.insert(c.encode_utf8(&mut [0; 4])),
            (_, _) => return KeyOutcome::NotHandled,
        }
        KeyOutcome::Handled
    }

    fn previous_boundary(&self) -> usize {
        let front = self.text[..self.cursor].grapheme_indices(true).next_back();
        front.map_or(0, |(at, _)| at)
    }

    fn next_boundary(&self) -> usize {
        let next = self.text[self.cursor..].graphemes(true).next();
        self.cursor + next.map_or(0, str::len)
    }

    fn word_start(&self) -> usize {
        let front = self.text[..self.cursor].trim_end();
        front.rfind(' ').map_or(0, |at| at + 1)
    }

    fn remove_to(&mut self, start: usize) {
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
    }

    /// Draws the part around the cursor that fits, and the cursor where the field is focused.
    pub fn draw(&self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme, focus: InputFocus) {
        if area.width == 0 || area.height == 0 {
            return;
        }
        let room = usize::from(area.width);
        let front: Vec<String> = self.text[..self.cursor].graphemes(true).map(sanitize).collect();
        // The cursor needs a column of its own.
        let mut start = front.len();
        let mut used = 0;
        while start > 0 && used + front[start - 1].width() < room {
            start -= 1;
            used += front[start].width();
        }
        let mut shown: String = front[start..].concat();
        shown.push_str(&sanitize(&self.text[self.cursor..].chars().take(room).collect::<String>()));
        let tone = if focus == InputFocus::Focused { Tone::Text } else { Tone::Muted };
        let line = Span::styled(shown, theme.style(tone));
        frame.buffer_mut().set_span(area.x, area.y, &line, area.width);
        if focus == InputFocus::Focused {
            let column = u16::try_from(used).unwrap_or(u16::MAX).min(area.width - 1);
            frame.set_cursor_position((area.x + column, area.y));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str, codes: &[KeyCode]) -> TextField {
        let mut it = TextField::with_text(keys);
        for code in codes {
            it.on_key(KeyEvent::new(*code, KeyModifiers::NONE));
        }
        it
    }

    #[test]
    fn keys_edit_by_whole_characters() {
        use KeyCode::{Backspace, Char, Delete, End, Home, Left};
        for (text, keys, expected) in [
            ("aéb", &[Left, Backspace][..], "ab"),
            ("e\u{301}x", &[Left, Left, Delete], "x"),
            ("漢字", &[Home, Char('a'), End, Char('b')], "a漢字b"),
            ("", &[Backspace, Delete, Left], ""),
        ] {
            assert_eq!(typed(text, keys).text(), expected, "{text}");
        }
    }

    #[test]
    fn pasted_text_stays_on_its_line() {
        assert_eq!(TextField::with_text("a\r\nb\x1b\n").text(), "a b ");
        assert_eq!(TextField::with_text(&"x".repeat(MAX_BYTES + 5)).text().len(), MAX_BYTES);
    }
}

//! One line that somebody types: a text, a cursor in it, and the part that fits into the room there is.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::{Frame, text::Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::screen::dialog::paper::safe;
use crate::screen::look::{Look, Tone};

/// The longest text, in bytes.
const LONGEST: usize = 64 * 1024;

/// A line that is being typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TextBox {
    text: String,
    /// Where the next character goes, in bytes.
    cursor: usize,
}

/// Was a key meant for the text?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Yes, and it may be another text now.
    Yes,
    /// No.
    No,
}

/// Do the keys go here?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Focus {
    /// Yes.
    Here,
    /// No.
    Elsewhere,
}

impl TextBox {
    /// A text to begin with, the cursor behind it.
    pub fn with(text: &str) -> TextBox {
        let mut written = TextBox::default();
        written.insert(text);
        written
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Puts text at the cursor. What would break the line becomes a space.
    pub fn insert(&mut self, text: &str) {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        for c in text.trim_end_matches(['\r', '\n']).chars().filter(|c| *c != '\r').map(plain) {
            if self.text.len() + c.len_utf8() > LONGEST {
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

    /// Takes a key, where it is one that writes or moves.
    pub fn key(&mut self, key: KeyEvent) -> Taken {
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
            (KeyCode::Backspace, _) => self.remove_to(self.before()),
            (KeyCode::Delete, _) => {
                let after = self.after();
                self.text.replace_range(self.cursor..after, "");
            }
            (KeyCode::Left, _) => self.cursor = self.before(),
            (KeyCode::Right, _) => self.cursor = self.after(),
            (KeyCode::Char(c), false) => self.insert(c.encode_utf8(&mut [0; 4])),
            (_, _) => return Taken::No,
        }
        Taken::Yes
    }

    fn before(&self) -> usize {
        let front = self.text[..self.cursor].grapheme_indices(true).next_back();
        front.map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
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

    /// Draws what fits, around the cursor, and shows the cursor where the keys go here.
    pub fn draw(&self, frame: &mut Frame<'_>, area: Rect, look: &Look, focus: Focus) {
        if area.width == 0 || area.height == 0 {
            return;
        }
        let room = usize::from(area.width);
        let front: Vec<String> = self.text[..self.cursor].graphemes(true).map(safe).collect();
        // The cursor needs a column of its own.
        let mut start = front.len();
        let mut used = 0;
        while start > 0 && used + front[start - 1].width() < room {
            start -= 1;
            used += front[start].width();
        }
        let mut shown: String = front[start..].concat();
        shown.push_str(&safe(&self.text[self.cursor..].chars().take(room).collect::<String>()));
        let tone = if focus == Focus::Here { Tone::Text } else { Tone::Faint };
        let line = Span::styled(shown, look.style(tone));
        frame.buffer_mut().set_span(area.x, area.y, &line, area.width);
        if focus == Focus::Here {
            let column = u16::try_from(used).unwrap_or(u16::MAX).min(area.width - 1);
            frame.set_cursor_position((area.x + column, area.y));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str, codes: &[KeyCode]) -> TextBox {
        let mut it = TextBox::with(keys);
        for code in codes {
            it.key(KeyEvent::new(*code, KeyModifiers::NONE));
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
    fn what_is_pasted_stays_on_its_line() {
        assert_eq!(TextBox::with("a\r\nb\x1b\n").text(), "a b ");
        assert_eq!(TextBox::with(&"x".repeat(LONGEST + 5)).text().len(), LONGEST);
    }
}

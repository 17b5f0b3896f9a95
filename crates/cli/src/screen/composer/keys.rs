//! Which key does what to the text that is being written.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Composer, Edit, Side};

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// It was for the text.
    Taken,
    /// The text is to be sent.
    Send,
    /// The cursor is in the first line and should go further up.
    Above,
    /// The cursor is in the last line and should go further down.
    Below,
    /// It means nothing here.
    NotOurs,
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;

impl Composer {
    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Reply {
        match (key.code, key.modifiers) {
            (KeyCode::Enter, ALT | SHIFT) | (KeyCode::Char('j'), CONTROL) => self.insert("\n"),
            (KeyCode::Enter, NONE) => return self.enter(),
            (KeyCode::Up, NONE) | (KeyCode::Char('p'), CONTROL) => return self.up(),
            (KeyCode::Down, NONE) | (KeyCode::Char('n'), CONTROL) => return self.down(),
            (KeyCode::Char(c), NONE | SHIFT) => self.insert(c.encode_utf8(&mut [0; 4])),
            (_, _) => return self.edit_key(key),
        }
        Reply::Taken
    }

    fn edit_key(&mut self, key: KeyEvent) -> Reply {
        match (key.code, key.modifiers) {
            (KeyCode::Backspace, NONE | SHIFT) | (KeyCode::Char('h'), CONTROL) => {
                self.delete(self.before()..self.cursor);
            }
            (KeyCode::Delete, NONE) | (KeyCode::Char('d'), CONTROL) => {
                self.delete(self.cursor..self.behind());
            }
            (KeyCode::Char('k'), CONTROL) => self.cut_to_end(),
            (KeyCode::Char('u'), CONTROL) => self.cut(self.line_start()..self.cursor, Side::Before),
            (KeyCode::Char('w'), CONTROL) => {
                self.cut(self.spaced_start()..self.cursor, Side::Before);
            }
            (KeyCode::Backspace, ALT | CONTROL) => {
                self.cut(self.word_start()..self.cursor, Side::Before);
            }
            (KeyCode::Char('d'), ALT) | (KeyCode::Delete, ALT | CONTROL) => {
                self.cut(self.cursor..self.word_end(), Side::Behind);
            }
            (KeyCode::Char('y'), CONTROL) => self.yank(),
            // Terminals send the first, the second or the third for control and underscore.
            (KeyCode::Char('_' | '7' | '/'), CONTROL) => self.undo(),
            (KeyCode::Char('_'), modifiers) if modifiers == CONTROL | SHIFT => self.undo(),
            (_, _) => return self.move_key(key),
        }
        Reply::Taken
    }

    fn move_key(&mut self, key: KeyEvent) -> Reply {
        let at = match (key.code, key.modifiers) {
            (KeyCode::Left, NONE) | (KeyCode::Char('b'), CONTROL) => self.before(),
            (KeyCode::Right, NONE) | (KeyCode::Char('f'), CONTROL) => self.behind(),
            (KeyCode::Left, ALT | CONTROL) | (KeyCode::Char('b'), ALT) => self.word_start(),
            (KeyCode::Right, ALT | CONTROL) | (KeyCode::Char('f'), ALT) => self.word_end(),
            (KeyCode::Home, NONE) | (KeyCode::Char('a'), CONTROL) => self.line_start(),
            (KeyCode::End, NONE) | (KeyCode::Char('e'), CONTROL) => self.line_end(),
            (KeyCode::Char('<'), ALT) => 0,
            (KeyCode::Char('>'), ALT) => self.text.len(),
            (_, _) => return Reply::NotOurs,
        };
        self.move_to(at);
        Reply::Taken
    }

    /// A backslash in front of the cursor makes a new line, for terminals that have no other way.
    fn enter(&mut self) -> Reply {
        if !self.text[..self.cursor].ends_with('\\') {
            return Reply::Send;
        }
        self.step(Edit::Other);
        self.text.replace_range(self.cursor - 1..self.cursor, "\n");
        Reply::Taken
    }

    /// To the end of the line; at its end, the line break itself.
    fn cut_to_end(&mut self) {
        let end = self.line_end();
        let end = if end == self.cursor { self.behind() } else { end };
        self.cut(self.cursor..end, Side::Behind);
    }

    fn yank(&mut self) {
        if self.cut.is_empty() {
            return;
        }
        self.step(Edit::Other);
        let cut = self.cut.clone();
        self.text.insert_str(self.cursor, &cut);
        self.cursor += cut.len();
    }

    fn up(&mut self) -> Reply {
        let laid = self.layout(self.width);
        match laid.row.checked_sub(1) {
            None => Reply::Above,
            Some(row) => self.go(&laid, row),
        }
    }

    fn down(&mut self) -> Reply {
        let laid = self.layout(self.width);
        match laid.row + 1 < laid.rows.len() {
            false => Reply::Below,
            true => self.go(&laid, laid.row + 1),
        }
    }

    fn go(&mut self, laid: &super::Laid, row: usize) -> Reply {
        let column = self.column.unwrap_or(laid.column);
        let at = laid.at(row, column);
        self.move_to(at);
        self.column = Some(column);
        Reply::Taken
    }
}

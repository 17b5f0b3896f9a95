//! The keys of the composer.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Composer, CutDirection, UndoGroup};

/// What a key led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComposerOutcome {
    /// The composer handled it.
    Handled,
    /// The draft is to be sent.
    Submit,
    /// The cursor would leave the first row upwards.
    LeftTop,
    /// The cursor would leave the last row downwards.
    LeftBottom,
    /// The composer has no use for it.
    Ignored,
}

const NONE: KeyModifiers = KeyModifiers::NONE;
const SHIFT: KeyModifiers = KeyModifiers::SHIFT;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;

impl Composer {
    /// Handles a key.
    pub fn on_key(&mut self, key: KeyEvent) -> ComposerOutcome {
        match (key.code, key.modifiers) {
            (KeyCode::Enter, ALT | SHIFT) | (KeyCode::Char('j'), CONTROL) => self.insert("\n"),
            (KeyCode::Enter, NONE) => return self.enter(),
            (KeyCode::Up, NONE) | (KeyCode::Char('p'), CONTROL) => return self.up(),
            (KeyCode::Down, NONE) | (KeyCode::Char('n'), CONTROL) => return self.down(),
            (KeyCode::Char(c), NONE | SHIFT) => self.insert(c.encode_utf8(&mut [0; 4])),
            (_, _) => return self.edit_key(key),
        }
        ComposerOutcome::Handled
    }

    fn edit_key(&mut self, key: KeyEvent) -> ComposerOutcome {
        match (key.code, key.modifiers) {
            (KeyCode::Backspace, NONE | SHIFT) | (KeyCode::Char('h'), CONTROL) => {
                self.delete(self.previous_boundary()..self.cursor);
            }
            (KeyCode::Delete, NONE) | (KeyCode::Char('d'), CONTROL) => {
                self.delete(self.cursor..self.next_boundary());
            }
            (KeyCode::Char('k'), CONTROL) => self.cut_to_end(),
            (KeyCode::Char('u'), CONTROL) => {
                self.cut(self.line_start()..self.cursor, CutDirection::Backward)
            }
            (KeyCode::Char('w'), CONTROL) => {
                self.cut(self.whitespace_word_start()..self.cursor, CutDirection::Backward);
            }
            (KeyCode::Backspace, ALT | CONTROL) => {
                self.cut(self.word_start()..self.cursor, CutDirection::Backward);
            }
            (KeyCode::Char('d'), ALT) | (KeyCode::Delete, ALT | CONTROL) => {
                self.cut(self.cursor..self.word_end(), CutDirection::Forward);
            }
            (KeyCode::Char('y'), CONTROL) => self.yank(),
            // Terminals send any of the three for Ctrl-_.
            (KeyCode::Char('_' | '7' | '/'), CONTROL) => self.undo(),
            (KeyCode::Char('_'), modifiers) if modifiers == CONTROL | SHIFT => self.undo(),
            (_, _) => return self.move_key(key),
        }
        ComposerOutcome::Handled
    }

    fn move_key(&mut self, key: KeyEvent) -> ComposerOutcome {
        let at = match (key.code, key.modifiers) {
            (KeyCode::Left, NONE) | (KeyCode::Char('b'), CONTROL) => self.previous_boundary(),
            (KeyCode::Right, NONE) | (KeyCode::Char('f'), CONTROL) => self.next_boundary(),
            (KeyCode::Left, ALT | CONTROL) | (KeyCode::Char('b'), ALT) => self.word_start(),
            (KeyCode::Right, ALT | CONTROL) | (KeyCode::Char('f'), ALT) => self.word_end(),
            (KeyCode::Home, NONE) | (KeyCode::Char('a'), CONTROL) => self.line_start(),
            (KeyCode::End, NONE) | (KeyCode::Char('e'), CONTROL) => self.line_end(),
            (KeyCode::Char('<'), ALT) => 0,
            (KeyCode::Char('>'), ALT) => self.text.len(),
            (_, _) => return ComposerOutcome::Ignored,
        };
        self.move_to(at);
        ComposerOutcome::Handled
    }

    /// Sends the draft; after a backslash, starts a new line instead, for terminals without another key for that.
    fn enter(&mut self) -> ComposerOutcome {
        if !self.text[..self.cursor].ends_with('\\') {
            return ComposerOutcome::Submit;
        }
        self.save_undo_step(UndoGroup::Other);
        self.text.replace_range(self.cursor - 1..self.cursor, "\n");
        ComposerOutcome::Handled
    }

    /// Cuts to the end of the line; at its end, the line break.
    fn cut_to_end(&mut self) {
        let end = self.line_end();
        let end = if end == self.cursor { self.next_boundary() } else { end };
        self.cut(self.cursor..end, CutDirection::Forward);
    }

    fn yank(&mut self) {
        if self.clipboard.is_empty() {
            return;
        }
        self.save_undo_step(UndoGroup::Other);
        let cut = self.clipboard.clone();
        self.text.insert_str(self.cursor, &cut);
        self.cursor += cut.len();
    }

    fn up(&mut self) -> ComposerOutcome {
        let layout = self.layout(self.width);
        match layout.row.checked_sub(1) {
            None => ComposerOutcome::LeftTop,
            Some(row) => self.move_to_row(&layout, row),
        }
    }

    fn down(&mut self) -> ComposerOutcome {
        let layout = self.layout(self.width);
        match layout.row + 1 < layout.rows.len() {
            false => ComposerOutcome::LeftBottom,
            true => self.move_to_row(&layout, layout.row + 1),
        }
    }

    fn move_to_row(&mut self, layout: &super::ComposerLayout, row: usize) -> ComposerOutcome {
        let column = self.preferred_column.unwrap_or(layout.column);
        let at = layout.offset_at(row, column);
        self.move_to(at);
        self.preferred_column = Some(column);
        ComposerOutcome::Handled
    }
}

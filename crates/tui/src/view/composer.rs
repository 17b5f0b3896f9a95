//! The composer: a draft of several lines with its cursor, clipboard, undo steps and pastes. Keys are in
//! `composer::keys`, rows in `composer::layout`; sending is left to `update`.

pub(crate) mod completion;
mod keys;
mod layout;

pub use keys::ComposerOutcome;
pub use layout::ComposerLayout;

use unicode_segmentation::UnicodeSegmentation;

/// Pastes of more lines are shown as a label.
const MAX_INLINE_PASTE_LINES: usize = 6;
/// Pastes of more characters are shown as a label.
const MAX_INLINE_PASTE_CHARS: usize = 1000;
/// The number of undo steps.
const MAX_UNDO_STEPS: usize = 200;
/// The first of the private-use characters that stand for pastes in the draft.
const FIRST_PASTE_CHAR: u32 = 0x10_F000;
/// The maximum number of such pastes in a draft.
const MAX_PASTES: u32 = 0x800;

/// The composer.
#[derive(Debug, Default)]
pub struct Composer {
    /// The draft. A private-use character stands for a long paste.
    text: String,
    /// The byte offset of the cursor.
    cursor: usize,
    /// The column that the cursor keeps while it moves over shorter lines.
    preferred_column: Option<usize>,
    pastes: Vec<String>,
    /// The text that was cut last.
    clipboard: String,
    undo: Vec<(String, usize)>,
    last_edit: UndoGroup,
    /// The width at which it was drawn last.
    width: usize,
}

/// The kind of the last edit; consecutive edits of one kind are undone together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum UndoGroup {
    #[default]
    None,
    Typed,
    Deleted,
    Cut,
    Other,
}

impl Composer {
    /// Is the draft empty?
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The draft, with characters that stand for pastes.
    pub fn draft(&self) -> &str {
        &self.text
    }

    /// The byte offset of the cursor in the draft.
    pub fn cursor(&self) -> usize {
        self.cursor
    }

    /// The draft with all pastes in full.
    pub fn text_with_pastes(&self) -> String {
        let mut whole = String::with_capacity(self.text.len());
        for c in self.text.chars() {
            match self.paste_of(c) {
                Some(paste) => whole.push_str(paste),
                None => whole.push(c),
            }
        }
        whole
    }

    /// Empties the composer and returns its text, with all pastes in full.
    pub fn take(&mut self) -> String {
        let whole = self.text_with_pastes();
        self.clear();
        whole
    }

    /// Empties the composer.
    pub fn clear(&mut self) {
        *self = Composer {
            clipboard: std::mem::take(&mut self.clipboard),
            width: self.width,
            ..Composer::default()
        };
    }

    /// Replaces the draft as one undo step.
    pub fn replace(&mut self, text: &str) {
        self.save_undo_step(UndoGroup::Other);
        self.text = sanitize(text);
        self.cursor = self.text.len();
    }

    /// Replaces a part of the draft, and puts the cursor after it.
    pub fn replace_range(&mut self, range: std::ops::Range<usize>, text: &str) {
        self.save_undo_step(UndoGroup::Other);
        let text = sanitize(text);
        self.cursor = range.start + text.len();
        self.text.replace_range(range, &text);
    }

    /// Inserts text at the cursor.
    pub fn insert(&mut self, text: &str) {
        let text = sanitize(text);
        let edit =
            if text.chars().all(char::is_whitespace) { UndoGroup::Other } else { UndoGroup::Typed };
        self.save_undo_step(edit);
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
    }

    /// Pastes text at the cursor. A long paste becomes a label.
    pub fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let is_long = text.lines().count() > MAX_INLINE_PASTE_LINES
            || text.chars().count() > MAX_INLINE_PASTE_CHARS;
        let number = u32::try_from(self.pastes.len()).unwrap_or(MAX_PASTES);
        let sign =
            char::from_u32(FIRST_PASTE_CHAR + number).filter(|_| number < MAX_PASTES && is_long);
        match sign {
            Some(sign) => {
                self.save_undo_step(UndoGroup::Other);
                self.pastes.push(text);
                self.text.insert(self.cursor, sign);
                self.cursor += sign.len_utf8();
            }
            None => {
                self.last_edit = UndoGroup::None;
                self.insert(&text);
                self.last_edit = UndoGroup::None;
            }
        }
    }

    /// Undoes one step.
    pub fn undo(&mut self) {
        if let Some((text, cursor)) = self.undo.pop() {
            self.text = text;
            self.cursor = cursor;
        }
        self.last_edit = UndoGroup::None;
        self.preferred_column = None;
    }

    /// The label of a character that stands for a paste.
    fn paste_label(&self, c: char) -> Option<String> {
        self.paste_of(c).map(|paste| match paste.lines().count() {
            0 | 1 => format!("[pasted {} characters]", paste.chars().count()),
            lines => format!("[pasted {lines} lines]"),
        })
    }

    fn paste_of(&self, c: char) -> Option<&String> {
        let number = u32::from(c).checked_sub(FIRST_PASTE_CHAR)?;
        self.pastes.get(usize::try_from(number).ok()?)
    }

    /// Saves an undo step where another kind of edit begins.
    fn save_undo_step(&mut self, edit: UndoGroup) {
        let goes_on =
            edit == self.last_edit && matches!(edit, UndoGroup::Typed | UndoGroup::Deleted);
        if !goes_on {
            if self.undo.len() == MAX_UNDO_STEPS {
                self.undo.remove(0);
            }
            self.undo.push((self.text.clone(), self.cursor));
        }
        self.last_edit = edit;
        self.preferred_column = None;
    }

    fn delete(&mut self, range: std::ops::Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.save_undo_step(UndoGroup::Deleted);
        self.cursor = range.start;
        self.text.replace_range(range, "");
    }

    /// Cuts a range; consecutive cuts are pasted together.
    fn cut(&mut self, range: std::ops::Range<usize>, side: CutDirection) {
        if range.is_empty() {
            return;
        }
        let together = self.last_edit == UndoGroup::Cut;
        self.save_undo_step(UndoGroup::Cut);
        let piece = self.text[range.clone()].to_owned();
        self.clipboard = match (together, side) {
            (false, _) => piece,
            (true, CutDirection::Forward) => format!("{}{piece}", self.clipboard),
            (true, CutDirection::Backward) => format!("{piece}{}", self.clipboard),
        };
        self.cursor = range.start;
        self.text.replace_range(range, "");
    }

    fn move_to(&mut self, at: usize) {
        self.cursor = at;
        self.preferred_column = None;
        self.last_edit = UndoGroup::None;
    }

    fn previous_boundary(&self) -> usize {
        let front = &self.text[..self.cursor];
        front.grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn next_boundary(&self) -> usize {
        let rest = &self.text[self.cursor..];
        self.cursor + rest.graphemes(true).next().map_or(0, str::len)
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn word_start(&self) -> usize {
        let front = self.text[..self.cursor].trim_end_matches(|c| !is_word(c));
        front.trim_end_matches(is_word).len()
    }

    fn word_end(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let word = rest.trim_start_matches(|c| !is_word(c));
        let left = word.trim_start_matches(is_word);
        self.text.len() - left.len()
    }

    /// The start of the word before the cursor, delimited by whitespace.
    fn whitespace_word_start(&self) -> usize {
        let front = self.text[..self.cursor].trim_end();
        front
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + front[at..].chars().next().map_or(0, char::len_utf8))
    }
}

/// The side of the cursor that is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutDirection {
    Backward,
    Forward,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The text without paste characters and control characters.
fn sanitize(text: &str) -> String {
    let is_ours = |c: char| {
        let number = u32::from(c);
        (FIRST_PASTE_CHAR..FIRST_PASTE_CHAR + MAX_PASTES).contains(&number)
    };
    let keeps = |c: &char| (!c.is_control() || matches!(c, '\n' | '\t')) && !is_ours(*c);
    text.replace("\r\n", "\n").replace('\r', "\n").chars().filter(keeps).collect()
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;

    /// Types a script: `<C-a>` and `<M-b>` are keys, `|` in the expected text is the cursor.
    #[track_caller]
    fn check(script: &str, expected: &str) {
        let mut composer = typed(script);
        composer.text.insert(composer.cursor, '|');
        assert_eq!(composer.text, expected);
    }

    fn typed(script: &str) -> Composer {
        let mut composer = Composer { width: 40, ..Composer::default() };
        let mut rest = script;
        while let Some(c) = rest.chars().next() {
            let (key, length) = match rest.strip_prefix('<').and_then(|it| it.split_once('>')) {
                Some((name, _)) => (named(name), name.len() + 2),
                None => (KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), c.len_utf8()),
            };
            composer.on_key(key);
            rest = &rest[length..];
        }
        composer
    }

    fn named(name: &str) -> KeyEvent {
        let (modifiers, key) = match name.split_once('-') {
            Some(("C", key)) => (KeyModifiers::CONTROL, key),
            Some(("M", key)) => (KeyModifiers::ALT, key),
            Some(("S", key)) => (KeyModifiers::SHIFT, key),
            Some(_) | None => (KeyModifiers::NONE, name),
        };
        let code = match key {
            "left" => KeyCode::Left,
            "right" => KeyCode::Right,
            "up" => KeyCode::Up,
            "down" => KeyCode::Down,
            "back" => KeyCode::Backspace,
            "del" => KeyCode::Delete,
            "home" => KeyCode::Home,
            "end" => KeyCode::End,
            "enter" => KeyCode::Enter,
            other => KeyCode::Char(other.chars().next().expect("a letter")),
        };
        KeyEvent::new(code, modifiers)
    }

    #[test]
    fn words_and_lines_are_moved_over_and_cut() {
        check("one two<M-b>", "one |two");
        check("one two<C-a>x", "x|one two");
        check("one two<C-a><M-f><C-k>", "one|");
        check("one two three<C-w><C-w><C-y>!", "one two three!|");
        check("one two<C-a><M-d><M-d><C-e><C-y>", "one two|");
        check("one two<C-u>", "|");
        check("a/b c<M-back>", "a/b |");
    }

    #[test]
    fn letters_are_whole_graphemes() {
        check("ae\u{301}<back>", "a|");
        check("日本<left><del>", "日|");
    }

    #[test]
    fn a_new_line_is_made_four_ways() {
        check("a<M-enter>b<S-enter>c<C-j>d\\<enter>e", "a\nb\nc\nd\ne|");
    }

    #[test]
    fn the_cursor_keeps_its_column_over_short_lines() {
        check("long line<C-j>x<C-j>other line<up><up>", "long line|\nx\nother line");
        check("abcdef<C-j>x<C-j>abcdef<left><left><up><up>", "abcd|ef\nx\nabcdef");
    }

    #[test]
    fn typing_is_undone_by_words() {
        check("one two<C-_>", "one |");
        check("one two<C-_><C-_><C-_>", "|");
        check("one<C-u><C-_>", "one|");
    }

    #[test]
    fn a_long_paste_is_one_word_and_is_sent_whole() {
        let mut composer = typed("see ");
        let pasted = "line\n".repeat(20);
        composer.paste(&pasted);
        composer.insert(" end");
        assert_eq!(composer.text_with_pastes(), format!("see {pasted} end"));
        let sign = composer.text.chars().nth(4).expect("the paste");
        assert_eq!(composer.paste_label(sign).as_deref(), Some("[pasted 20 lines]"));
        for _ in 0..5 {
            composer.on_key(named("back"));
        }
        assert_eq!(composer.text_with_pastes(), "see ");
    }

    #[test]
    fn a_short_paste_is_text_and_paste_characters_cannot_be_typed() {
        let mut composer = Composer::default();
        composer.paste("a\r\nb\u{1b}[2J\u{10f000}");
        assert_eq!(composer.text_with_pastes(), "a\nb[2J");
    }

    #[test]
    fn enter_sends_and_arrows_at_the_edge_are_not_ours() {
        let mut composer = typed("hello");
        assert_eq!(composer.on_key(named("enter")), ComposerOutcome::Submit);
        assert_eq!(composer.on_key(named("up")), ComposerOutcome::LeftTop);
        assert_eq!(composer.on_key(named("down")), ComposerOutcome::LeftBottom);
        assert_eq!(composer.take(), "hello");
        assert!(composer.is_empty());
    }
}

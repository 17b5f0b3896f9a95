//! A row of buttons, one of them selected.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::text::rich_text::sanitize_and_truncate;
use crate::theme::{GlyphSet, ScreenTheme, Tone};
use crate::view::widget::input::{InputFocus, KeyOutcome};

/// A row of buttons, one of them selected.
#[derive(Debug, Clone)]
pub struct ButtonRow {
    labels: Vec<String>,
    /// The index of the selected button.
    pub selected: usize,
}

impl ButtonRow {
    /// A row of buttons.
    pub fn new(labels: &[&str], selected: usize) -> ButtonRow {
        ButtonRow { labels: labels.iter().map(|it| (*it).to_owned()).collect(), selected }
    }

    /// Handles the keys that select a button.
    pub fn on_key(&mut self, key: KeyEvent) -> KeyOutcome {
        let last = self.labels.len().saturating_sub(1);
        match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
            (KeyCode::Left | KeyCode::BackTab, _) => {
                self.selected = self.selected.saturating_sub(1)
            }
            (KeyCode::Right | KeyCode::Tab, _) => self.selected = (self.selected + 1).min(last),
            (KeyCode::Char(c), false) => {
                let number = c.to_digit(10).and_then(|it| usize::try_from(it).ok());
                match number.and_then(|it| it.checked_sub(1)).filter(|it| *it <= last) {
                    Some(at) => self.selected = at,
                    None => return KeyOutcome::NotHandled,
                }
            }
            (_, _) => return KeyOutcome::NotHandled,
        }
        KeyOutcome::Handled
    }

    /// Lays the buttons out in lines. The selection is visible without colours, too.
    pub fn layout(&self, width: u16, theme: &ScreenTheme, focus: InputFocus) -> Vec<Line<'static>> {
        let mark = match theme.glyphs {
            GlyphSet::Unicode => "▸",
            GlyphSet::Ascii => ">",
        };
        let mut lines: Vec<Line<'static>> = vec![Line::default()];
        for (index, label) in self.labels.iter().enumerate() {
            let is_chosen = index == self.selected && focus == InputFocus::Focused;
            let front = if is_chosen { mark } else { " " };
            let text = sanitize_and_truncate(
                &format!("{front}{} {label} ", index + 1),
                usize::from(width),
            );
            let tone = if is_chosen { Tone::Selected } else { Tone::Text };
            let last = lines.len() - 1;
            let used = lines[last].width();
            if used > 0 && used + 1 + text.width() > usize::from(width) {
                lines.push(Line::default());
            } else if used > 0 {
                lines[last].push_span(" ");
            }
            let last = lines.len() - 1;
            lines[last].push_span(Span::styled(text, theme.style(tone)));
        }
        lines
    }
}

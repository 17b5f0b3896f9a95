//! The list of the project's conversations, to continue one of them.

use std::time::{Duration, SystemTime};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use switchboard_chat::transcript::TranscriptSummary;

use crate::text::wrap::truncate;
use crate::theme::{ScreenTheme, Tone};
use switchboard::config::display::{pluralize, sanitize_line};

/// The list.
#[derive(Debug)]
pub struct ConversationPicker {
    conversations: Vec<TranscriptSummary>,
    selected: usize,
    now: SystemTime,
}

/// What a key led to.
#[derive(Debug, PartialEq, Eq)]
pub enum PickOutcome {
    /// The user has not chosen yet.
    Pending,
    /// The user wants none of them.
    Cancelled,
    /// The user chose the conversation of this id.
    Selected(String),
}

impl ConversationPicker {
    /// A list of conversations, the latest first.
    pub fn new(conversations: Vec<TranscriptSummary>, now: SystemTime) -> ConversationPicker {
        ConversationPicker { conversations, selected: 0, now }
    }

    /// Takes a key.
    pub fn on_key(&mut self, key: KeyEvent) -> PickOutcome {
        match (key.code, key.modifiers) {
            (KeyCode::Esc | KeyCode::Char('q'), KeyModifiers::NONE)
            | (KeyCode::Char('c' | 'd'), KeyModifiers::CONTROL) => return PickOutcome::Cancelled,
            (KeyCode::Up | KeyCode::Char('k'), _) => {
                self.selected = self.selected.saturating_sub(1)
            }
            (KeyCode::Down | KeyCode::Char('j'), _) => {
                self.selected = (self.selected + 1).min(self.conversations.len().saturating_sub(1));
            }
            (KeyCode::Enter, _) => {
                let chosen = self.conversations.get(self.selected).map(|it| it.id.clone());
                return chosen.map_or(PickOutcome::Cancelled, PickOutcome::Selected);
            }
            (_, _) => {}
        }
        PickOutcome::Pending
    }

    /// Draws the list.
    pub fn draw(&self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme) {
        let buffer = frame.buffer_mut();
        let title = "Which conversation?  (arrows and Enter; Esc quits)";
        buffer.set_stringn(
            area.x,
            area.y,
            title,
            usize::from(area.width),
            theme.style(Tone::Accent),
        );
        let rows = usize::from(area.height.saturating_sub(2));
        let first = (self.selected + 1).saturating_sub(rows);
        for ((y, summary), at) in
            (area.y + 2..area.bottom()).zip(&self.conversations[first..]).zip(first..)
        {
            let tone = if at == self.selected { Tone::Selected } else { Tone::Text };
            let when = format!(" {:>9} ", age_text(summary, self.now));
            let room = usize::from(area.width).saturating_sub(when.len() + 1);
            let line = Line::from(vec![
                Span::styled(when, theme.style(Tone::Muted)),
                Span::styled(truncate(&sanitize_line(&summary.preview), room), theme.style(tone)),
            ]);
            buffer.set_line(area.x, y, &line, area.width);
        }
    }
}

/// How long ago the last message was.
fn age_text(summary: &TranscriptSummary, now: SystemTime) -> String {
    let since = now.duration_since(summary.modified).unwrap_or(Duration::ZERO).as_secs();
    let (count, one, many) = match since {
        0..60 => return "just now".to_owned(),
        60..3600 => (since / 60, "minute", "minutes"),
        3600..86_400 => (since / 3600, "hour", "hours"),
        86_400.. => (since / 86_400, "day", "days"),
    };
    pluralize(usize::try_from(count).unwrap_or(usize::MAX), one, many)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::test_support::{TEST_THEME, render};

    fn list() -> ConversationPicker {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let summary = |id: &str, seconds: u64, words: &str| TranscriptSummary {
            id: id.to_owned(),
            modified: now - Duration::from_secs(seconds),
            preview: words.to_owned(),
            messages: 2,
        };
        let all = vec![
            summary("a", 5, "the latest"),
            summary("b", 7300, "an older\none"),
            summary("c", 400_000, "\u{1b}[2Jthe oldest"),
        ];
        ConversationPicker::new(all, now)
    }

    #[test]
    fn the_latest_is_first_and_texts_do_nothing() {
        let list = list();
        insta::assert_snapshot!(render((50, 6), |frame| list.draw(frame, frame.area(), &TEST_THEME)), @r"
        Which conversation?  (arrows and Enter; Esc quits)

          just now the latest
           2 hours an older one
            4 days the oldest
        ");
    }

    #[test]
    fn one_is_chosen_or_none() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let mut list = list();
        for _ in 0..5 {
            assert_eq!(list.on_key(key(KeyCode::Down)), PickOutcome::Pending);
        }
        assert_eq!(list.on_key(key(KeyCode::Up)), PickOutcome::Pending);
        assert_eq!(list.on_key(key(KeyCode::Enter)), PickOutcome::Selected("b".to_owned()));
        assert_eq!(list.on_key(key(KeyCode::Esc)), PickOutcome::Cancelled);
    }
}

//! Whose turn it is. One dialog at a time, in the order in which they came, those that only wait behind those that
//! ask. What was typed before somebody could read a question does not answer it.

use std::time::{Duration, Instant};

use crossterm::event::{KeyEvent, KeyEventKind};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use unicode_width::UnicodeWidthStr;

use crate::theme::{ScreenTheme, Tone};
use crate::view::dialog::request::DialogRequest;
use crate::view::overlay::{Dialog, Notice, OverlayOutcome, Redraw, Urgency};

/// How long a dialog that just appeared takes no keys. Somebody who types meanwhile has not read it yet, so the time
/// begins anew with every key that comes too early.
pub const INPUT_DELAY: Duration = Duration::from_millis(300);

/// Dialogs that wait for an answer. Dropping it answers no to all of them.
#[derive(Default)]
pub struct DialogQueue {
    dialogs: Vec<QueuedDialog>,
    /// How many there have been.
    count: u64,
    /// Which one was drawn last, and until when it takes no keys.
    shown: Option<(u64, Instant)>,
}

struct QueuedDialog {
    number: u64,
    dialog: Box<dyn Dialog>,
}

impl std::fmt::Debug for DialogQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.dialogs.len()).finish_non_exhaustive()
    }
}

impl DialogQueue {
    /// Is nothing asked?
    pub fn is_empty(&self) -> bool {
        self.dialogs.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.dialogs.len()
    }

    /// Takes a question, behind those that came before.
    pub fn push(&mut self, question: Box<DialogRequest>) {
        self.count += 1;
        self.dialogs.push(QueuedDialog { number: self.count, dialog: question.into_dialog() });
    }

    /// Lets go of dialogs whose answers nobody wants any more.
    pub fn remove_withdrawn(&mut self) -> Redraw {
        let before = self.dialogs.len();
        self.dialogs.retain(|it| it.dialog.is_wanted());
        if before == self.dialogs.len() { Redraw::No } else { Redraw::Yes }
    }

    fn current(&self) -> Option<usize> {
        let asks = self.dialogs.iter().position(|it| it.dialog.urgency() == Urgency::NeedsAnswer);
        asks.or_else(|| (!self.dialogs.is_empty()).then_some(0))
    }

    /// The part of an area that the dialog wants, at its bottom.
    pub fn area(&mut self, area: Rect, theme: &ScreenTheme) -> Rect {
        let Some(at) = self.current() else { return Rect { height: 0, ..area } };
        let height = self.dialogs[at].dialog.preferred_height(area.width, theme).min(area.height);
        Rect { y: area.bottom() - height, height, ..area }
    }

    /// The number of the dialog that somebody can see, and from when on it takes keys.
    pub fn shown_dialog(&self) -> Option<(u64, Instant)> {
        let number = self.dialogs[self.current()?].number;
        self.shown.filter(|(shown, _)| *shown == number)
    }

    /// Draws the dialog whose turn it is. From now on somebody can read it.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, theme: &ScreenTheme, now: Instant) {
        self.remove_withdrawn();
        let Some(at) = self.current() else { return };
        let number = self.dialogs[at].number;
        if self.shown.is_none_or(|(shown, _)| shown != number) {
            self.shown = Some((number, now + INPUT_DELAY));
        }
        self.dialogs[at].dialog.draw(frame, area, theme);
        let count = self.len();
        if count > 1 {
            let text = format!(" 1 of {count} ");
            let width = u16::try_from(text.width()).unwrap_or(u16::MAX);
            if area.height > 2 && width + 4 < area.width {
                let text = Span::styled(text, theme.style(Tone::Warning));
                let x = area.right() - width - 2;
                frame.buffer_mut().set_span(x, area.y, &text, width);
            }
        }
    }

    /// The dialog, where it is to hear what comes now.
    fn ready_dialog(&mut self, now: Instant) -> Option<usize> {
        self.remove_withdrawn();
        let at = self.current()?;
        let number = self.dialogs[at].number;
        match &mut self.shown {
            Some((shown, until)) if *shown == number => {
                if now >= *until {
                    return Some(at);
                }
                *until = now + INPUT_DELAY;
                None
            }
            // Nobody has seen it yet.
            Some(_) | None => None,
        }
    }

    fn apply_outcome(&mut self, at: usize, outcome: OverlayOutcome) -> OverlayOutcome {
        match outcome {
            OverlayOutcome::Close => {
                self.dialogs.remove(at);
            }
            OverlayOutcome::Stay | OverlayOutcome::Run(_) => {}
        }
        outcome
    }

    /// Takes a key. What comes back is `Close` where the dialog went.
    pub fn on_key(&mut self, key: KeyEvent, now: Instant) -> OverlayOutcome {
        if key.kind == KeyEventKind::Release {
            return OverlayOutcome::Stay;
        }
        match self.ready_dialog(now) {
            Some(at) => {
                let outcome = self.dialogs[at].dialog.on_key(key);
                self.apply_outcome(at, outcome)
            }
            None => OverlayOutcome::Stay,
        }
    }

    /// Takes text that was pasted.
    pub fn on_paste(&mut self, text: &str, now: Instant) -> OverlayOutcome {
        match self.ready_dialog(now) {
            Some(at) => {
                let outcome = self.dialogs[at].dialog.on_paste(text);
                self.apply_outcome(at, outcome)
            }
            None => OverlayOutcome::Stay,
        }
    }

    /// Passes on what changed.
    pub fn on_notice(&mut self, notice: &Notice) -> Redraw {
        let tidied = self.remove_withdrawn();
        match self.current() {
            Some(at) if self.dialogs[at].dialog.on_notice(notice) == Redraw::Yes => Redraw::Yes,
            Some(_) | None => tidied,
        }
    }

    /// The keys of the dialog whose turn it is.
    pub fn key_hints(&self) -> Vec<(&'static str, &'static str)> {
        self.current().map(|at| self.dialogs[at].dialog.key_hints()).unwrap_or_default()
    }
}

//! The queue of dialogs. Shows one at a time, in order of arrival; those that only wait come after those that ask. Keys
//! pressed before the user could read a dialog do not answer it.

use std::time::{Duration, Instant};

use crossterm::event::{KeyEvent, KeyEventKind};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use unicode_width::UnicodeWidthStr;

use crate::theme::{ScreenTheme, Tone};
use crate::view::dialog::request::DialogRequest;
use crate::view::overlay::{Dialog, Notice, OverlayOutcome, Redraw, Urgency};

/// How long a new dialog ignores keys. Each key that comes too early starts the time again, since the user is still
/// typing something else.
pub const INPUT_DELAY: Duration = Duration::from_millis(300);

/// The open dialogs. Dropping the queue denies all requests.
#[derive(Default)]
pub struct DialogQueue {
    dialogs: Vec<QueuedDialog>,
    /// The number of dialogs so far.
    count: u64,
    /// The number of the dialog drawn last, and when it starts to accept keys.
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
    /// Is no dialog open?
    pub fn is_empty(&self) -> bool {
        self.dialogs.is_empty()
    }

    /// The number of open dialogs.
    pub fn len(&self) -> usize {
        self.dialogs.len()
    }

    /// Adds a dialog at the end.
    pub fn push(&mut self, request: Box<DialogRequest>) {
        self.count += 1;
        self.dialogs.push(QueuedDialog { number: self.count, dialog: request.into_dialog() });
    }

    /// Removes dialogs whose callers no longer wait.
    pub fn remove_withdrawn(&mut self) -> Redraw {
        let before = self.dialogs.len();
        self.dialogs.retain(|it| it.dialog.is_wanted());
        if before == self.dialogs.len() { Redraw::No } else { Redraw::Yes }
    }

    fn current(&self) -> Option<usize> {
        let asking = self.dialogs.iter().position(|it| it.dialog.urgency() == Urgency::NeedsAnswer);
        asking.or_else(|| (!self.dialogs.is_empty()).then_some(0))
    }

    /// The part at the bottom of an area that the current dialog needs.
    pub fn area(&mut self, area: Rect, theme: &ScreenTheme) -> Rect {
        let Some(at) = self.current() else { return Rect { height: 0, ..area } };
        let height = self.dialogs[at].dialog.preferred_height(area.width, theme).min(area.height);
        Rect { y: area.bottom() - height, height, ..area }
    }

    /// The number of the visible dialog, and when it starts to accept keys.
    pub fn shown_dialog(&self) -> Option<(u64, Instant)> {
        let number = self.dialogs[self.current()?].number;
        self.shown.filter(|(shown, _)| *shown == number)
    }

    /// Draws the current dialog. From now on it counts as visible.
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

    /// The current dialog, if it accepts input now.
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
            // It has not been drawn yet.
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

    /// Handles a key. Returns `Close` where it closed the dialog.
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

    /// Handles pasted text.
    pub fn on_paste(&mut self, text: &str, now: Instant) -> OverlayOutcome {
        match self.ready_dialog(now) {
            Some(at) => {
                let outcome = self.dialogs[at].dialog.on_paste(text);
                self.apply_outcome(at, outcome)
            }
            None => OverlayOutcome::Stay,
        }
    }

    /// Passes a change on to the current dialog.
    pub fn on_notice(&mut self, notice: &Notice) -> Redraw {
        let removed = self.remove_withdrawn();
        match self.current() {
            Some(at) if self.dialogs[at].dialog.on_notice(notice) == Redraw::Yes => Redraw::Yes,
            Some(_) | None => removed,
        }
    }

    /// The keys of the current dialog.
    pub fn key_hints(&self) -> Vec<(&'static str, &'static str)> {
        self.current().map(|at| self.dialogs[at].dialog.key_hints()).unwrap_or_default()
    }
}

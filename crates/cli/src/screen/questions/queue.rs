//! Whose turn it is. One dialog at a time, in the order in which they came, those that only wait behind those that
//! ask. What was typed before somebody could read a question does not answer it.

use std::time::{Duration, Instant};

use crossterm::event::{KeyEvent, KeyEventKind};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Span;
use unicode_width::UnicodeWidthStr;

use crate::screen::dialog::{Dialog, Urgency};
use crate::screen::look::{Look, Tone};
use crate::screen::overlay::{News, Reaction, Redraw};
use crate::screen::questions::Question;

/// How long a dialog that just appeared takes no keys. Somebody who types meanwhile has not read it yet, so the time
/// begins anew with every key that comes too early.
pub const DEAF: Duration = Duration::from_millis(300);

/// Dialogs that wait for an answer. Dropping it answers no to all of them.
#[derive(Default)]
pub struct Queue {
    waiting: Vec<Turn>,
    /// How many there have been.
    count: u64,
    /// Which one was drawn last, and until when it takes no keys.
    on_screen: Option<(u64, Instant)>,
}

struct Turn {
    number: u64,
    dialog: Box<dyn Dialog>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

impl Queue {
    /// Is nothing asked?
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a question, behind those that came before.
    pub fn take(&mut self, question: Box<Question>) {
        self.count += 1;
        self.waiting.push(Turn { number: self.count, dialog: question.dialog() });
    }

    /// Lets go of dialogs whose answers nobody wants any more.
    pub fn tidy(&mut self) -> Redraw {
        let before = self.waiting.len();
        self.waiting.retain(|it| it.dialog.is_wanted());
        if before == self.waiting.len() { Redraw::No } else { Redraw::Yes }
    }

    fn current(&self) -> Option<usize> {
        let asks = self.waiting.iter().position(|it| it.dialog.urgency() == Urgency::Asks);
        asks.or_else(|| (!self.waiting.is_empty()).then_some(0))
    }

    /// The part of an area that the dialog wants, at its bottom.
    pub fn place(&mut self, area: Rect, look: &Look) -> Rect {
        let Some(at) = self.current() else { return Rect { height: 0, ..area } };
        let height = self.waiting[at].dialog.height(area.width, look).min(area.height);
        Rect { y: area.bottom() - height, height, ..area }
    }

    /// The number of the dialog that somebody can see, and from when on it takes keys.
    pub fn in_view(&self) -> Option<(u64, Instant)> {
        let number = self.waiting[self.current()?].number;
        self.on_screen.filter(|(shown, _)| *shown == number)
    }

    /// Draws the dialog whose turn it is. From now on somebody can read it.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look, now: Instant) {
        self.tidy();
        let Some(at) = self.current() else { return };
        let number = self.waiting[at].number;
        if self.on_screen.is_none_or(|(shown, _)| shown != number) {
            self.on_screen = Some((number, now + DEAF));
        }
        self.waiting[at].dialog.draw(frame, area, look);
        let count = self.len();
        if count > 1 {
            let text = format!(" 1 of {count} ");
            let width = u16::try_from(text.width()).unwrap_or(u16::MAX);
            if area.height > 2 && width + 4 < area.width {
                let text = Span::styled(text, look.style(Tone::Doubtful));
                let x = area.right() - width - 2;
                frame.buffer_mut().set_span(x, area.y, &text, width);
            }
        }
    }

    /// The dialog, where it is to hear what comes now.
    fn listening(&mut self, now: Instant) -> Option<usize> {
        self.tidy();
        let at = self.current()?;
        let number = self.waiting[at].number;
        match &mut self.on_screen {
            Some((shown, until)) if *shown == number => {
                if now >= *until {
                    return Some(at);
                }
                *until = now + DEAF;
                None
            }
            // Nobody has seen it yet.
            Some(_) | None => None,
        }
    }

    fn went(&mut self, at: usize, reaction: Reaction) -> Reaction {
        match reaction {
            Reaction::Close => {
                self.waiting.remove(at);
            }
            Reaction::Stay | Reaction::Do(_) => {}
        }
        reaction
    }

    /// Takes a key. What comes back is `Close` where the dialog went.
    pub fn key(&mut self, key: KeyEvent, now: Instant) -> Reaction {
        if key.kind == KeyEventKind::Release {
            return Reaction::Stay;
        }
        match self.listening(now) {
            Some(at) => {
                let reaction = self.waiting[at].dialog.key(key);
                self.went(at, reaction)
            }
            None => Reaction::Stay,
        }
    }

    /// Takes text that was pasted.
    pub fn paste(&mut self, text: &str, now: Instant) -> Reaction {
        match self.listening(now) {
            Some(at) => {
                let reaction = self.waiting[at].dialog.paste(text);
                self.went(at, reaction)
            }
            None => Reaction::Stay,
        }
    }

    /// Passes on what changed.
    pub fn hear(&mut self, news: &News) -> Redraw {
        let tidied = self.tidy();
        match self.current() {
            Some(at) if self.waiting[at].dialog.hear(news) == Redraw::Yes => Redraw::Yes,
            Some(_) | None => tidied,
        }
    }

    /// The keys of the dialog whose turn it is.
    pub fn keys(&self) -> Vec<(&'static str, &'static str)> {
        self.current().map(|at| self.waiting[at].dialog.keys()).unwrap_or_default()
    }
}

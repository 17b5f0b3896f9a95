//! What was said and done, from the top to the bottom, as lines of the screen. Lines are made once for a width and kept;
//! what is not looked at is not made.

mod entry_lines;
mod gaze;

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use switchboard_chat::happening::{CallEnd, CallSeen};

use crate::screen::cards::Card;
use crate::screen::clean_text::clean;
use crate::screen::look::{Look, Palette, Signs, Tone};
use crate::screen::markdown::{self, Answer};

use entry_lines::lines_of;
use gaze::{Gaze, Spot};

/// How much of something is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The beginning.
    Folded,
    /// All of it.
    Whole,
}

impl Detail {
    fn other(self) -> Detail {
        match self {
            Detail::Folded => Detail::Whole,
            Detail::Whole => Detail::Folded,
        }
    }
}

/// Something that was said or done.
#[derive(Debug)]
enum Body {
    /// The person said it.
    Person(String),
    /// The model said it.
    Answer(Answer),
    /// The model thought it.
    Thought(String),
    /// A call.
    Call(Card),
    /// We say it; with our own colours.
    Note(String),
    /// We say that something went wrong, and what helps.
    Fault(String),
}

#[derive(Debug)]
struct Entry {
    body: Body,
    /// Where it differs from all others.
    detail: Option<Detail>,
    laid: Option<Laid>,
}

#[derive(Debug)]
struct Laid {
    width: usize,
    detail: Detail,
    edition: u64,
    lines: Vec<Line<'static>>,
    /// How many of the lines stay when the text goes on.
    settled: usize,
}

/// All of it.
#[derive(Debug)]
pub struct Transcript {
    entries: Vec<Entry>,
    gaze: Gaze,
    detail: Detail,
    /// The card that was chosen.
    chosen: Option<usize>,
    width: usize,
    height: usize,
    look: Look,
    now: Instant,
}

impl Transcript {
    /// Nothing yet.
    pub fn new(now: Instant) -> Transcript {
        Transcript {
            entries: Vec::new(),
            gaze: Gaze::Bottom,
            detail: Detail::Folded,
            chosen: None,
            width: 80,
            height: 20,
            look: Look { palette: Palette::Plain, signs: Signs::Ascii },
            now,
        }
    }

    /// Is there anything?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes everything away.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.gaze = Gaze::Bottom;
        self.chosen = None;
    }

    /// The person said something.
    pub fn person(&mut self, text: &str) {
        self.push(Body::Person(clean(text)));
    }

    /// We say something; the text may hold our own colours.
    pub fn note(&mut self, text: &str) {
        self.push(Body::Note(text.to_owned()));
    }

    /// We say that something went wrong; the text may hold our own colours.
    pub fn fault(&mut self, text: &str) {
        self.push(Body::Fault(text.to_owned()));
    }

    /// The model goes on with its words.
    pub fn answer(&mut self, text: &str) {
        if let Some(Entry { body: Body::Answer(answer), .. }) = self.entries.last_mut() {
            answer.push(text);
            return;
        }
        let mut answer = Answer::default();
        answer.push(text);
        self.push(Body::Answer(answer));
    }

    /// The model goes on thinking.
    pub fn thought(&mut self, text: &str) {
        if let Some(Entry { body: Body::Thought(thought), laid, .. }) = self.entries.last_mut() {
            thought.push_str(text);
            *laid = None;
            return;
        }
        self.push(Body::Thought(text.to_owned()));
    }

    /// What the model said of this answer so far does not count.
    pub fn take_back_answer(&mut self) {
        while let Some(Entry { body: Body::Answer(_) | Body::Thought(_), .. }) = self.entries.last()
        {
            self.entries.pop();
        }
        self.keep_gaze();
    }

    /// A call begins.
    pub fn call(&mut self, call: CallSeen, now: Instant) {
        self.push(Body::Call(Card::new(call, now)));
    }

    /// A call says how far it is.
    pub fn advance(&mut self, id: &str, done: f64, of: Option<f64>, message: Option<String>) {
        if let Some((card, _)) = self.card(id) {
            card.advance(done, of, message);
        }
    }

    /// A call has ended.
    pub fn end_call(&mut self, id: &str, how: CallEnd, text: &str, took: Duration) {
        if let Some((card, laid)) = self.card(id) {
            card.end(how, text, took);
            *laid = None;
        }
    }

    /// Does something in it move?
    pub fn is_moving(&self) -> bool {
        let is_running = |it: &Entry| matches!(&it.body, Body::Call(card) if card.is_running());
        self.entries.iter().rev().take(64).any(is_running)
    }

    fn card(&mut self, id: &str) -> Option<(&mut Card, &mut Option<Laid>)> {
        self.entries.iter_mut().rev().find_map(|entry| match &mut entry.body {
            Body::Call(card) if &*card.id == id => Some((card, &mut entry.laid)),
            Body::Call(_)
            | Body::Person(_)
            | Body::Answer(_)
            | Body::Thought(_)
            | Body::Note(_)
            | Body::Fault(_) => None,
        })
    }

    fn push(&mut self, body: Body) {
        self.entries.push(Entry { body, detail: None, laid: None });
    }

    /// Folds and unfolds: the card that was chosen, or everything.
    pub fn toggle_detail(&mut self) {
        match self.chosen.and_then(|at| self.entries.get_mut(at)) {
            Some(entry) => {
                entry.detail = Some(entry.detail.unwrap_or(self.detail).other());
            }
            None => {
                self.detail = self.detail.other();
                for entry in &mut self.entries {
                    entry.detail = None;
                }
            }
        }
    }

    /// Chooses the card before the chosen one, or the last.
    pub fn choose_before(&mut self) {
        let end = self.chosen.unwrap_or(self.entries.len());
        let found = self.entries[..end].iter().rposition(is_foldable);
        if let Some(found) = found {
            self.chosen = Some(found);
            self.reveal(found);
        }
    }

    /// Chooses the card after the chosen one; after the last, none.
    pub fn choose_after(&mut self) {
        let Some(chosen) = self.chosen else { return };
        let found = self.entries.iter().skip(chosen + 1).position(is_foldable);
        self.chosen = found.map(|at| at + chosen + 1);
        match self.chosen {
            Some(found) => self.reveal(found),
            None => self.look_at_bottom(),
        }
    }

    /// Is a card chosen?
    pub fn has_chosen(&self) -> bool {
        self.chosen.is_some()
    }

    /// Chooses nothing.
    pub fn choose_none(&mut self) {
        self.chosen = None;
    }

    /// Draws what the eye is on.
    pub fn draw(&mut self, frame: &mut Frame<'_>, area: Rect, look: &Look, now: Instant) {
        if (self.width, self.look) != (usize::from(area.width), *look) {
            self.width = usize::from(area.width);
            self.look = *look;
        }
        self.height = usize::from(area.height);
        self.now = now;
        self.keep_gaze();
        let Spot { mut entry, mut line } = self.top();
        let mut y = area.top();
        while y < area.bottom() && entry < self.entries.len() {
            let is_chosen = self.chosen == Some(entry);
            let accent = self.look.style(Tone::Accent);
            let lines = &self.laid(entry).lines;
            for shown in lines.iter().skip(line) {
                if y >= area.bottom() {
                    break;
                }
                let buffer = frame.buffer_mut();
                buffer.set_line(area.x, y, shown, area.width);
                if is_chosen && area.width > 0 && !shown.spans.is_empty() {
                    buffer[(area.x, y)].set_style(accent);
                }
                y += 1;
            }
            entry += 1;
            line = 0;
        }
    }

    fn height_of(&mut self, entry: usize) -> usize {
        self.laid(entry).lines.len()
    }

    /// The lines of an entry, made anew where they are not what they should be.
    fn laid(&mut self, at: usize) -> &Laid {
        let is_apart = at > 0 && stands_apart(&self.entries[at - 1].body, &self.entries[at].body);
        let (width, look, now) = (self.width, self.look, self.now);
        let entry = &mut self.entries[at];
        let detail = entry.detail.unwrap_or(self.detail);
        let edition = markdown::edition(look.palette);
        let is_kept = entry.laid.as_ref().is_some_and(|laid| {
            let is_same = (laid.width, laid.detail) == (width, detail);
            is_same
                && match &entry.body {
                    Body::Answer(answer) => laid.edition == edition && !answer.has_news(),
                    Body::Call(card) => !card.is_running(),
                    Body::Person(_) | Body::Thought(_) | Body::Note(_) | Body::Fault(_) => true,
                }
        });
        if !is_kept {
            let before = entry.laid.take().filter(|it| it.width == width && it.edition == edition);
            let gap = usize::from(is_apart);
            let (mut lines, settled) = match (&mut entry.body, before) {
                (Body::Answer(answer), Some(mut before)) => {
                    before.lines.truncate(before.settled.max(gap));
                    let settled = answer.go_on(&mut before.lines, width, &look);
                    (before.lines, settled)
                }
                (Body::Answer(answer), None) => {
                    let mut lines = vec![Line::default(); gap];
                    answer.begin_anew();
                    let settled = answer.go_on(&mut lines, width, &look);
                    (lines, settled)
                }
                (body, _) => {
                    let mut lines = vec![Line::default(); gap];
                    lines.extend(lines_of(body, width, detail, (&look, now)));
                    (lines, 0)
                }
            };
            lines.shrink_to_fit();
            entry.laid = Some(Laid { width, detail, edition, lines, settled });
        }
        entry.laid.as_ref().expect("it was just made where it was missing")
    }
}

fn is_foldable(entry: &Entry) -> bool {
    matches!(entry.body, Body::Call(_) | Body::Thought(_))
}

/// Is there an empty line between the two?
fn stands_apart(before: &Body, this: &Body) -> bool {
    !matches!((before, this), (Body::Note(_), Body::Note(_)))
}

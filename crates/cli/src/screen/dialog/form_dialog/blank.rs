//! One field of a form while it is being filled in: what was typed or chosen so far, and whether that is an answer.

use std::collections::BTreeSet;

use crossterm::event::{KeyCode, KeyEvent};
use serde_json::Value as Json;
use switchboard::form::{Choice, Field, Kind, Need, Unfit};

use crate::form_prompt;
use crate::screen::dialog::paper::{Paper, Piece};
use crate::screen::dialog::text_box::{Focus, Taken, TextBox};
use crate::screen::look::{Look, Signs, Tone};

/// How many of many choices are shown at once.
const SHOWN: usize = 9;

/// A field and what is in it.
#[derive(Debug)]
pub struct Blank {
    field: Field,
    entry: Entry,
    /// Did somebody do something to it? Until then nobody is told that it is wrong.
    is_touched: bool,
}

#[derive(Debug)]
enum Entry {
    Typed(TextBox),
    Truth(Option<bool>),
    One(Option<usize>),
    Some { chosen: BTreeSet<usize>, at: usize },
}

impl Blank {
    /// A field with its default in it.
    pub fn new(field: Field) -> Blank {
        let index = |value: &Json| {
            field.kind.choices().iter().position(|it| Some(it.value.as_str()) == value.as_str())
        };
        let default = field.default.as_ref();
        let entry = match &field.kind {
            Kind::Text { .. } => {
                Entry::Typed(TextBox::with(default.and_then(Json::as_str).unwrap_or_default()))
            }
            Kind::Number { .. } => {
                Entry::Typed(TextBox::with(&default.map(Json::to_string).unwrap_or_default()))
            }
            Kind::Truth => Entry::Truth(default.and_then(Json::as_bool)),
            Kind::One(_) => Entry::One(default.and_then(index)),
            Kind::Some { .. } => {
                let values = default.and_then(Json::as_array);
                let chosen = values.into_iter().flatten().filter_map(index).collect();
                Entry::Some { chosen, at: 0 }
            }
        };
        Blank { field, entry, is_touched: false }
    }

    /// Its key in the answer.
    pub fn name(&self) -> &str {
        &self.field.name
    }

    /// What would be sent; nothing where it is left out.
    pub fn value(&self) -> Result<Option<Json>, Unfit> {
        let is_required = self.field.need == Need::Required;
        let absent = || if is_required { Err(Unfit::Missing) } else { Ok(None) };
        let value = match &self.entry {
            Entry::Typed(typed) if typed.text().trim().is_empty() => {
                // A default that somebody took out is not to come back.
                let empty = Json::from("");
                let is_text = matches!(self.field.kind, Kind::Text { .. });
                match is_text && self.field.default.is_some() && self.field.check(&empty).is_ok() {
                    true => empty,
                    false => return absent(),
                }
            }
            Entry::Typed(typed) => return self.field.parse(typed.text()).map(Some),
            Entry::Truth(None) | Entry::One(None) => return absent(),
            Entry::Truth(Some(truth)) => Json::Bool(*truth),
            Entry::One(Some(at)) => match self.field.kind.choices().get(*at) {
                Some(choice) => choice.value.clone().into(),
                None => return absent(),
            },
            Entry::Some { chosen, .. } => {
                let is_left_out = !is_required && !self.is_touched && self.field.default.is_none();
                if chosen.is_empty() && is_left_out {
                    return Ok(None);
                }
                let choices = self.field.kind.choices();
                let values = chosen.iter().filter_map(|at| choices.get(*at));
                values.map(|it| Json::from(it.value.as_str())).collect()
            }
        };
        self.field.check(&value)?;
        Ok(Some(value))
    }

    /// What somebody should be told.
    pub fn complaint(&self, wants_all: Complaints) -> Option<String> {
        let unfit = self.value().err()?;
        let is_due = self.is_touched || wants_all == Complaints::All;
        is_due.then(|| unfit.to_string())
    }

    /// Takes a key that changes it.
    pub fn key(&mut self, key: KeyEvent) -> Taken {
        let choices = self.field.kind.choices();
        let is_optional = self.field.need == Need::Optional;
        let taken = match &mut self.entry {
            Entry::Typed(typed) => typed.key(key),
            Entry::Truth(truth) => truth_key(truth, key, is_optional),
            Entry::One(at) => one_key(at, key, choices, is_optional),
            Entry::Some { chosen, at } => some_key(chosen, at, key, choices),
        };
        self.is_touched = self.is_touched || taken == Taken::Yes;
        taken
    }

    /// Takes text that was pasted.
    pub fn paste(&mut self, text: &str) {
        if let Entry::Typed(typed) = &mut self.entry {
            typed.insert(text);
            self.is_touched = true;
        }
    }

    /// The line that is typed, where it is one.
    pub fn typed(&self) -> Option<&TextBox> {
        match &self.entry {
            Entry::Typed(typed) => Some(typed),
            Entry::Truth(_) | Entry::One(_) | Entry::Some { .. } => None,
        }
    }

    /// Its name and what is said of it.
    pub fn introduction(&self, focus: Focus, look: &Look) -> Paper {
        let mut paper = Paper::default();
        let mark = match (focus, look.signs) {
            (Focus::Elsewhere, _) => "  ",
            (Focus::Here, Signs::Drawn) => "▸ ",
            (Focus::Here, Signs::Ascii) => "> ",
        };
        let tone = if focus == Focus::Here { Tone::Accent } else { Tone::Strong };
        let mut pieces =
            vec![(Tone::Accent, mark.to_owned()), (tone, self.field.label().to_owned())];
        if self.field.need == Need::Required {
            pieces.push((Tone::Doubtful, " *".to_owned()));
        }
        let wanted = form_prompt::wanted(&self.field.kind);
        let is_told = matches!(self.field.kind, Kind::Truth | Kind::One(_));
        if !wanted.is_empty() && !is_told {
            let wanted = match self.field.kind {
                Kind::Some { .. } => "some of these".to_owned(),
                Kind::Text { .. } | Kind::Number { .. } | Kind::Truth | Kind::One(_) => wanted,
            };
            pieces.push((Tone::Faint, format!("  ({wanted})")));
        }
        paper.row(4, pieces);
        if let Some(about) = &self.field.description {
            paper.hung(2, Tone::Faint, about);
        }
        paper
    }

    /// What can be chosen. Empty where it is typed.
    pub fn choices(&self, focus: Focus, look: &Look) -> Paper {
        let mut paper = Paper::default();
        let mut pieces: Vec<Piece> = vec![(Tone::Text, "  ".to_owned())];
        let (ring, dot, empty, cross) = match look.signs {
            Signs::Drawn => ("○ ", "● ", "☐ ", "☒ "),
            Signs::Ascii => ("( ) ", "(*) ", "[ ] ", "[x] "),
        };
        let mut put = |is_chosen: bool, sign: &str, title: &str| {
            let tone = if is_chosen { Tone::Chosen } else { Tone::Text };
            pieces.push((tone, format!("{sign}{title}")));
            pieces.push((Tone::Text, "  ".to_owned()));
        };
        let is_here = focus == Focus::Here;
        let choices = self.field.kind.choices();
        let (at, count) = match &self.entry {
            Entry::Typed(_) => return paper,
            Entry::Truth(truth) => {
                for (value, title) in [(true, "yes"), (false, "no")] {
                    let is_it = *truth == Some(value);
                    put(is_it && is_here, if is_it { dot } else { ring }, title);
                }
                (0, 0)
            }
            Entry::One(at) => {
                for (index, choice) in window(choices, at.unwrap_or(0)) {
                    let is_it = *at == Some(index);
                    put(is_it && is_here, if is_it { dot } else { ring }, &choice.title);
                }
                (at.map_or(0, |it| it + 1), choices.len())
            }
            Entry::Some { chosen, at } => {
                for (index, choice) in window(choices, *at) {
                    let sign = if chosen.contains(&index) { cross } else { empty };
                    put(index == *at && is_here, sign, &choice.title);
                }
                (at + 1, choices.len())
            }
        };
        if count > SHOWN {
            pieces.push((Tone::Faint, format!("{at} of {count}")));
        }
        paper.row(2, pieces);
        paper
    }
}

/// Who is told that something is wrong?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Complaints {
    /// Fields that somebody changed.
    Touched,
    /// Every field.
    All,
}

/// The choices around one.
fn window(choices: &[Choice], at: usize) -> impl Iterator<Item = (usize, &Choice)> {
    let first = at.saturating_sub(SHOWN / 2).min(choices.len().saturating_sub(SHOWN));
    choices.iter().enumerate().skip(first).take(SHOWN)
}

fn truth_key(truth: &mut Option<bool>, key: KeyEvent, is_optional: bool) -> Taken {
    *truth = match (key.code, *truth) {
        (KeyCode::Left | KeyCode::Char('y' | 'Y'), _) => Some(true),
        (KeyCode::Right | KeyCode::Char('n' | 'N'), _) => Some(false),
        (KeyCode::Char(' '), before) => Some(!before.unwrap_or(false)),
        (KeyCode::Backspace | KeyCode::Delete, _) if is_optional => None,
        (_, _) => return Taken::No,
    };
    Taken::Yes
}

fn one_key(at: &mut Option<usize>, key: KeyEvent, choices: &[Choice], is_optional: bool) -> Taken {
    let last = choices.len().saturating_sub(1);
    *at = match (key.code, *at) {
        (KeyCode::Left, before) => Some(before.map_or(last, |it| it.saturating_sub(1))),
        (KeyCode::Right, before) => Some(before.map_or(0, |it| (it + 1).min(last))),
        (KeyCode::Home, _) => Some(0),
        (KeyCode::End, _) => Some(last),
        (KeyCode::Backspace | KeyCode::Delete, _) if is_optional => None,
        (KeyCode::Char(' '), None) => Some(0),
        (KeyCode::Char(c), before) => match beginning_with(choices, c, before) {
            Some(found) => Some(found),
            None => return Taken::No,
        },
        (_, _) => return Taken::No,
    };
    if choices.is_empty() {
        *at = None;
    }
    Taken::Yes
}

fn some_key(
    chosen: &mut BTreeSet<usize>,
    at: &mut usize,
    key: KeyEvent,
    choices: &[Choice],
) -> Taken {
    let last = choices.len().saturating_sub(1);
    match (key.code, ()) {
        (KeyCode::Left, ()) => *at = at.saturating_sub(1),
        (KeyCode::Right, ()) => *at = (*at + 1).min(last),
        (KeyCode::Home, ()) => *at = 0,
        (KeyCode::End, ()) => *at = last,
        (KeyCode::Char(' '), ()) if !choices.is_empty() => {
            if !chosen.remove(at) {
                chosen.insert(*at);
            }
        }
        (KeyCode::Char(c), ()) => match beginning_with(choices, c, Some(*at)) {
            Some(found) => *at = found,
            None => return Taken::No,
        },
        (_, ()) => return Taken::No,
    }
    Taken::Yes
}

/// The next choice that begins with a letter, round the end.
fn beginning_with(choices: &[Choice], letter: char, after: Option<usize>) -> Option<usize> {
    let wanted = letter.to_lowercase().next()?;
    let begins = |at: &usize| {
        let first = choices[*at].title.chars().next();
        first.and_then(|it| it.to_lowercase().next()) == Some(wanted)
    };
    let start = after.map_or(0, |it| it + 1);
    (start..choices.len()).chain(0..start.min(choices.len())).find(begins)
}

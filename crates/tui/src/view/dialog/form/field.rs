//! The editor of one form field: its input so far, and whether that is valid.

use std::collections::BTreeSet;

use crossterm::event::{KeyCode, KeyEvent};
use serde_json::Value as Json;
use switchboard::elicitation::{Choice, FieldKind, FieldRequirement, FormField, InvalidAnswer};

use crate::text::rich_text::{RichText, TonedText};
use crate::theme::{GlyphSet, ScreenTheme, Tone};
use crate::view::widget::input::{InputFocus, KeyOutcome};
use crate::view::widget::text_field::TextField;

/// How many choices are visible at once.
const VISIBLE_CHOICES: usize = 9;

/// A field and its input.
#[derive(Debug)]
pub struct FieldEditor {
    field: FormField,
    input: FieldInput,
    /// Has the user changed it? Until then its error is not shown.
    is_touched: bool,
}

#[derive(Debug)]
enum FieldInput {
    Text(TextField),
    Boolean(Option<bool>),
    Single(Option<usize>),
    Multiple { chosen: BTreeSet<usize>, at: usize },
}

impl FieldEditor {
    /// A field filled with its default.
    pub fn new(field: FormField) -> FieldEditor {
        let index = |value: &Json| {
            field.kind.choices().iter().position(|it| Some(it.value.as_str()) == value.as_str())
        };
        let default = field.default.as_ref();
        let input = match &field.kind {
            FieldKind::Text { .. } => FieldInput::Text(TextField::with_text(
                default.and_then(Json::as_str).unwrap_or_default(),
            )),
            FieldKind::Number { .. } => FieldInput::Text(TextField::with_text(
                &default.map(Json::to_string).unwrap_or_default(),
            )),
            FieldKind::Boolean => FieldInput::Boolean(default.and_then(Json::as_bool)),
            FieldKind::SingleSelect(_) => FieldInput::Single(default.and_then(index)),
            FieldKind::MultiSelect { .. } => {
                let values = default.and_then(Json::as_array);
                let chosen = values.into_iter().flatten().filter_map(index).collect();
                FieldInput::Multiple { chosen, at: 0 }
            }
        };
        FieldEditor { field, input, is_touched: false }
    }

    /// Its name in the answer.
    pub fn name(&self) -> &str {
        &self.field.name
    }

    /// Its value; `None` where an optional field is left out.
    pub fn value(&self) -> Result<Option<Json>, InvalidAnswer> {
        let is_required = self.field.requirement == FieldRequirement::Required;
        let absent = || if is_required { Err(InvalidAnswer::Missing) } else { Ok(None) };
        let value = match &self.input {
            FieldInput::Text(typed) if typed.text().trim().is_empty() => {
                // A deleted default is sent as an empty text, so that the server does not apply it.
                let empty = Json::from("");
                let is_text = matches!(self.field.kind, FieldKind::Text { .. });
                match is_text && self.field.default.is_some() && self.field.check(&empty).is_ok() {
                    true => empty,
                    false => return absent(),
                }
            }
            FieldInput::Text(typed) => return self.field.parse(typed.text()).map(Some),
            FieldInput::Boolean(None) | FieldInput::Single(None) => return absent(),
            FieldInput::Boolean(Some(truth)) => Json::Bool(*truth),
            FieldInput::Single(Some(at)) => match self.field.kind.choices().get(*at) {
                Some(choice) => choice.value.clone().into(),
                None => return absent(),
            },
            FieldInput::Multiple { chosen, .. } => {
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

    /// The error to show.
    pub fn error_message(&self, wants_all: ErrorVisibility) -> Option<String> {
        let error = self.value().err()?;
        let is_due = self.is_touched || wants_all == ErrorVisibility::All;
        is_due.then(|| error.to_string())
    }

    /// Handles a key that changes its input.
    pub fn on_key(&mut self, key: KeyEvent) -> KeyOutcome {
        let choices = self.field.kind.choices();
        let is_optional = self.field.requirement == FieldRequirement::Optional;
        let handled = match &mut self.input {
            FieldInput::Text(typed) => typed.on_key(key),
            FieldInput::Boolean(truth) => boolean_key(truth, key, is_optional),
            FieldInput::Single(at) => single_key(at, key, choices, is_optional),
            FieldInput::Multiple { chosen, at } => multiple_key(chosen, at, key, choices),
        };
        self.is_touched = self.is_touched || handled == KeyOutcome::Handled;
        handled
    }

    /// Inserts pasted text.
    pub fn paste(&mut self, text: &str) {
        if let FieldInput::Text(typed) = &mut self.input {
            typed.insert(text);
            self.is_touched = true;
        }
    }

    /// Its text field, if it has one.
    pub fn text_field(&self) -> Option<&TextField> {
        match &self.input {
            FieldInput::Text(typed) => Some(typed),
            FieldInput::Boolean(_) | FieldInput::Single(_) | FieldInput::Multiple { .. } => None,
        }
    }

    /// Its label and description.
    pub fn label(&self, focus: InputFocus, theme: &ScreenTheme) -> RichText {
        let mut content = RichText::default();
        let mark = match (focus, theme.glyphs) {
            (InputFocus::Unfocused, _) => "  ",
            (InputFocus::Focused, GlyphSet::Unicode) => "▸ ",
            (InputFocus::Focused, GlyphSet::Ascii) => "> ",
        };
        let tone = if focus == InputFocus::Focused { Tone::Accent } else { Tone::Strong };
        let mut pieces =
            vec![(Tone::Accent, mark.to_owned()), (tone, self.field.label().to_owned())];
        if self.field.requirement == FieldRequirement::Required {
            pieces.push((Tone::Warning, " *".to_owned()));
        }
        let expected = self.field.kind.expected_input();
        let is_self_evident =
            matches!(self.field.kind, FieldKind::Boolean | FieldKind::SingleSelect(_));
        if !expected.is_empty() && !is_self_evident {
            let expected = match self.field.kind {
                FieldKind::MultiSelect { .. } => "any of these".to_owned(),
                FieldKind::Text { .. }
                | FieldKind::Number { .. }
                | FieldKind::Boolean
                | FieldKind::SingleSelect(_) => expected,
            };
            pieces.push((Tone::Muted, format!("  ({expected})")));
        }
        content.push_line(4, pieces);
        if let Some(about) = &self.field.description {
            content.push_indented(2, Tone::Muted, about);
        }
        content
    }

    /// Its choices; empty for a text field.
    pub fn choices(&self, focus: InputFocus, theme: &ScreenTheme) -> RichText {
        let mut content = RichText::default();
        let mut pieces: Vec<TonedText> = vec![(Tone::Text, "  ".to_owned())];
        let (ring, dot, empty, cross) = match theme.glyphs {
            GlyphSet::Unicode => ("○ ", "● ", "☐ ", "☒ "),
            GlyphSet::Ascii => ("( ) ", "(*) ", "[ ] ", "[x] "),
        };
        let mut put = |is_chosen: bool, sign: &str, title: &str| {
            let tone = if is_chosen { Tone::Selected } else { Tone::Text };
            pieces.push((tone, format!("{sign}{title}")));
            pieces.push((Tone::Text, "  ".to_owned()));
        };
        let is_here = focus == InputFocus::Focused;
        let choices = self.field.kind.choices();
        let (at, count) = match &self.input {
            FieldInput::Text(_) => return content,
            FieldInput::Boolean(truth) => {
                for (value, title) in [(true, "yes"), (false, "no")] {
                    let is_selected = *truth == Some(value);
                    put(is_selected && is_here, if is_selected { dot } else { ring }, title);
                }
                (0, 0)
            }
            FieldInput::Single(at) => {
                for (index, choice) in visible_choices(choices, at.unwrap_or(0)) {
                    let is_selected = *at == Some(index);
                    put(
                        is_selected && is_here,
                        if is_selected { dot } else { ring },
                        &choice.title,
                    );
                }
                (at.map_or(0, |it| it + 1), choices.len())
            }
            FieldInput::Multiple { chosen, at } => {
                for (index, choice) in visible_choices(choices, *at) {
                    let sign = if chosen.contains(&index) { cross } else { empty };
                    put(index == *at && is_here, sign, &choice.title);
                }
                (at + 1, choices.len())
            }
        };
        if count > VISIBLE_CHOICES {
            pieces.push((Tone::Muted, format!("{at} of {count}")));
        }
        content.push_line(2, pieces);
        content
    }
}

/// Which fields show their errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorVisibility {
    /// Fields that the user has changed.
    Touched,
    /// Every field.
    All,
}

/// The visible choices around one.
fn visible_choices(choices: &[Choice], at: usize) -> impl Iterator<Item = (usize, &Choice)> {
    let first =
        at.saturating_sub(VISIBLE_CHOICES / 2).min(choices.len().saturating_sub(VISIBLE_CHOICES));
    choices.iter().enumerate().skip(first).take(VISIBLE_CHOICES)
}

fn boolean_key(truth: &mut Option<bool>, key: KeyEvent, is_optional: bool) -> KeyOutcome {
    *truth = match (key.code, *truth) {
        (KeyCode::Left | KeyCode::Char('y' | 'Y'), _) => Some(true),
        (KeyCode::Right | KeyCode::Char('n' | 'N'), _) => Some(false),
        (KeyCode::Char(' '), before) => Some(!before.unwrap_or(false)),
        (KeyCode::Backspace | KeyCode::Delete, _) if is_optional => None,
        (_, _) => return KeyOutcome::NotHandled,
    };
    KeyOutcome::Handled
}

fn single_key(
    at: &mut Option<usize>,
    key: KeyEvent,
    choices: &[Choice],
    is_optional: bool,
) -> KeyOutcome {
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
            None => return KeyOutcome::NotHandled,
        },
        (_, _) => return KeyOutcome::NotHandled,
    };
    if choices.is_empty() {
        *at = None;
    }
    KeyOutcome::Handled
}

fn multiple_key(
    chosen: &mut BTreeSet<usize>,
    at: &mut usize,
    key: KeyEvent,
    choices: &[Choice],
) -> KeyOutcome {
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
            None => return KeyOutcome::NotHandled,
        },
        (_, ()) => return KeyOutcome::NotHandled,
    }
    KeyOutcome::Handled
}

/// The next choice whose title starts with a letter, wrapping around.
fn beginning_with(choices: &[Choice], letter: char, after: Option<usize>) -> Option<usize> {
    let expected = letter.to_lowercase().next()?;
    let begins = |at: &usize| {
        let first = choices[*at].title.chars().next();
        first.and_then(|it| it.to_lowercase().next()) == Some(expected)
    };
    let start = after.map_or(0, |it| it + 1);
    (start..choices.len()).chain(0..start.min(choices.len())).find(begins)
}

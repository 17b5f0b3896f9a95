//! A value of an entry before the user has answered: text of the publisher, answers, or both.

use super::input::{Argument, Input, InputFormat, NamedInput};
use super::pieces::{Piece, split_value};
use super::question::{Question, QuestionPlace};

/// An argument, a variable or a header: a flag, a value, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// The flag before the value.
    pub(super) flag: Option<String>,
    /// The value.
    pub(super) value: SlotValue,
}

/// The value of a slot. Numbers are positions in the list of questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotValue {
    /// There is none: the flag stands alone.
    Nothing,
    /// The publisher's text, with answers in it.
    Parts(Vec<SlotPart>),
    /// The answers to a question, one value each.
    Answers(usize),
    /// The flag stands alone if the answer is `true`, and is left out otherwise.
    FlagIf(usize),
}

/// A part of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotPart {
    /// Text of the publisher.
    Text(String),
    /// An answer.
    Answer(usize),
}

/// Whose argument it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentOf {
    /// Of the program that runs the package.
    Runtime,
    /// Of the server.
    Package,
}

impl Slot {
    /// A word without a question.
    pub(super) fn word(text: &str) -> Slot {
        Slot { flag: None, value: SlotValue::Parts(vec![SlotPart::Text(text.to_owned())]) }
    }

    /// Its text where nothing in it is asked and no flag is before it.
    pub(super) fn fixed_word(&self) -> Option<&str> {
        match &self.flag {
            None => self.fixed_value(),
            Some(flag) if self.value == SlotValue::Nothing => Some(flag),
            Some(_) => None,
        }
    }

    /// Its value where nothing in it is asked.
    pub(super) fn fixed_value(&self) -> Option<&str> {
        match &self.value {
            SlotValue::Parts(parts) => match &parts[..] {
                [SlotPart::Text(text)] => Some(text),
                [_, ..] | [] => None,
            },
            SlotValue::Nothing | SlotValue::Answers(_) | SlotValue::FlagIf(_) => None,
        }
    }

    /// The text of the publisher that the value begins with.
    pub(super) fn leading_text(&self) -> Option<&str> {
        match &self.value {
            SlotValue::Parts(parts) => match parts.first() {
                Some(SlotPart::Text(text)) => Some(text),
                Some(SlotPart::Answer(_)) | None => None,
            },
            SlotValue::Nothing | SlotValue::Answers(_) | SlotValue::FlagIf(_) => None,
        }
    }
}

/// The questions of an entry, while its slots are made.
#[derive(Debug, Default)]
pub(super) struct QuestionList {
    pub(super) questions: Vec<Question>,
    positional: usize,
}

impl QuestionList {
    /// The slot of an argument.
    pub(super) fn argument(&mut self, argument: &Argument, of: ArgumentOf) -> Slot {
        match argument {
            Argument::Positional { hint, input } => {
                self.positional += 1;
                let label = match hint {
                    Some(hint) => hint.clone(),
                    None => format!("argument-{}", self.positional),
                };
                let value = self.value(&label, QuestionPlace::Argument, input);
                Slot { flag: None, value }
            }
            Argument::Named { name, input } => {
                Slot { flag: Some(name.clone()), value: self.named_value(name, input, of) }
            }
        }
    }

    fn named_value(&mut self, name: &str, input: &Input, of: ArgumentOf) -> SlotValue {
        if input.value.as_deref() == Some("") {
            return SlotValue::Nothing;
        }
        let place = QuestionPlace::Argument;
        let is_always_there =
            of == ArgumentOf::Runtime || input.is_required || input.description.is_empty();
        if input.value.is_none() && input.describes_no_value() {
            return match is_always_there {
                true => SlotValue::Nothing,
                false => SlotValue::FlagIf(self.ask_whether(name, input)),
            };
        }
        if input.value.is_none()
            && input.format == Some(InputFormat::Boolean)
            && input.choices.is_empty()
        {
            return SlotValue::FlagIf(self.ask_whether(name, input));
        }
        self.value(name, place, input)
    }

    fn ask_whether(&mut self, name: &str, input: &Input) -> usize {
        let input = Input { format: Some(InputFormat::Boolean), ..input.clone() };
        self.ask(name, QuestionPlace::Argument, &input)
    }

    /// The slot of an environment variable or a header.
    pub(super) fn named(&mut self, named: &NamedInput, place: QuestionPlace) -> Slot {
        Slot { flag: None, value: self.value(&named.name, place, &named.input) }
    }

    /// The value of an input: fixed, with questions for its variables, or a question of its own.
    pub(super) fn value(&mut self, name: &str, place: QuestionPlace, input: &Input) -> SlotValue {
        let Some(value) = &input.value else {
            return SlotValue::Answers(self.ask(name, place, input));
        };
        let parts = split_value(value, &input.variables).into_iter().map(|piece| match piece {
            Piece::Text(text) => SlotPart::Text(text),
            Piece::Variable(name, variable) => self.variable(name, variable, input),
        });
        SlotValue::Parts(parts.collect())
    }

    /// A variable of a secret is a secret.
    fn variable(&mut self, name: &str, variable: &Input, parent: &Input) -> SlotPart {
        if let Some(value) = &variable.value {
            return SlotPart::Text(value.clone());
        }
        let variable = Input {
            is_secret: variable.is_secret || parent.is_secret,
            is_repeated: false,
            ..variable.clone()
        };
        let asked = Question::new(name, QuestionPlace::Variable, &variable);
        let same = self.questions.iter().position(|it| *it == asked);
        SlotPart::Answer(same.unwrap_or_else(|| self.push(asked)))
    }

    fn ask(&mut self, name: &str, place: QuestionPlace, input: &Input) -> usize {
        self.push(Question::new(name, place, input))
    }

    fn push(&mut self, mut question: Question) -> usize {
        let base = question.key.clone();
        let mut number = 2;
        while self.questions.iter().any(|it| it.key == question.key) {
            question.key = format!("{base}-{number}");
            number += 1;
        }
        self.questions.push(question);
        self.questions.len() - 1
    }
}

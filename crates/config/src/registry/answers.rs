//! What the user answered: checked against what the publisher asks for, and written so that only the user's own
//! `${references}` are expanded later.

use std::collections::BTreeMap;

use thiserror::Error;

use super::input::InputFormat;
use super::question::Question;
use crate::secret::Secret;
use crate::template::{SecretReference, Template};

/// The answers by the keys of their questions. `Debug` shows no value, because any of them may be a secret.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    values: BTreeMap<String, Vec<Secret>>,
}

/// Why an answer is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// A required answer is missing.
    #[error("`{key}` needs a value")]
    Missing {
        /// The key of the question.
        key: String,
    },
    /// There is no such question.
    #[error("there is no value `{key}`; there is {known}")]
    Unknown {
        /// The key.
        key: String,
        /// The keys of the questions.
        known: String,
    },
    /// Several answers where one is possible.
    #[error("`{key}` takes one value")]
    Several {
        /// The key of the question.
        key: String,
    },
    /// The value has another format.
    #[error("`{key}` must be {expected}")]
    Format {
        /// The key of the question.
        key: String,
        /// The format.
        expected: &'static str,
    },
    /// The value is not one of the choices.
    #[error("`{key}` must be one of {choices}")]
    Choice {
        /// The key of the question.
        key: String,
        /// The choices.
        choices: String,
    },
    /// The value contains a control character.
    #[error("the value of `{key}` contains a control character")]
    ControlCharacter {
        /// The key of the question.
        key: String,
    },
}

impl Answers {
    /// Adds an answer.
    pub fn add(&mut self, key: &str, value: String) {
        self.values.entry(key.to_owned()).or_default().push(Secret::new(value));
    }

    /// Whether a question was answered, even if with an empty text.
    pub fn contains(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// The keys that are not those of any question.
    pub(super) fn unknown(&self, questions: &[Question]) -> Vec<AnswerError> {
        let keys: Vec<String> = questions.iter().map(|it| format!("`{}`", it.key)).collect();
        let known = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        let is_unknown = |key: &&String| !questions.iter().any(|it| it.key == **key);
        let unknown = self.values.keys().filter(is_unknown);
        unknown.map(|key| AnswerError::Unknown { key: key.clone(), known: known.clone() }).collect()
    }

    /// The texts for the entry that answer a question; none where it stays open. An empty answer leaves it open, too.
    pub(super) fn texts(
        &self,
        question: &Question,
        secrets: &mut SecretWriter<'_>,
    ) -> Result<Vec<String>, AnswerError> {
        let key = || question.key.clone();
        let given = self.values.get(&question.key);
        let values: Vec<&str> = match (given, &question.default) {
            (Some(values), _) => {
                values.iter().map(Secret::reveal).filter(|it| !it.is_empty()).collect()
            }
            (None, Some(default)) => vec![default],
            (None, None) => Vec::new(),
        };
        if values.is_empty() && question.is_required {
            return Err(AnswerError::Missing { key: key() });
        }
        if values.len() > 1 && !question.is_repeated {
            return Err(AnswerError::Several { key: key() });
        }
        values.into_iter().map(|value| question.checked_text(value, secrets)).collect()
    }
}

/// Takes the secrets out of an entry.
pub(super) struct SecretWriter<'r> {
    /// The reference to the secret of this name.
    pub(super) reference: &'r dyn Fn(&str) -> SecretReference,
    /// The secrets so far.
    pub(super) secrets: Vec<(SecretReference, Secret)>,
}

impl SecretWriter<'_> {
    fn write(&mut self, key: &str, value: &str) -> String {
        let is_taken = |reference: &SecretReference, all: &[(SecretReference, Secret)]| {
            all.iter().any(|(it, _)| it == reference)
        };
        let mut reference = (self.reference)(key);
        let mut number = 2;
        while is_taken(&reference, &self.secrets) {
            reference = (self.reference)(&format!("{key}-{number}"));
            number += 1;
        }
        let text = reference.to_string();
        self.secrets.push((reference, Secret::new(value.to_owned())));
        text
    }
}

impl Question {
    /// Checks one answer.
    pub fn check(&self, value: &str) -> Result<(), AnswerError> {
        let reference = |key: &str| SecretReference::Keychain(key.to_owned());
        let mut secrets = SecretWriter { reference: &reference, secrets: Vec::new() };
        self.checked_text(value, &mut secrets).map(drop)
    }

    /// Checks an answer, and returns the text for the entry.
    fn checked_text(
        &self,
        value: &str,
        secrets: &mut SecretWriter<'_>,
    ) -> Result<String, AnswerError> {
        let key = || self.key.clone();
        if value.contains(char::is_control) {
            return Err(AnswerError::ControlCharacter { key: key() });
        }
        let is_of_publisher =
            self.default.as_deref() == Some(value) || self.choices.iter().any(|it| it == value);
        if !is_of_publisher && is_reference(value) {
            return Ok(value.to_owned());
        }
        if !self.choices.is_empty() && !self.choices.iter().any(|it| it == value) {
            let choices: Vec<String> = self.choices.iter().map(|it| format!("`{it}`")).collect();
            return Err(AnswerError::Choice { key: key(), choices: choices.join(", ") });
        }
        if self.is_secret {
            return Ok(secrets.write(&self.key, value));
        }
        match self.format {
            InputFormat::Number if value.parse::<f64>().is_ok_and(f64::is_finite) => {
                Ok(value.to_owned())
            }
            InputFormat::Number => Err(AnswerError::Format { key: key(), expected: "a number" }),
            InputFormat::Boolean => match value.to_ascii_lowercase().as_str() {
                "true" | "yes" | "y" => Ok("true".to_owned()),
                "false" | "no" | "n" => Ok("false".to_owned()),
                _ => Err(AnswerError::Format { key: key(), expected: "`true` or `false`" }),
            },
            // No shell replaces the `~`.
            InputFormat::Path if value.starts_with("~/") && !is_of_publisher => {
                Ok(format!("${{HOME}}{}", escaped(&value[1..])))
            }
            InputFormat::Text | InputFormat::Path => Ok(escaped(value)),
        }
    }
}

/// Does the user mean a variable or a secret of their own? Its braces must be closed, so that text of a publisher behind it
/// cannot become part of it.
fn is_reference(text: &str) -> bool {
    text.contains("${")
        && text.matches('{').count() == text.matches('}').count()
        && !Template::parse(text).is_literal()
}

/// The text as it has to be written so that nothing in it is expanded.
pub(super) fn escaped(text: &str) -> String {
    text.replace('$', "$$")
}

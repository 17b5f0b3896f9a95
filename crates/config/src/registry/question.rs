//! What a user is asked before a server can be added.

use super::input::{Input, InputFormat};
use crate::display::is_secret_name;

/// Where an answer is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionPlace {
    /// An argument of the command.
    Argument,
    /// An environment variable.
    Environment,
    /// A header.
    Header,
    /// A variable inside an argument, a variable, a header or the URL.
    Variable,
}

impl QuestionPlace {
    /// The words for a user.
    pub fn label(self) -> &'static str {
        match self {
            QuestionPlace::Argument => "argument",
            QuestionPlace::Environment => "environment variable",
            QuestionPlace::Header => "header",
            QuestionPlace::Variable => "value",
        }
    }
}

/// A value that the user has to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its key: unique among the questions of an entry.
    pub key: String,
    /// Where the answer is used.
    pub place: QuestionPlace,
    /// The publisher's description; may be empty.
    pub description: String,
    /// Whether the server does not start without an answer.
    pub is_required: bool,
    /// Whether the answer is a secret.
    pub is_secret: bool,
    /// Whether several answers are possible.
    pub is_repeated: bool,
    /// The format of the answer.
    pub format: InputFormat,
    /// The answer if the user gives none.
    pub default: Option<String>,
    /// An example.
    pub placeholder: Option<String>,
    /// The only accepted answers; empty for any.
    pub choices: Vec<String>,
}

impl Question {
    pub(super) fn new(name: &str, place: QuestionPlace, input: &Input) -> Question {
        let key: String =
            name.trim_start_matches('-').chars().filter(|c| !c.is_whitespace()).collect();
        Question {
            key: if key.is_empty() { "argument".to_owned() } else { key.replace('=', "") },
            place,
            description: input.description.clone(),
            is_required: input.is_required,
            is_secret: input.is_secret || is_secret_by_name(name, input),
            is_repeated: input.is_repeated,
            format: input.format.unwrap_or(InputFormat::Text),
            // A published secret is none.
            default: input.default.clone().filter(|it| !input.is_secret && !it.is_empty()),
            placeholder: input.placeholder.clone(),
            choices: input.choices.clone(),
        }
    }
}

/// Publishers forget to mark secrets.
fn is_secret_by_name(name: &str, input: &Input) -> bool {
    let is_text = matches!(input.format, None | Some(InputFormat::Text));
    is_text && input.default.is_none() && input.choices.is_empty() && is_secret_name(name)
}

//! A server's prompt while its arguments are collected.

use std::collections::BTreeMap;

/// A prompt and the values of its arguments so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptInvocation {
    /// The server.
    pub server: String,
    /// Its name at the server.
    pub prompt: String,
    /// Its command name.
    pub command_name: String,
    /// Its arguments.
    pub arguments: Vec<PromptArgument>,
    /// The values so far, by argument.
    pub values: BTreeMap<String, String>,
    /// The index of the argument that is asked for.
    pub current: usize,
    /// Does the server support completions?
    pub has_completions: bool,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Is it required?
    pub is_required: bool,
}

impl PromptInvocation {
    /// The argument that is asked for; `None` once all have been.
    pub fn current_argument(&self) -> Option<&PromptArgument> {
        self.arguments.get(self.current)
    }

    /// Parses `name=value` where the name is one of its arguments.
    pub fn parse_pair(&self, word: &str) -> Option<(String, String)> {
        let (key, value) = word.split_once('=')?;
        let is_ours = self.arguments.iter().any(|it| it.name == key);
        is_ours.then(|| (key.to_owned(), value.to_owned()))
    }

    /// Goes to the next argument without a value.
    pub(crate) fn skip_filled(&mut self) {
        while self.current_argument().is_some_and(|it| self.values.contains_key(&it.name)) {
            self.current += 1;
        }
    }
}

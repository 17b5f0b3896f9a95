//! A server's prompt while its arguments are collected.

use std::collections::BTreeMap;

/// A prompt, and what is known of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptInvocation {
    /// Whose it is.
    pub server: String,
    /// What its server calls it.
    pub prompt: String,
    /// What it is typed as.
    pub command_name: String,
    /// What it takes.
    pub arguments: Vec<PromptArgument>,
    /// What was answered.
    pub values: BTreeMap<String, String>,
    /// Which argument is asked for.
    pub current: usize,
    /// Can the server say what arguments could be?
    pub has_completions: bool,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: String,
    /// Must it be there?
    pub is_required: bool,
}

impl PromptInvocation {
    /// The argument that is asked for; none where all are answered.
    pub fn current_argument(&self) -> Option<&PromptArgument> {
        self.arguments.get(self.current)
    }

    /// A word as `name=value`, where the name is one of its arguments.
    pub fn parse_pair(&self, word: &str) -> Option<(String, String)> {
        let (key, value) = word.split_once('=')?;
        let is_ours = self.arguments.iter().any(|it| it.name == key);
        is_ours.then(|| (key.to_owned(), value.to_owned()))
    }

    /// Goes to the next argument that has no answer.
    pub(crate) fn skip_filled(&mut self) {
        while self.current_argument().is_some_and(|it| self.values.contains_key(&it.name)) {
            self.current += 1;
        }
    }
}

//! The arguments of a server's prompt, asked for one after the other where messages are written.

use std::collections::BTreeMap;

use crate::tui::state::screen_state::{Effect, ScreenState};
use crate::tui::view::composer::completion::CompletionMenu;

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
    fn skip_filled(&mut self) {
        while self.current_argument().is_some_and(|it| self.values.contains_key(&it.name)) {
            self.current += 1;
        }
    }
}

impl ScreenState {
    pub(crate) fn start_prompt(&mut self, mut prompt: PromptInvocation) -> Vec<Effect> {
        prompt.skip_filled();
        if prompt.current_argument().is_none() {
            return vec![Effect::GetPrompt(prompt)];
        }
        self.composer.clear();
        self.completions = None;
        self.prompt = Some(prompt);
        self.request_completions()
    }

    /// Takes what was written as the answer.
    pub(crate) fn submit_argument(&mut self) -> Vec<Effect> {
        let Some(mut prompt) = self.prompt.take() else { return Vec::new() };
        let text = self.composer.take();
        self.completions = None;
        if let Some(argument) = prompt.current_argument().cloned() {
            if text.is_empty() && argument.is_required {
                self.prompt = Some(prompt);
                return Vec::new();
            }
            if !text.is_empty() {
                prompt.values.insert(argument.name, text);
            }
            prompt.current += 1;
        }
        self.start_prompt(prompt)
    }

    /// Asks the server what the argument could be.
    pub(crate) fn request_completions(&mut self) -> Vec<Effect> {
        match &self.prompt {
            Some(prompt) if prompt.has_completions => {
                let typed = self.composer.text_with_pastes();
                vec![Effect::CompleteArgument { prompt: prompt.clone(), typed }]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// What the server says fits only as long as nothing else was typed.
    pub(crate) fn set_completions(&mut self, typed: &str, values: Vec<String>) {
        if self.prompt.is_some() && self.composer.draft() == typed {
            let values = values.into_iter().filter(|it| it != typed).collect();
            self.completions = CompletionMenu::from_values(values, 0..typed.len());
        }
    }
}

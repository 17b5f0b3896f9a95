//! The arguments of a server's prompt, asked for one after the other where messages are written.

use std::collections::BTreeMap;

use super::{Act, Chat};
use crate::screen::menu::Menu;

/// A prompt, and what is known of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptAsked {
    /// Whose it is.
    pub server: String,
    /// What its server calls it.
    pub prompt: String,
    /// What it is typed as.
    pub typed_as: String,
    /// What it takes.
    pub arguments: Vec<Argument>,
    /// What was answered.
    pub given: BTreeMap<String, String>,
    /// Which argument is asked for.
    pub at: usize,
    /// Can the server say what arguments could be?
    pub completes: bool,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Must it be there?
    pub is_required: bool,
}

impl PromptAsked {
    /// The argument that is asked for; none where all are answered.
    pub fn argument(&self) -> Option<&Argument> {
        self.arguments.get(self.at)
    }

    /// A word as `name=value`, where the name is one of its arguments.
    pub fn pair(&self, word: &str) -> Option<(String, String)> {
        let (key, value) = word.split_once('=')?;
        let is_ours = self.arguments.iter().any(|it| it.name == key);
        is_ours.then(|| (key.to_owned(), value.to_owned()))
    }

    /// Goes to the next argument that has no answer.
    fn skip_given(&mut self) {
        while self.argument().is_some_and(|it| self.given.contains_key(&it.name)) {
            self.at += 1;
        }
    }
}

impl Chat {
    pub(super) fn begin_asking(&mut self, mut asked: PromptAsked) -> Vec<Act> {
        asked.skip_given();
        if asked.argument().is_none() {
            return vec![Act::GetPrompt(asked)];
        }
        self.composer.clear();
        self.menu = None;
        self.asking = Some(asked);
        self.ask_server()
    }

    /// Takes what was written as the answer.
    pub(super) fn answer_argument(&mut self) -> Vec<Act> {
        let Some(mut asked) = self.asking.take() else { return Vec::new() };
        let text = self.composer.take();
        self.menu = None;
        if let Some(argument) = asked.argument().cloned() {
            if text.is_empty() && argument.is_required {
                self.asking = Some(asked);
                return Vec::new();
            }
            if !text.is_empty() {
                asked.given.insert(argument.name, text);
            }
            asked.at += 1;
        }
        self.begin_asking(asked)
    }

    /// Asks the server what the argument could be.
    pub(super) fn ask_server(&mut self) -> Vec<Act> {
        match &self.asking {
            Some(asked) if asked.completes => {
                let typed = self.composer.whole();
                vec![Act::Complete { prompt: asked.clone(), typed }]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// What the server says fits only as long as nothing else was typed.
    pub(super) fn complete(&mut self, typed: &str, values: Vec<String>) {
        if self.asking.is_some() && self.composer.draft() == typed {
            let values = values.into_iter().filter(|it| it != typed).collect();
            self.menu = Menu::given(values, 0..typed.len());
        }
    }
}

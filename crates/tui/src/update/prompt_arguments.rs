//! Collects the arguments of a server's prompt in the composer, one after the other.

use crate::effects::effect::Effect;
use crate::state::prompt_invocation::PromptInvocation;
use crate::state::screen_state::ScreenState;
use crate::view::composer::completion::CompletionMenu;

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

    /// Takes the draft as the value of the current argument.
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

    /// Requests completions for the current argument.
    pub(crate) fn request_completions(&mut self) -> Vec<Effect> {
        match &self.prompt {
            Some(prompt) if prompt.has_completions => {
                let typed = self.composer.text_with_pastes();
                vec![Effect::CompleteArgument { prompt: prompt.clone(), typed }]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Shows completions, unless the draft has changed since the request.
    pub(crate) fn set_completions(&mut self, typed: &str, values: Vec<String>) {
        if self.prompt.is_some() && self.composer.draft() == typed {
            let values = values.into_iter().filter(|it| it != typed).collect();
            self.completions = CompletionMenu::from_values(values, 0..typed.len());
        }
    }
}

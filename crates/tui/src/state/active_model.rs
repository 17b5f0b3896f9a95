//! The model of the conversation, as far as the screen shows it.

use std::sync::Arc;

use switchboard_chat::model::language_model::LanguageModel;

/// The model of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveModel {
    /// Its name.
    pub name: String,
    /// Its context window, in tokens.
    pub context_window: Option<u64>,
}

impl ActiveModel {
    /// The displayed part of a model.
    pub fn from_model(model: &Arc<dyn LanguageModel>) -> ActiveModel {
        ActiveModel { name: model.name().to_owned(), context_window: model.context_window() }
    }
}

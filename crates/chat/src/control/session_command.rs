//! What requests and prompts tell the task of a session.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::model::language_model::LanguageModel;

/// A command to the task of a session.
pub(crate) enum SessionCommand {
    /// Changes the permission mode, and then says so.
    SetMode {
        /// In the words of the SDKs.
        mode: String,
        /// Dropped or sent to when the mode was changed or refused.
        changed: oneshot::Sender<()>,
    },
    /// The model was changed: its name and its context window.
    ModelChanged(Arc<dyn LanguageModel>),
}

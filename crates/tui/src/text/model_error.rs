//! A model's failure as a text with a hint.

use std::error::Error;

use switchboard::config::display::sanitize_line;
use switchboard_chat::model::language_model::{ModelError, ModelErrorKind};

use crate::text::ansi::paint;
use crate::theme::Tone;

/// The error with its cause and a hint.
pub fn model_error_text(error: &ModelError) -> String {
    let mut text = sanitize_line(&error.to_string());
    if let Some(cause) = error.source() {
        text.push_str(&format!("\ncaused by: {}", sanitize_line(&cause.to_string())));
    }
    let hint = match &error.kind {
        ModelErrorKind::NotConfigured => "/model says how to set one",
        ModelErrorKind::KeyRejected(_) => "check the key; /model says where it comes from",
        ModelErrorKind::Unreachable(_) => {
            "check the network and the address; what you said is kept"
        }
        ModelErrorKind::Overloaded(_) => "say it again in a while; what you said is kept",
        ModelErrorKind::ContextTooLong(_) => "/clear begins a new conversation",
        ModelErrorKind::Rejected { .. }
        | ModelErrorKind::InvalidResponse(_)
        | ModelErrorKind::StreamInterrupted(_) => "say “go on” to try again",
    };
    format!("{text}\n{} {hint}", paint(Tone::Strong, "hint:"))
}

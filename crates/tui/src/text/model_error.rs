//! A model's failure as a text with a hint, and a retry as one line.

use std::error::Error;
use std::time::Duration;

use switchboard::config::display::sanitize_line;
use switchboard_chat::model::language_model::{ModelError, ModelErrorKind};

use crate::text::ansi::paint;
use crate::text::duration::format_duration;
use crate::theme::Tone;

/// One line about a failed request that is retried. `advice` says what the user can do meanwhile.
pub fn retry_text(attempt: u32, after: Duration, reason: &str, advice: &str) -> String {
    let (reason, after) = (sanitize_line(reason), format_duration(after));
    format!("The model failed: {reason}. Retry {attempt} in {after}; {advice}.")
}

/// The error with its cause and a hint.
pub fn model_error_text(error: &ModelError) -> String {
    let mut text = sanitize_line(&error.to_string());
    if let Some(cause) = error.source() {
        text.push_str(&format!("\ncaused by: {}", sanitize_line(&cause.to_string())));
    }
    let hint = match &error.kind {
        ModelErrorKind::NotConfigured => "/model explains how to set one",
        ModelErrorKind::KeyRejected(_) => "check the key; /model shows its source",
        ModelErrorKind::Unreachable(_) => "check the network and the URL; your message is kept",
        ModelErrorKind::Overloaded(_) => "try again later; your message is kept",
        ModelErrorKind::ContextTooLong(_) => "/clear starts a new conversation",
        ModelErrorKind::Rejected { .. }
        | ModelErrorKind::InvalidResponse(_)
        | ModelErrorKind::StreamInterrupted(_) => "send “continue” to try again",
    };
    format!("{text}\n{} {hint}", paint(Tone::Strong, "hint:"))
}

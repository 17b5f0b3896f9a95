//! What happens in a conversation, as it is shown.

use std::error::Error;

use switchboard_chat::happening::{Happening, TurnEnd};
use switchboard_chat::language_model::{ModelError, ModelErrorKind};

use super::Chat;
use crate::screen::cards::seconds;
use crate::screen::clean_text::clean_line;
use crate::style::{Meaning, paint};

/// What calls of our own are called, so that they are not taken for the model's.
pub const OWN_CALL: &str = "own-";

impl Chat {
    pub(super) fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::TakenUp { sayings } => {
                for _ in 0..sayings {
                    if let Some(text) = self.queued.pop_front() {
                        self.transcript.person(&text);
                    }
                }
                self.turn.get_or_insert(self.now);
            }
            Happening::Text(text) => self.transcript.answer(&text),
            Happening::Thought(text) => self.transcript.thought(&text),
            Happening::AnswerEnded => {}
            Happening::CallBegan(call) => {
                self.calls += usize::from(call.id.starts_with(OWN_CALL));
                self.transcript.call(call, self.now);
            }
            Happening::CallProgress { id, done, of, message } => {
                self.transcript.advance(&id, done, of, message);
            }
            Happening::CallEnded { id, ended, text, took } => {
                if id.starts_with(OWN_CALL) {
                    self.calls = self.calls.saturating_sub(1);
                }
                self.transcript.end_call(&id, ended, &text, took);
            }
            Happening::Used(used) => self.used = used,
            Happening::Again { attempt, after, because } => {
                self.transcript.take_back_answer();
                let because = clean_line(&because);
                let after = seconds(after);
                let text = format!("asked again in {after} (attempt {attempt}): {because}");
                self.transcript.note(&paint(Meaning::Doubtful, text));
            }
            Happening::TurnEnded(end) => {
                self.turn = None;
                self.turn_ended(end);
            }
        }
    }

    fn turn_ended(&mut self, end: TurnEnd) {
        match end {
            TurnEnd::Finished => {}
            TurnEnd::CutShort => {
                self.transcript.note("The answer was as long as it may be; say “go on”.");
            }
            TurnEnd::Refused => self.transcript.note("The model would not answer."),
            TurnEnd::Interrupted => self.transcript.note("Stopped."),
            TurnEnd::TooManyRounds => {
                self.transcript.note("Too many rounds of calls; say “go on” to let it go on.");
            }
            TurnEnd::Failed(error) => self.transcript.fault(&model_failure(&error)),
        }
    }
}

/// Why a model did not answer, and what helps.
pub fn model_failure(error: &ModelError) -> String {
    let mut text = clean_line(&error.to_string());
    if let Some(cause) = error.source() {
        text.push_str(&format!("\ncaused by: {}", clean_line(&cause.to_string())));
    }
    let hint = match &error.kind {
        ModelErrorKind::NotSet => "/model says how to set one",
        ModelErrorKind::Key(_) => "check the key; /model says where it comes from",
        ModelErrorKind::Unreachable(_) => {
            "check the network and the address; what you said is kept"
        }
        ModelErrorKind::Busy(_) => "say it again in a while; what you said is kept",
        ModelErrorKind::TooLong(_) => "/clear begins a new conversation",
        ModelErrorKind::Refused { .. }
        | ModelErrorKind::Senseless(_)
        | ModelErrorKind::BrokenOff(_) => "say “go on” to try again",
    };
    format!("{text}\n{} {hint}", paint(Meaning::Strong, "hint:"))
}

//! The result of one prompt, gathered from the events of its conversation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use switchboard_chat::conversation::event::{CallOutcome, ConversationEvent, TurnEnd};
use switchboard_chat::model::language_model::Usage;
use switchboard_tui::text::model_error::retry_text;

use super::events;
use crate::exit::Exit;
use crate::outcome::Failure;
use crate::output::report::{self, StdoutState};

/// What the user can do while a request is retried.
const RETRY_ADVICE: &str = "Ctrl+C stops it, `--model` chooses another model";

/// The result of one prompt.
pub(super) struct RunResult {
    pub(super) end: Option<TurnEnd>,
    /// The last answer.
    pub(super) answer: String,
    /// The answer, if a schema asks for JSON.
    structured_output: Option<Json>,
    pub(super) answer_count: usize,
    pub(super) usage: Usage,
    /// The tool of each call, by call id.
    calls: BTreeMap<Arc<str>, Arc<str>>,
    /// Were retries of the current response announced?
    is_retrying: bool,
    /// Calls that were denied.
    denied: Vec<Json>,
    pub(super) id: Option<Arc<str>>,
    pub(super) save_error: Option<Arc<str>>,
    pub(super) duration: Duration,
    pub(super) stdout: StdoutState,
}

impl RunResult {
    pub(super) fn new() -> RunResult {
        RunResult {
            end: None,
            answer: String::new(),
            structured_output: None,
            answer_count: 0,
            usage: Usage::default(),
            calls: BTreeMap::new(),
            is_retrying: false,
            denied: Vec::new(),
            id: None,
            save_error: None,
            duration: Duration::ZERO,
            stdout: StdoutState::Open,
        }
    }

    pub(super) fn record(&mut self, event: ConversationEvent) {
        match event {
            ConversationEvent::Text(text) => self.answer.push_str(&text),
            ConversationEvent::Retrying { attempt, after, reason } => {
                self.answer.clear();
                // One line for all retries of a response.
                if !std::mem::replace(&mut self.is_retrying, true) {
                    let text = retry_text(attempt, after, &reason, RETRY_ADVICE);
                    report::print_stderr(&format!("{text}\n"));
                }
            }
            ConversationEvent::ResponseEnded(_) => {
                self.answer_count += 1;
                self.is_retrying = false;
            }
            // Text after a call belongs to the next answer.
            ConversationEvent::CallStarted(call) => {
                self.answer.clear();
                self.calls.insert(call.id, call.tool);
            }
            ConversationEvent::Usage(usage) => self.usage = usage,
            ConversationEvent::CallEnded { id, outcome: CallOutcome::Denied, text, .. } => {
                let tool = self.calls.get(&id).map(|it| &**it);
                self.denied.push(json!({"tool": tool, "reason": text}));
            }
            ConversationEvent::StructuredOutput(output) => {
                self.answer = output.to_string();
                self.structured_output = Some(output);
            }
            ConversationEvent::TurnEnded(end) => self.end = Some(end),
            ConversationEvent::CallEnded { .. }
            | ConversationEvent::MessagesAccepted { .. }
            | ConversationEvent::ChannelMessages(_)
            | ConversationEvent::Thinking(_)
            | ConversationEvent::ToolUseStarted { .. }
            | ConversationEvent::ToolInput(_)
            | ConversationEvent::BlockEnded(_)
            | ConversationEvent::CallProgress { .. } => {}
        }
    }

    /// The failure of a turn that did not finish.
    pub(super) fn failure(&self) -> Option<Failure> {
        let because = |text: &str| Some(Failure::new(Exit::ModelFailed, text));
        match &self.end {
            Some(TurnEnd::Finished) => None,
            Some(TurnEnd::Failed(error)) => {
                because(&error.to_string()).map(|it| it.caused_by(&error.kind))
            }
            Some(TurnEnd::CutShort) => because("the answer was truncated at the length limit"),
            Some(TurnEnd::Refused) => because("the model refused to answer"),
            Some(TurnEnd::StoppedByHook(why)) => because(&format!("a hook ended the turn: {why}")),
            Some(TurnEnd::NoStructuredOutput) => {
                because("the model did not give the JSON that the schema asks for")
            }
            Some(TurnEnd::TooManyRounds) => {
                because("the model did not finish within the allowed number of responses")
            }
            Some(TurnEnd::Interrupted) => Some(Failure::new(Exit::Interrupted, "interrupted")),
            None => because("the conversation ended early"),
        }
    }

    pub(super) fn as_json(&self, failure: Option<&Failure>) -> Json {
        let (reason, error) = match &self.end {
            Some(TurnEnd::Finished) => ("end_turn", None),
            Some(TurnEnd::CutShort) => ("max_tokens", None),
            Some(TurnEnd::Refused) => ("refusal", None),
            Some(TurnEnd::Interrupted) | None => ("interrupted", None),
            Some(TurnEnd::TooManyRounds) => ("max_turns", None),
            Some(TurnEnd::NoStructuredOutput) => ("no_structured_output", None),
            Some(TurnEnd::StoppedByHook(_)) => ("hook", None),
            Some(TurnEnd::Failed(error)) => ("error", Some(format!("{error}: {}", error.kind))),
        };
        let mut json = json!({
            "type": "result",
            "result": error.as_ref().unwrap_or(&self.answer),
            "is_error": reason != "end_turn",
            "stop_reason": reason,
            "session_id": self.id.as_deref(),
            "num_turns": self.answer_count,
            "duration_ms": u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            "usage": events::usage(&self.usage),
            "permission_denials": self.denied,
        });
        if let Some(output) = &self.structured_output {
            json["structured_output"] = output.clone();
        }
        if let Some(failure) = failure {
            json["error"] = report::error_json(failure);
        }
        json
    }
}

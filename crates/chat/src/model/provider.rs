//! The model APIs: how each writes a request, and how it parses the event stream of a response.
//! Sending, retrying and timeouts are left to `client`.

pub(crate) mod anthropic;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
mod tool_arguments;

use std::sync::atomic::AtomicBool;

use serde_json::Value as Json;

use crate::model::attempt_error::AttemptError;
use crate::model::language_model::{ModelRequest, ModelResponse, ResponseDelta};

/// What a request is written with, besides what was said.
#[derive(Debug)]
pub(crate) struct RequestSettings {
    pub(crate) model: String,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) thinking_budget: Option<u64>,
    /// Who may take back what was thought: the same model in the same language.
    pub(crate) model_id: String,
    /// Does it give away its thoughts in a form that can be given back? Asked until it says no.
    pub(crate) returns_encrypted_reasoning: AtomicBool,
}

impl RequestSettings {
    /// The longest answer, in tokens, whoever is the stricter.
    pub(crate) fn max_output_tokens(&self, request: &ModelRequest) -> Option<u64> {
        match (self.max_tokens, request.max_tokens) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        }
    }
}

/// Takes the events of one answer.
pub(crate) trait ResponseParser: Send {
    /// Takes one, and says what may be passed on at once.
    fn push_event(&mut self, event: &Json) -> Result<Vec<ResponseDelta>, AttemptError>;

    /// Is it all there? Some streams go on after their last word.
    fn is_complete(&self) -> bool;

    /// The whole answer, where it is one.
    fn finish(self: Box<Self>) -> Result<ModelResponse, AttemptError>;
}

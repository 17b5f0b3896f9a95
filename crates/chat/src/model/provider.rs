//! The model APIs: how each writes a request, and how it parses the event stream of a response.
//! Sending, retrying and timeouts are left to `client`.

pub(crate) mod anthropic;
pub(crate) mod openai_chat;
pub(crate) mod openai_responses;
mod tool_arguments;

use std::sync::atomic::AtomicBool;

use serde_json::Value as Json;

use crate::model::attempt_error::AttemptError;
use crate::model::config::{Effort, ThinkingSetting};
use crate::model::language_model::{ModelRequest, ModelResponse, ResponseDelta};

/// The settings of a request, besides its messages.
#[derive(Debug)]
pub(crate) struct RequestSettings {
    pub(crate) model: String,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) thinking: ThinkingSetting,
    pub(crate) effort: Option<Effort>,
    /// Identifies the model and API that thinking blocks may be sent back to.
    pub(crate) model_id: String,
    /// Does the service return encrypted reasoning? Assumed until it rejects the parameter.
    pub(crate) returns_encrypted_reasoning: AtomicBool,
}

impl RequestSettings {
    /// The maximum length of the response, in tokens: the smaller of both limits.
    pub(crate) fn max_output_tokens(&self, request: &ModelRequest) -> Option<u64> {
        match (self.max_tokens, request.max_tokens) {
            (Some(ours), Some(theirs)) => Some(ours.min(theirs)),
            (ours, theirs) => ours.or(theirs),
        }
    }
}

/// Parses the events of one response.
pub(crate) trait ResponseParser: Send {
    /// Parses one event, and returns the deltas to forward.
    fn push_event(&mut self, event: &Json) -> Result<Vec<ResponseDelta>, AttemptError>;

    /// Is the response complete? Some streams continue after it.
    fn is_complete(&self) -> bool;

    /// The whole response; an error where it is incomplete.
    fn finish(self: Box<Self>) -> Result<ModelResponse, AttemptError>;
}

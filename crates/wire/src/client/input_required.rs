//! Multi-round-trip requests: a result that asks the client for input, and the responses to it.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::jsonrpc::payload::{LazyFinder, Payload};
use crate::peer::RequestHandler;

/// How many questions it may ask at once.
const MAX_INPUT_REQUESTS: usize = 64;

/// What a server asks back.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputRequired {
    result_type: String,
    #[serde(default)]
    input_requests: BTreeMap<String, InputRequest>,
    #[serde(default)]
    pub(super) request_state: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct InputRequest {
    method: String,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

/// The server's question, where a result is one. Looking for the word first keeps large results unread.
pub(super) fn parse_input_required(result: &Payload) -> Option<InputRequired> {
    const RESULT_TYPE: &str = "input_required";
    static FINDER: LazyFinder = LazyFinder::new(|| Finder::new(RESULT_TYPE));
    if !result.contains(&FINDER) {
        return None;
    }
    let input_required: InputRequired = result.decode().ok()?;
    (input_required.result_type == RESULT_TYPE).then_some(input_required)
}

/// Answers every question, one after the other: a person can only be asked one thing at a time.
pub(super) async fn answer_input_requests(
    input_handler: &dyn RequestHandler,
    input_required: &InputRequired,
) -> String {
    let mut responses = serde_json::Map::new();
    for (name, request) in input_required.input_requests.iter().take(MAX_INPUT_REQUESTS) {
        let params = request.params.as_ref();
        let params = params.map(|raw| Payload::from_json(raw.get().to_owned().into()));
        let answer = match input_handler.respond(&request.method, params).await {
            Ok(answer) => answer.decode().unwrap_or_default(),
            Err(_) => json!({"action": "decline"}),
        };
        responses.insert(name.clone(), answer);
    }
    serde_json::Value::Object(responses).to_string()
}

//! Multi-round-trip requests: a result that asks the client for input, and the responses to it.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::jsonrpc::payload::{LazyFinder, Payload};
use crate::peer::RequestHandler;

/// How many input requests of one result are answered.
const MAX_INPUT_REQUESTS: usize = 64;

/// A result with `resultType` `input_required`.
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

/// Parses a result that asks for input. The search for the type name avoids decoding large results.
pub(super) fn parse_input_required(result: &Payload) -> Option<InputRequired> {
    const RESULT_TYPE: &str = "input_required";
    static FINDER: LazyFinder = LazyFinder::new(|| Finder::new(RESULT_TYPE));
    if !result.contains(&FINDER) {
        return None;
    }
    let input_required: InputRequired = result.decode().ok()?;
    (input_required.result_type == RESULT_TYPE).then_some(input_required)
}

/// Answers the input requests one after the other, because a user sees one prompt at a time.
pub(super) async fn answer_input_requests(
    input_handler: &dyn RequestHandler,
    input_required: &InputRequired,
) -> String {
    let mut responses = serde_json::Map::new();
    for (name, request) in input_required.input_requests.iter().take(MAX_INPUT_REQUESTS) {
        let params = request.params.as_ref();
        let params = params.map(|raw| Payload::from_json(raw.get().to_owned().into()));
        let response = match input_handler.respond(&request.method, params).await {
            Ok(response) => response.decode().unwrap_or_default(),
            Err(_) => json!({"action": "decline"}),
        };
        responses.insert(name.clone(), response);
    }
    serde_json::Value::Object(responses).to_string()
}

//! The `requestState` of a modern client's multi-round-trip call: contains the previous input responses, so
//! that the server keeps nothing between rounds. A keyed hash binds it to its call.

use std::hash::{BuildHasher, RandomState};

use serde_json::{Map, Value as Json, json};

use crate::kit::handler_error::HandlerError;

/// The maximum length of a state.
const MAX_STATE_LENGTH: usize = 256 * 1024;
/// The maximum number of elicitations per call.
pub(crate) const MAX_ELICITATIONS: usize = 16;

/// The input responses received so far.
pub(crate) type InputResponses = Map<String, Json>;

/// Issues and verifies states with a key that lives as long as the process.
#[derive(Debug, Default)]
pub(crate) struct RequestStates(RandomState);

impl RequestStates {
    /// The state to send with an input request.
    pub(crate) fn issue(
        &self,
        call: &MethodCall<'_>,
        responses: &InputResponses,
        key: &str,
    ) -> String {
        let body = json!({"responses": responses, "key": key});
        json!({"seal": self.seal(call, &body), "body": body}).to_string()
    }

    /// The input responses of the call so far, if the state was issued for this call.
    pub(crate) fn verify(&self, call: &MethodCall<'_>) -> Result<InputResponses, HandlerError> {
        let params = call.params;
        let Some(state) = params.get("requestState") else {
            return match params.get("inputResponses") {
                None => Ok(InputResponses::new()),
                Some(_) => Err(HandlerError::invalid_params(
                    "`inputResponses` comes without `requestState`",
                )),
            };
        };
        let rejected =
            || HandlerError::invalid_params("`requestState` was not issued for this call");
        let text = state.as_str().filter(|it| it.len() <= MAX_STATE_LENGTH).ok_or_else(rejected)?;
        let state: Json = serde_json::from_str(text).map_err(|_| rejected())?;
        let body = &state["body"];
        if state["seal"] != self.seal(call, body) {
            return Err(rejected());
        }
        let mut responses = body["responses"].as_object().cloned().unwrap_or_default();
        let key = body["key"].as_str().unwrap_or_default();
        if let Some(response) = params["inputResponses"].get(key) {
            responses.insert(key.to_owned(), response.clone());
        }
        Ok(responses)
    }

    fn seal(&self, call: &MethodCall<'_>, body: &Json) -> String {
        let covered_params: Map<String, Json> = call
            .params
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| !["_meta", "inputResponses", "requestState"].contains(&&***name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let text = (call.method, Json::Object(covered_params).to_string(), body.to_string());
        format!("{:016x}", self.0.hash_one(text))
    }
}

/// A request of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MethodCall<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: &'a Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_valid_only_for_its_call_and_unchanged() {
        let states = RequestStates::default();
        let first = json!({"name": "book", "arguments": {"a": 1}, "_meta": {"x": 1}});
        let call = MethodCall { method: "tools/call", params: &first };
        let state = states.issue(&call, &InputResponses::new(), "q");
        let again = |name: &str, state: &str| {
            let params = json!({
                "name": name, "arguments": {"a": 1}, "requestState": state,
                "inputResponses": {"q": {"action": "accept"}, "other": 1},
            });
            states.verify(&MethodCall { method: "tools/call", params: &params })
        };
        let expected = json!({"q": {"action": "accept"}});
        assert_eq!(again("book", &state).map(Json::Object).expect("ours"), expected);
        assert!(again("pay", &state).is_err());
        assert!(again("book", &state.replace("\"key\":\"q\"", "\"key\":\"other\"")).is_err());
        assert!(again("book", "nonsense").is_err());
        let alone = json!({"inputResponses": {}});
        assert!(states.verify(&MethodCall { method: "tools/call", params: &alone }).is_err());
    }
}

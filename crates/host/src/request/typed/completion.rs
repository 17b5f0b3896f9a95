//! `completion/complete`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;

use super::response::{TypedRequestError, decode};
use crate::request::server_request::{RequestOptions, ServerRequest};

/// Asks for values of an argument: a request of `completion/complete`.
#[derive(Debug, Clone)]
#[must_use = "a request does nothing before it is sent"]
pub struct Complete {
    reference: Json,
    argument: String,
    prefix: String,
    context: BTreeMap<String, String>,
    timeout: Duration,
}

impl Complete {
    /// Completes an argument of a prompt. The prefix is what the user has typed so far.
    pub fn prompt_argument(
        prompt: &str,
        argument: impl Into<String>,
        prefix: impl Into<String>,
    ) -> Complete {
        let reference = json!({"type": "ref/prompt", "name": prompt});
        Complete::new(reference, argument.into(), prefix.into())
    }

    /// Completes a variable of a resource template. The prefix is what the user has typed so far.
    pub fn template_variable(
        uri_template: &str,
        variable: impl Into<String>,
        prefix: impl Into<String>,
    ) -> Complete {
        let reference = json!({"type": "ref/resource", "uri": uri_template});
        Complete::new(reference, variable.into(), prefix.into())
    }

    fn new(reference: Json, argument: String, prefix: String) -> Complete {
        let timeout = RequestOptions::DEFAULT_TIMEOUT;
        Complete { reference, argument, prefix, context: BTreeMap::new(), timeout }
    }

    /// Adds an argument that already has a value.
    pub fn known_argument(mut self, name: impl Into<String>, value: impl Into<String>) -> Complete {
        self.context.insert(name.into(), value.into());
        self
    }

    /// Sets how long the server may take.
    pub fn timeout(mut self, timeout: Duration) -> Complete {
        self.timeout = timeout;
        self
    }

    pub(crate) fn into_request(self) -> ServerRequest {
        let argument = json!({"name": self.argument, "value": self.prefix});
        let mut params = json!({"ref": self.reference, "argument": argument});
        if !self.context.is_empty() {
            params["context"] = json!({"arguments": self.context});
        }
        let params = Payload::from_json(params.to_string().into());
        ServerRequest::idempotent(COMPLETE, self.timeout).params(params)
    }
}

const COMPLETE: &str = "completion/complete";

/// The values that a server suggests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// The values, best first.
    pub values: Vec<String>,
    /// The number of all values, if the server counts them.
    pub total: Option<u64>,
    /// Whether there are more values than these.
    pub has_more: bool,
    /// The whole response, byte for byte.
    pub raw: Payload,
}

#[derive(Deserialize)]
struct CompleteResult {
    completion: CompletionMembers,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompletionMembers {
    values: Vec<String>,
    #[serde(default)]
    total: Option<u64>,
    #[serde(default)]
    has_more: Option<bool>,
}

impl Completion {
    pub(crate) fn decode(server: &str, raw: Payload) -> Result<Completion, TypedRequestError> {
        let CompleteResult { completion } = decode(server, COMPLETE, &raw)?;
        let CompletionMembers { values, total, has_more } = completion;
        Ok(Completion { values, total, has_more: has_more.unwrap_or(false), raw })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(request: Complete, expected: &Json) {
        let params = request.into_request().params.expect("parameters");
        assert_eq!(&params.decode::<Json>().expect("JSON"), expected);
    }

    #[test]
    fn a_request_names_the_argument_and_what_is_known() {
        check(
            Complete::prompt_argument("review", "file", "a"),
            &json!({"ref": {"type": "ref/prompt", "name": "review"},
                "argument": {"name": "file", "value": "a"}}),
        );
        check(
            Complete::template_variable("x://{a}/{b}", "b", "").known_argument("a", "1"),
            &json!({"ref": {"type": "ref/resource", "uri": "x://{a}/{b}"},
                "argument": {"name": "b", "value": ""}, "context": {"arguments": {"a": "1"}}}),
        );
    }

    #[test]
    fn values_are_decoded_with_their_total() {
        let response = r#"{"completion": {"values": ["a", "b"], "total": 7, "hasMore": true}}"#;
        let completion = Completion::decode("s", Payload::from_json(response.into()));
        let completion = completion.expect("a valid response");
        assert_eq!(completion.values, ["a", "b"]);
        assert_eq!((completion.total, completion.has_more), (Some(7), true));
        let without_values = r#"{"completion": {}}"#;
        Completion::decode("s", Payload::from_json(without_values.into())).expect_err("no values");
    }
}

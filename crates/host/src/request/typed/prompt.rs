//! `prompts/get`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use switchboard_wire::jsonrpc::message::Payload;

use super::content::Content;
use super::response::{TypedRequestError, decode};
use crate::request::server_request::{RequestOptions, ServerRequest};

/// Gets the messages of a prompt: a request of `prompts/get`.
#[derive(Debug, Clone)]
#[must_use = "a request does nothing before it is sent"]
pub struct GetPrompt {
    name: String,
    arguments: BTreeMap<String, String>,
    timeout: Duration,
}

impl GetPrompt {
    /// Gets the prompt with this name.
    pub fn new(name: impl Into<String>) -> GetPrompt {
        let timeout = RequestOptions::DEFAULT_TIMEOUT;
        GetPrompt { name: name.into(), arguments: BTreeMap::new(), timeout }
    }

    /// Sets an argument.
    pub fn argument(mut self, name: impl Into<String>, value: impl Into<String>) -> GetPrompt {
        self.arguments.insert(name.into(), value.into());
        self
    }

    /// Sets how long the server may take.
    pub fn timeout(mut self, timeout: Duration) -> GetPrompt {
        self.timeout = timeout;
        self
    }

    pub(crate) fn into_request(self) -> ServerRequest {
        let params = json!({"name": self.name, "arguments": self.arguments});
        let params = Payload::from_json(params.to_string().into());
        ServerRequest::idempotent(PROMPTS_GET, self.timeout).params(params)
    }
}

const PROMPTS_GET: &str = "prompts/get";

/// The messages of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptMessages {
    /// The description of the prompt.
    pub description: Option<String>,
    /// The messages in their order.
    pub messages: Vec<PromptMessage>,
    /// The whole response, byte for byte.
    pub raw: Payload,
}

#[derive(Deserialize)]
struct GetResult {
    #[serde(default)]
    description: Option<String>,
    messages: Vec<PromptMessage>,
}

impl PromptMessages {
    pub(crate) fn decode(server: &str, raw: Payload) -> Result<PromptMessages, TypedRequestError> {
        let GetResult { description, messages } = decode(server, PROMPTS_GET, &raw)?;
        Ok(PromptMessages { description, messages, raw })
    }
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct PromptMessage {
    /// The author of the message.
    pub role: Role,
    /// The content.
    pub content: Content,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_holds_name_and_arguments() {
        let request = GetPrompt::new("review").argument("file", "a.rs").into_request();
        assert_eq!(request.method, "prompts/get");
        let params = request.params.expect("parameters");
        assert_eq!(
            String::from_utf8_lossy(params.as_bytes()),
            r#"{"name":"review","arguments":{"file":"a.rs"}}"#
        );
    }

    #[test]
    fn messages_have_a_role_and_content() {
        let response = r#"{"description": "d", "messages": [
            {"role": "user", "content": {"type": "text", "text": "a"}},
            {"role": "assistant", "content": {"type": "text", "text": "b"}}]}"#;
        let decoded = PromptMessages::decode("s", Payload::from_json(response.into()));
        let decoded = decoded.expect("a valid response");
        let messages = decoded.messages.iter().map(|it| (it.role, it.content.text()));
        assert_eq!(
            messages.collect::<Vec<_>>(),
            [(Role::User, Some("a")), (Role::Assistant, Some("b"))]
        );
        assert_eq!(decoded.description.as_deref(), Some("d"));
        let other =
            r#"{"messages": [{"role": "system", "content": {"type": "text", "text": "a"}}]}"#;
        PromptMessages::decode("s", Payload::from_json(other.into())).expect_err("no such role");
    }
}

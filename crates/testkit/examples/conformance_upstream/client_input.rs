//! Asks the client something, in the way of the protocol that it speaks: an older client gets requests and we wait for
//! its answers; a newer one gets the questions as our result and calls again with the answers.

use std::time::Duration;

use futures_util::future::try_join_all;
use rmcp::model::{
    ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion,
    ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RoleServer};
use serde_json::{Value as Json, json};

use crate::fixtures::from_json;

/// How long a person or a model may think.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// One thing that the client is asked.
#[derive(Clone, Debug)]
pub struct ClientInput {
    key: &'static str,
    request: Json,
}

impl ClientInput {
    /// Asks the person to fill in a form.
    pub fn form(key: &'static str, message: &str, schema: &Json) -> ClientInput {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        ClientInput { key, request: json!({"method": "elicitation/create", "params": params}) }
    }

    /// Asks the person for one field.
    pub fn field(key: &'static str, message: &str, field: (&str, &str)) -> ClientInput {
        let (name, kind) = field;
        let schema =
            json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]});
        ClientInput::form(key, message, &schema)
    }

    /// Asks the client's model.
    pub fn sampling(key: &'static str, prompt: &str, max_tokens: u32) -> ClientInput {
        let messages = json!([{"role": "user", "content": {"type": "text", "text": prompt}}]);
        let params = json!({"messages": messages, "maxTokens": max_tokens});
        ClientInput { key, request: json!({"method": "sampling/createMessage", "params": params}) }
    }

    /// Asks for the folders that the client works in.
    pub fn roots(key: &'static str) -> ClientInput {
        ClientInput { key, request: json!({"method": "roots/list", "params": {}}) }
    }

    /// Under which the answer comes.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The request inside a result, or inside a task.
    pub fn to_input_request(&self) -> InputRequest {
        from_json(self.request.clone())
    }

    /// The capability without which it is not asked, and what an answer to it holds at least.
    fn required_capability(&self) -> (&'static str, &'static str) {
        match self.request["method"].as_str() {
            Some("elicitation/create") => ("elicitation", "action"),
            Some("sampling/createMessage") => ("sampling", "content"),
            Some(_) | None => ("roots", "roots"),
        }
    }

    /// Can the client be asked this?
    pub fn is_supported_by(&self, context: &RequestContext<RoleServer>) -> bool {
        let declared = json!(context.client_capabilities());
        declared.get(self.required_capability().0).is_some()
    }

    fn accepts(&self, answer: &Json) -> bool {
        answer.get(self.required_capability().1).is_some()
    }
}

/// What came of asking.
#[derive(Debug)]
pub enum InputOutcome {
    /// Every answer.
    Responses(InputResponses),
    /// The client has to call again, with the answers.
    Required(InputRequiredResult),
}

/// Does the client speak the protocol in which servers send no requests?
pub fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Asks everything at once. `responses` is what a newer client has answered already.
pub async fn request_input(
    context: &RequestContext<RoleServer>,
    responses: Option<&InputResponses>,
    inputs: &[ClientInput],
) -> Result<InputOutcome, ErrorData> {
    if let Some(input) = inputs.iter().find(|it| !it.is_supported_by(context)) {
        return Err(missing_capability(input.required_capability().0));
    }
    if !is_modern(context) {
        let answers = inputs.iter().map(|input| send_request(context, input));
        return Ok(InputOutcome::Responses(try_join_all(answers).await?.into_iter().collect()));
    }
    let answer_to = |input: &ClientInput| {
        responses.and_then(|it| it.get(input.key)).filter(|it| input.accepts(it))
    };
    let open: InputRequests = inputs
        .iter()
        .filter(|input| answer_to(input).is_none())
        .map(|input| (input.key.to_owned(), input.to_input_request()))
        .collect();
    if open.is_empty() {
        return Ok(InputOutcome::Responses(responses.cloned().unwrap_or_default()));
    }
    Ok(InputOutcome::Required(InputRequiredResult::from_input_requests(open)))
}

/// The client did not say that it can do what we need.
pub fn missing_capability(name: &str) -> ErrorData {
    ErrorData::missing_required_client_capability(from_json(json!({name: {}})))
}

async fn send_request(
    context: &RequestContext<RoleServer>,
    input: &ClientInput,
) -> Result<(String, Json), ErrorData> {
    let request: ServerRequest = from_json(input.request.clone());
    let options = PeerRequestOptions::with_timeout(CLIENT_TIMEOUT);
    let failed = |error: rmcp::ServiceError| ErrorData::internal_error(error.to_string(), None);
    let handle = context.peer.send_request_with_option(request, options).await.map_err(failed)?;
    let answer = handle.await_response().await.map_err(failed)?;
    Ok((input.key.to_owned(), json!(answer)))
}

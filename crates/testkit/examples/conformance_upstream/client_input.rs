//! Requests input from the client in its era: a legacy client gets requests and we await the responses; a modern
//! client gets the input requests as our result and retries with the responses.

use std::time::Duration;

use futures_util::future::try_join_all;
use rmcp::model::{
    ErrorData, InputRequest, InputRequests, InputRequiredResult, InputResponses, ProtocolVersion,
    ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RoleServer};
use serde_json::{Value as Json, json};

use crate::fixtures::from_json;

/// How long a user or a model may take.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// An input request.
#[derive(Clone, Debug)]
pub struct ClientInput {
    key: &'static str,
    request: Json,
}

impl ClientInput {
    /// Elicits a form.
    pub fn form(key: &'static str, message: &str, schema: &Json) -> ClientInput {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        ClientInput { key, request: json!({"method": "elicitation/create", "params": params}) }
    }

    /// Elicits a form with one field.
    pub fn field(key: &'static str, message: &str, field: (&str, &str)) -> ClientInput {
        let (name, kind) = field;
        let schema =
            json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]});
        ClientInput::form(key, message, &schema)
    }

    /// Requests sampling.
    pub fn sampling(key: &'static str, prompt: &str, max_tokens: u32) -> ClientInput {
        let messages = json!([{"role": "user", "content": {"type": "text", "text": prompt}}]);
        let params = json!({"messages": messages, "maxTokens": max_tokens});
        ClientInput { key, request: json!({"method": "sampling/createMessage", "params": params}) }
    }

    /// Requests the client's roots.
    pub fn roots(key: &'static str) -> ClientInput {
        ClientInput { key, request: json!({"method": "roots/list", "params": {}}) }
    }

    /// The key of the response.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// The request as part of a result or a task.
    pub fn to_input_request(&self) -> InputRequest {
        from_json(self.request.clone())
    }

    /// The required client capability, and a member that every response has.
    fn required_capability(&self) -> (&'static str, &'static str) {
        match self.request["method"].as_str() {
            Some("elicitation/create") => ("elicitation", "action"),
            Some("sampling/createMessage") => ("sampling", "content"),
            Some(_) | None => ("roots", "roots"),
        }
    }

    /// Whether the client supports this request.
    pub fn is_supported_by(&self, context: &RequestContext<RoleServer>) -> bool {
        let declared = json!(context.client_capabilities());
        declared.get(self.required_capability().0).is_some()
    }

    fn accepts(&self, response: &Json) -> bool {
        response.get(self.required_capability().1).is_some()
    }
}

/// The result of an input request.
#[derive(Debug)]
pub enum InputOutcome {
    /// All responses.
    Responses(InputResponses),
    /// The client must retry with the responses.
    Required(InputRequiredResult),
}

/// Whether the client uses the modern era.
pub fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Sends all requests at once. `responses` are those that a modern client has sent already.
pub async fn request_input(
    context: &RequestContext<RoleServer>,
    responses: Option<&InputResponses>,
    inputs: &[ClientInput],
) -> Result<InputOutcome, ErrorData> {
    if let Some(input) = inputs.iter().find(|it| !it.is_supported_by(context)) {
        return Err(missing_capability(input.required_capability().0));
    }
    if !is_modern(context) {
        let requests = inputs.iter().map(|input| send_request(context, input));
        return Ok(InputOutcome::Responses(try_join_all(requests).await?.into_iter().collect()));
    }
    let response_to = |input: &ClientInput| {
        responses.and_then(|it| it.get(input.key)).filter(|it| input.accepts(it))
    };
    let open: InputRequests = inputs
        .iter()
        .filter(|input| response_to(input).is_none())
        .map(|input| (input.key.to_owned(), input.to_input_request()))
        .collect();
    if open.is_empty() {
        return Ok(InputOutcome::Responses(responses.cloned().unwrap_or_default()));
    }
    Ok(InputOutcome::Required(InputRequiredResult::from_input_requests(open)))
}

/// The client did not declare a required capability.
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
    let response = handle.await_response().await.map_err(failed)?;
    Ok((input.key.to_owned(), json!(response)))
}

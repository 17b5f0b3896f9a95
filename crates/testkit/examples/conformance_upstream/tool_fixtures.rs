//! Tools that respond at once or after client input. `task_fixtures` has the tools that can be tasks.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    InputResponses, ProgressNotificationParam,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value as Json, json};
use tokio::time::sleep;

use crate::change_notifier::Change;
use crate::client_input::{
    ClientInput, InputOutcome, is_modern, missing_capability, request_input,
};
use crate::fixture_server::FixtureServer;
use crate::fixtures::{fixtures, image_block, resource_text};
use crate::task_fixtures;

/// Between two events that a client should see one after the other.
const PAUSE: Duration = Duration::from_millis(50);
/// Longer than the reconnection delay of clients.
const RECONNECT_DELAY: Duration = Duration::from_millis(1_500);

/// A tool call and its context.
#[derive(Debug)]
pub struct Call<'a> {
    /// The server.
    pub server: &'a FixtureServer,
    /// The params.
    pub params: &'a CallToolRequestParams,
    /// The request context.
    pub context: &'a RequestContext<RoleServer>,
}

impl Call<'_> {
    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.params.name
    }

    /// The input responses of the client so far.
    pub fn input_responses(&self) -> Option<&InputResponses> {
        self.params.input_responses.as_ref()
    }

    /// An argument.
    pub fn argument(&self, name: &str) -> Option<&Json> {
        self.params.arguments.as_ref()?.get(name)
    }

    /// A string argument.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.argument(name)?.as_str()
    }

    fn required_text(&self, name: &str) -> Result<&str, ErrorData> {
        let missing = || ErrorData::invalid_params(format!("`{name}` is missing"), None);
        self.text(name).ok_or_else(missing)
    }
}

/// A text result.
pub fn text_response(text: &str) -> CallToolResponse {
    content(vec![ContentBlock::text(text)])
}

fn content(blocks: Vec<ContentBlock>) -> CallToolResponse {
    CallToolResult::success(blocks).into()
}

/// Calls a tool.
pub async fn call(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    if let Some(response) = static_response(call) {
        return Ok(response);
    }
    if let Some(response) = task_fixtures::call(call).await {
        return response;
    }
    match call.name() {
        "test_tool_with_logging" => Ok(log_three_times(call).await),
        "test_logging_tool" => {
            call.server.log(call.context, "A line from the logging tool").await;
            Ok(text_response("Logged, if anybody wanted to hear it"))
        }
        "test_tool_with_progress" => report_progress(call).await,
        "test_reconnection" => {
            sleep(RECONNECT_DELAY).await;
            Ok(text_response("You came back for this"))
        }
        "test_missing_capability" => {
            match ClientInput::sampling("never asked", "", 1).is_supported_by(call.context) {
                true => Ok(text_response("The client has a model")),
                false => Err(missing_capability("sampling")),
            }
        }
        "test_sampling" => {
            let input = ClientInput::sampling("answer", call.required_text("prompt")?, 100);
            respond_after_input(call, input, |response| {
                format!(
                    "LLM response: {}",
                    response["content"]["text"].as_str().unwrap_or_default()
                )
            })
            .await
        }
        "test_elicitation" => {
            let schema = &fixtures().forms.user_name_and_email;
            let input = ClientInput::form("answer", call.required_text("message")?, schema);
            respond_after_input(call, input, |it| format!("User response: {}", format_answer(it)))
                .await
        }
        "test_elicitation_sep1034_defaults" => form(call, &fixtures().forms.defaults).await,
        "test_elicitation_sep1330_enums" => form(call, &fixtures().forms.enums).await,
        "test_streaming_elicitation" => {
            let input = ClientInput::field("answer", "Go on?", ("ok", "boolean"));
            respond_after_input(call, input, |it| format!("Answered: {}", format_answer(it))).await
        }
        _ => multi_round(call).await,
    }
}

/// Tools with a fixed response.
fn static_response(call: &Call<'_>) -> Option<CallToolResponse> {
    let notifier = &call.server.shared.notifier;
    Some(match call.name() {
        "test_simple_text" => text_response("This is a simple text response for testing."),
        "test_image_content" => content(vec![image_block()]),
        "test_audio_content" => {
            content(vec![ContentBlock::audio(fixtures().wav.clone(), "audio/wav")])
        }
        "test_embedded_resource" => {
            let text = "This is an embedded resource content.";
            let inside = resource_text("test://embedded-resource", "text/plain", text);
            content(vec![ContentBlock::resource(inside)])
        }
        "test_multiple_content_types" => {
            let text = json!({"test": "data", "value": 123}).to_string();
            let inside = resource_text("test://mixed-content-resource", "application/json", &text);
            let title = ContentBlock::text("Multiple content types test:");
            content(vec![title, image_block(), ContentBlock::resource(inside)])
        }
        "test_error_handling" => {
            let text = "This tool intentionally returns an error for testing";
            CallToolResult::error(vec![ContentBlock::text(text)]).into()
        }
        "json_schema_2020_12_tool" => text_response(&json!(call.params.arguments).to_string()),
        "test_mirrored_header" => {
            text_response(&format!("Works in {}", call.text("region").unwrap_or("no region")))
        }
        "test_changing_tool" if notifier.has_tool() => text_response("Still here"),
        "greet" => text_response(&format!("Hello, {}!", call.text("name").unwrap_or("stranger"))),
        "test_trigger_tool_change" => {
            notifier.publish(Change::Tools);
            text_response("The tools have changed")
        }
        "test_trigger_prompt_change" => {
            notifier.publish(Change::Prompts);
            text_response("The prompts have changed")
        }
        "test_trigger_resource_change" => {
            notifier.publish(Change::WatchedResource);
            text_response("The watched resource has changed")
        }
        _ => return None,
    })
}

async fn log_three_times(call: &Call<'_>) -> CallToolResponse {
    call.server.log(call.context, "Tool execution started").await;
    for line in ["Tool processing data", "Tool execution completed"] {
        sleep(PAUSE).await;
        call.server.log(call.context, line).await;
    }
    text_response("Logged three lines")
}

async fn report_progress(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = call.context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
            let _client_left = call.context.peer.notify_progress(progress).await;
        }
        sleep(PAUSE).await;
    }
    Ok(text_response("Done, step by step"))
}

/// Sends one input request and responds with its result.
async fn respond_after_input(
    call: &Call<'_>,
    input: ClientInput,
    to_text: impl FnOnce(&Json) -> String,
) -> Result<CallToolResponse, ErrorData> {
    Ok(
        match request_input(call.context, call.input_responses(), std::slice::from_ref(&input))
            .await?
        {
            InputOutcome::Required(later) => later.into(),
            InputOutcome::Responses(responses) => text_response(&to_text(&responses[input.key()])),
        },
    )
}

async fn form(call: &Call<'_>, schema: &Json) -> Result<CallToolResponse, ErrorData> {
    let input = ClientInput::form("answer", "Please fill this in", schema);
    respond_after_input(call, input, |it| format!("Elicitation completed: {}", format_answer(it)))
        .await
}

fn format_answer(response: &Json) -> String {
    format!(
        "action={}, content={}",
        response["action"].as_str().unwrap_or("?"),
        response["content"]
    )
}

/// Tools for multi-round-trip requests and state.
async fn multi_round(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let name = ClientInput::field("user_name", "What is your name?", ("name", "string"));
    let confirm = ClientInput::field("confirm", "Please confirm", ("ok", "boolean"));
    match call.name() {
        "test_input_required_result_elicitation" => {
            respond_after_input(call, name, |it| {
                format!("Hello, {}!", it["content"]["name"].as_str().unwrap_or("stranger"))
            })
            .await
        }
        "test_input_required_result_sampling" => {
            let input =
                ClientInput::sampling("capital_question", "What is the capital of France?", 100);
            respond_after_input(call, input, |it| it["content"]["text"].to_string()).await
        }
        "test_input_required_result_list_roots" => {
            respond_after_input(call, ClientInput::roots("client_roots"), |it| {
                it["roots"].to_string()
            })
            .await
        }
        "test_input_required_result_request_state" => {
            with_state(call, &[confirm], "state-ok: it is ours").await
        }
        "test_input_required_result_tampered_state" => {
            with_state(call, &[confirm], "nobody has changed the state").await
        }
        "test_input_required_result_multiple_inputs" => {
            let greeting = ClientInput::sampling("greeting", "Generate a greeting", 50);
            let inputs = [name, greeting, ClientInput::roots("client_roots")];
            with_state(call, &inputs, "all three were answered").await
        }
        "test_input_required_result_multi_round" => two_rounds(call).await,
        "test_input_required_result_capabilities" => {
            let sampling = ClientInput::sampling("greeting", "Generate a greeting", 50);
            let all = [name, sampling, ClientInput::roots("client_roots")];
            let can = all.into_iter().filter(|it| it.is_supported_by(call.context));
            let inputs: Vec<ClientInput> = can.collect();
            Ok(match request_input(call.context, call.input_responses(), &inputs).await? {
                InputOutcome::Required(later) => later.into(),
                InputOutcome::Responses(responses) => {
                    text_response(&format!("{} answers", responses.len()))
                }
            })
        }
        unknown => Err(ErrorData::invalid_params(format!("there is no tool `{unknown}`"), None)),
    }
}

/// Requests input; accepts responses only with the state that was sent with the requests.
async fn with_state(
    call: &Call<'_>,
    inputs: &[ClientInput],
    to_text: &str,
) -> Result<CallToolResponse, ErrorData> {
    let seal = &call.server.shared.seal;
    let payload = call.name();
    let returned_state = verified_state(call)?;
    Ok(match request_input(call.context, call.input_responses(), inputs).await? {
        InputOutcome::Required(mut later) => {
            later.request_state = Some(seal.seal(payload));
            later.into()
        }
        InputOutcome::Responses(_)
            if is_modern(call.context) && returned_state != Some(payload) =>
        {
            return Err(ErrorData::invalid_params("the state belongs to another call", None));
        }
        InputOutcome::Responses(_) => text_response(to_text),
    })
}

/// The client's request state, whose signature must be valid.
fn verified_state<'a>(call: &'a Call<'_>) -> Result<Option<&'a str>, ErrorData> {
    let Some(state) = &call.params.request_state else {
        return Ok(None);
    };
    let changed = || ErrorData::invalid_params("the state was changed on its way", None);
    call.server.shared.seal.unseal(state).map(Some).ok_or_else(changed)
}

/// Elicits a name, then a colour. The name travels in the state.
async fn two_rounds(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    const NAME_PREFIX: &str = "name:";
    let first = ClientInput::field("step1", "Step 1: What is your name?", ("name", "string"));
    let second =
        ClientInput::field("step2", "Step 2: What is your favorite color?", ("color", "string"));
    let seal = &call.server.shared.seal;
    let stored_name =
        verified_state(call)?.and_then(|it| it.strip_prefix(NAME_PREFIX)).map(str::to_owned);
    let name = match stored_name {
        Some(name) => name,
        None => match request_input(call.context, call.input_responses(), &[first]).await? {
            InputOutcome::Required(mut later) => {
                later.request_state = Some(seal.seal("round 1"));
                return Ok(later.into());
            }
            InputOutcome::Responses(responses) => responses["step1"]["content"]["name"].to_string(),
        },
    };
    Ok(match request_input(call.context, call.input_responses(), &[second]).await? {
        InputOutcome::Required(mut later) => {
            later.request_state = Some(seal.seal(&format!("{NAME_PREFIX}{name}")));
            later.into()
        }
        InputOutcome::Responses(responses) => {
            text_response(&format!("{name} likes {}", responses["step2"]["content"]["color"]))
        }
    })
}

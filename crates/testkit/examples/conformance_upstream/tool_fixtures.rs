//! What the tools do that answer at once, or ask the client first. Tools that can be tasks live in `task_fixtures`.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    InputResponses, ProgressNotificationParam,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value as Json, json};
use tokio::time::sleep;

use crate::client_questions::{Asked, Question, ask, is_modern, missing_capability};
use crate::fixture_lists::{fixtures, picture, resource_text};
use crate::fixture_server::FixtureServer;
use crate::task_fixtures;
use crate::town_crier::Change;

/// Between two things that a client should see one after the other.
const PAUSE: Duration = Duration::from_millis(50);
/// Longer than a client is told to wait before it comes back.
const AWAY: Duration = Duration::from_millis(1_500);

/// One call of a tool, with everything that it may need.
#[derive(Debug)]
pub struct Call<'a> {
    /// Who serves it.
    pub server: &'a FixtureServer,
    /// What was sent.
    pub params: &'a CallToolRequestParams,
    /// Who sent it.
    pub context: &'a RequestContext<RoleServer>,
}

impl Call<'_> {
    /// The tool.
    pub fn name(&self) -> &str {
        &self.params.name
    }

    /// What the client has answered already.
    pub fn given(&self) -> Option<&InputResponses> {
        self.params.input_responses.as_ref()
    }

    /// One argument.
    pub fn argument(&self, name: &str) -> Option<&Json> {
        self.params.arguments.as_ref()?.get(name)
    }

    /// One argument that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.argument(name)?.as_str()
    }

    fn needed(&self, name: &str) -> Result<&str, ErrorData> {
        let missing = || ErrorData::invalid_params(format!("`{name}` is missing"), None);
        self.text(name).ok_or_else(missing)
    }
}

/// A text, as a result.
pub fn said(text: &str) -> CallToolResponse {
    content(vec![ContentBlock::text(text)])
}

fn content(blocks: Vec<ContentBlock>) -> CallToolResponse {
    CallToolResult::success(blocks).into()
}

/// Calls a tool.
pub async fn call(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    if let Some(answer) = plain(call) {
        return Ok(answer);
    }
    if let Some(answer) = task_fixtures::call(call).await {
        return answer;
    }
    match call.name() {
        "test_tool_with_logging" => Ok(log_three_times(call).await),
        "test_logging_tool" => {
            call.server.log(call.context, "A line from the logging tool").await;
            Ok(said("Logged, if anybody wanted to hear it"))
        }
        "test_tool_with_progress" => report_progress(call).await,
        "test_reconnection" => {
            sleep(AWAY).await;
            Ok(said("You came back for this"))
        }
        "test_missing_capability" => {
            match Question::sampling("never asked", "", 1).is_answerable(call.context) {
                true => Ok(said("The client has a model")),
                false => Err(missing_capability("sampling")),
            }
        }
        "test_sampling" => {
            let question = Question::sampling("answer", call.needed("prompt")?, 100);
            asked(call, question, |answer| {
                format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default())
            })
            .await
        }
        "test_elicitation" => {
            let schema = &fixtures().forms.user_name_and_email;
            let question = Question::form("answer", call.needed("message")?, schema);
            asked(call, question, |it| format!("User response: {}", shown(it))).await
        }
        "test_elicitation_sep1034_defaults" => form(call, &fixtures().forms.defaults).await,
        "test_elicitation_sep1330_enums" => form(call, &fixtures().forms.enums).await,
        "test_streaming_elicitation" => {
            let question = Question::field("answer", "Go on?", ("ok", "boolean"));
            asked(call, question, |it| format!("Answered: {}", shown(it))).await
        }
        _ => in_rounds(call).await,
    }
}

/// Tools that say what they always say.
fn plain(call: &Call<'_>) -> Option<CallToolResponse> {
    let crier = &call.server.stage.crier;
    Some(match call.name() {
        "test_simple_text" => said("This is a simple text response for testing."),
        "test_image_content" => content(vec![picture()]),
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
            content(vec![title, picture(), ContentBlock::resource(inside)])
        }
        "test_error_handling" => {
            let text = "This tool intentionally returns an error for testing";
            CallToolResult::error(vec![ContentBlock::text(text)]).into()
        }
        "json_schema_2020_12_tool" => said(&json!(call.params.arguments).to_string()),
        "test_mirrored_header" => {
            said(&format!("Works in {}", call.text("region").unwrap_or("no region")))
        }
        "test_changing_tool" if crier.has_tool() => said("Still here"),
        "greet" => said(&format!("Hello, {}!", call.text("name").unwrap_or("stranger"))),
        "test_trigger_tool_change" => {
            crier.cry(Change::Tools);
            said("The tools have changed")
        }
        "test_trigger_prompt_change" => {
            crier.cry(Change::Prompts);
            said("The prompts have changed")
        }
        "test_trigger_resource_change" => {
            crier.cry(Change::Watched);
            said("The watched resource has changed")
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
    said("Logged three lines")
}

async fn report_progress(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = call.context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
            let _client_left = call.context.peer.notify_progress(progress).await;
        }
        sleep(PAUSE).await;
    }
    Ok(said("Done, step by step"))
}

/// Asks one thing and says what came of it.
async fn asked(
    call: &Call<'_>,
    question: Question,
    say: impl FnOnce(&Json) -> String,
) -> Result<CallToolResponse, ErrorData> {
    Ok(match ask(call.context, call.given(), std::slice::from_ref(&question)).await? {
        Asked::Later(later) => later.into(),
        Asked::Answers(answers) => said(&say(&answers[question.key()])),
    })
}

async fn form(call: &Call<'_>, schema: &Json) -> Result<CallToolResponse, ErrorData> {
    let question = Question::form("answer", "Please fill this in", schema);
    asked(call, question, |it| format!("Elicitation completed: {}", shown(it))).await
}

fn shown(answer: &Json) -> String {
    format!("action={}, content={}", answer["action"].as_str().unwrap_or("?"), answer["content"])
}

/// Tools that show how questions and state go to and fro.
async fn in_rounds(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let name = Question::field("user_name", "What is your name?", ("name", "string"));
    let confirm = Question::field("confirm", "Please confirm", ("ok", "boolean"));
    match call.name() {
        "test_input_required_result_elicitation" => {
            asked(call, name, |it| {
                format!("Hello, {}!", it["content"]["name"].as_str().unwrap_or("stranger"))
            })
            .await
        }
        "test_input_required_result_sampling" => {
            let question =
                Question::sampling("capital_question", "What is the capital of France?", 100);
            asked(call, question, |it| it["content"]["text"].to_string()).await
        }
        "test_input_required_result_list_roots" => {
            asked(call, Question::roots("client_roots"), |it| it["roots"].to_string()).await
        }
        "test_input_required_result_request_state" => {
            with_state(call, &[confirm], "state-ok: it is ours").await
        }
        "test_input_required_result_tampered_state" => {
            with_state(call, &[confirm], "nobody has changed the state").await
        }
        "test_input_required_result_multiple_inputs" => {
            let greeting = Question::sampling("greeting", "Generate a greeting", 50);
            let questions = [name, greeting, Question::roots("client_roots")];
            with_state(call, &questions, "all three were answered").await
        }
        "test_input_required_result_multi_round" => two_rounds(call).await,
        "test_input_required_result_capabilities" => {
            let sampling = Question::sampling("greeting", "Generate a greeting", 50);
            let all = [name, sampling, Question::roots("client_roots")];
            let can = all.into_iter().filter(|it| it.is_answerable(call.context));
            let questions: Vec<Question> = can.collect();
            Ok(match ask(call.context, call.given(), &questions).await? {
                Asked::Later(later) => later.into(),
                Asked::Answers(answers) => said(&format!("{} answers", answers.len())),
            })
        }
        unknown => Err(ErrorData::invalid_params(format!("there is no tool `{unknown}`"), None)),
    }
}

/// Asks, and takes answers only with the state that went out with the questions.
async fn with_state(
    call: &Call<'_>,
    questions: &[Question],
    say: &str,
) -> Result<CallToolResponse, ErrorData> {
    let seal = &call.server.stage.seal;
    let words = call.name();
    let brought = echoed(call)?;
    Ok(match ask(call.context, call.given(), questions).await? {
        Asked::Later(mut later) => {
            later.request_state = Some(seal.close(words));
            later.into()
        }
        Asked::Answers(_) if is_modern(call.context) && brought != Some(words) => {
            return Err(ErrorData::invalid_params("the state belongs to another call", None));
        }
        Asked::Answers(_) => said(say),
    })
}

/// What the client brings back, which must be ours.
fn echoed<'a>(call: &'a Call<'_>) -> Result<Option<&'a str>, ErrorData> {
    let Some(state) = &call.params.request_state else {
        return Ok(None);
    };
    let changed = || ErrorData::invalid_params("the state was changed on its way", None);
    call.server.stage.seal.open(state).map(Some).ok_or_else(changed)
}

/// Asks for a name, then for a colour. What was learnt first travels in the state.
async fn two_rounds(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    const KNOWN: &str = "name:";
    let first = Question::field("step1", "Step 1: What is your name?", ("name", "string"));
    let second =
        Question::field("step2", "Step 2: What is your favorite color?", ("color", "string"));
    let seal = &call.server.stage.seal;
    let known = echoed(call)?.and_then(|it| it.strip_prefix(KNOWN)).map(str::to_owned);
    let name = match known {
        Some(name) => name,
        None => match ask(call.context, call.given(), &[first]).await? {
            Asked::Later(mut later) => {
                later.request_state = Some(seal.close("round 1"));
                return Ok(later.into());
            }
            Asked::Answers(answers) => answers["step1"]["content"]["name"].to_string(),
        },
    };
    Ok(match ask(call.context, call.given(), &[second]).await? {
        Asked::Later(mut later) => {
            later.request_state = Some(seal.close(&format!("{KNOWN}{name}")));
            later.into()
        }
        Asked::Answers(answers) => {
            said(&format!("{name} likes {}", answers["step2"]["content"]["color"]))
        }
    })
}

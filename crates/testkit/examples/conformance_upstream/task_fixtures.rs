//! Long-running tools: a task for clients that support tasks (SEP-2663); for others a slow call, or an error if only
//! a task is possible.

use std::time::Duration;

use rmcp::model::{
    CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult, ErrorData,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskManager, TaskOptions};
use serde_json::Value as Json;
use tokio::time::sleep;

use crate::client_input::{ClientInput, InputOutcome, request_input};
use crate::tool_fixtures::{Call, text_response};

/// Tools that legacy clients cannot call.
pub const TASK_ONLY_TOOLS: &[&str] = &["failing_job", "protocol_error_job", "test_tool_with_task"];
/// The poll interval for clients in milliseconds.
const POLL_INTERVAL_MS: u64 = 200;
/// How long a job runs before it fails.
const JOB_DURATION: Duration = Duration::from_millis(800);
/// The maximum duration.
const MAX_SECONDS: f64 = 600.0;

/// The response of a tool in this file; `None` for other tools.
pub async fn call(call: &Call<'_>) -> Option<Result<CallToolResponse, ErrorData>> {
    let response = match call.name() {
        "slow_compute" => slow_compute(call).await,
        "failing_job" => start_task(call, |_| Box::pin(failing_job())),
        "protocol_error_job" => start_task(call, |_| Box::pin(protocol_error_job())),
        "confirm_delete" => confirm_delete(call).await,
        "multi_input" => multi_input(call).await,
        "test_tool_with_task" => ask_then_start_task(call).await,
        _ => return None,
    };
    Some(response)
}

/// Starts a task for a client that supports tasks.
fn start_task(
    call: &Call<'_>,
    work: impl FnOnce(TaskContext) -> TaskFuture,
) -> Result<CallToolResponse, ErrorData> {
    if !supports_tasks(call.context) {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(needed));
    }
    let tasks: &TaskManager = &call.server.shared.tasks;
    let task = tasks.spawn(TaskOptions::new().with_poll_interval_ms(POLL_INTERVAL_MS), work);
    Ok(CreateTaskResult::new(task).into())
}

fn supports_tasks(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|it| it.supports_tasks())
}

async fn slow_compute(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let seconds = call.argument("seconds").and_then(Json::as_f64).unwrap_or_default();
    let time = Duration::from_secs_f64(seconds.clamp(0.0, MAX_SECONDS));
    let label = call.text("label").unwrap_or("result").to_owned();
    if !supports_tasks(call.context) {
        tokio::select! {
            () = sleep(time) => {}
            () = call.context.ct.cancelled() => {}
        }
        return Ok(text_response(&format!("{label}: computed")));
    }
    start_task(call, move |task| {
        Box::pin(async move {
            tokio::select! {
                () = sleep(time) => Ok(text(&format!("{label}: computed"))),
                () = task.cancelled() => Err(TaskExit::Cancelled),
            }
        })
    })
}

async fn failing_job() -> Result<CallToolResult, TaskExit> {
    sleep(JOB_DURATION).await;
    Ok(CallToolResult::error(vec![ContentBlock::text("the job has failed, as it always does")]))
}

async fn protocol_error_job() -> Result<CallToolResult, TaskExit> {
    sleep(JOB_DURATION).await;
    Err(ErrorData::internal_error("the job broke the server's own rules", None).into())
}

async fn confirm_delete(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let file = call.text("filename").unwrap_or("it").to_owned();
    let input = ClientInput::field("confirm", &format!("Delete {file}?"), ("confirm", "boolean"));
    if !supports_tasks(call.context) {
        return Ok(match request_input(call.context, call.input_responses(), &[input]).await? {
            InputOutcome::Required(later) => later.into(),
            InputOutcome::Responses(responses) => {
                text_response(&confirmation_text(&file, &responses["confirm"]))
            }
        });
    }
    start_task(call, move |task| {
        Box::pin(async move {
            let response = task.request_input("confirm", input.to_input_request()).await?;
            Ok(text(&confirmation_text(&file, &response)))
        })
    })
}

/// Nothing is deleted; this is a fixture.
fn confirmation_text(file: &str, response: &Json) -> String {
    match response["content"]["confirm"].as_bool() {
        Some(true) => format!("{file} would be deleted"),
        Some(false) | None => format!("{file} stays"),
    }
}

async fn multi_input(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let first = ClientInput::field("first", "The first name?", ("name", "string"));
    let second = ClientInput::field("second", "The second name?", ("name", "string"));
    if !supports_tasks(call.context) {
        return Ok(
            match request_input(call.context, call.input_responses(), &[first, second]).await? {
                InputOutcome::Required(later) => later.into(),
                InputOutcome::Responses(responses) => {
                    text_response(&both(&responses["first"], &responses["second"]))
                }
            },
        );
    }
    start_task(call, move |task| {
        Box::pin(async move {
            let (first, second) = tokio::try_join!(
                task.request_input("first", first.to_input_request()),
                task.request_input("second", second.to_input_request()),
            )?;
            Ok(text(&both(&first, &second)))
        })
    })
}

fn both(first: &Json, second: &Json) -> String {
    format!("{} and {}", first["content"]["name"], second["content"]["name"])
}

/// Requests input during the call, then runs as a task.
async fn ask_then_start_task(call: &Call<'_>) -> Result<CallToolResponse, ErrorData> {
    let input = ClientInput::field("user_name", "What is your name?", ("name", "string"));
    let responses = match request_input(call.context, call.input_responses(), &[input]).await? {
        InputOutcome::Required(later) => return Ok(later.into()),
        InputOutcome::Responses(responses) => responses,
    };
    let name = responses["user_name"]["content"]["name"].as_str().unwrap_or("nobody").to_owned();
    start_task(call, move |_| {
        Box::pin(async move {
            sleep(JOB_DURATION).await;
            Ok(text(&format!("worked for {name}")))
        })
    })
}

fn text(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

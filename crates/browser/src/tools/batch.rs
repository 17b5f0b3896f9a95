//! `batch`: several calls in one. The caller's permission rules see each step as a call of its own, because the definition
//! says where the steps are.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard_builtin::kit::{HandlerContext, HandlerError, Tool};

use crate::error::BrowserError;
use crate::session::Session;
use crate::shown_text::{clean, cut, shown};
use crate::tools::registry::{Answer, CallScope, Questions, Registry, Step, deliver};

/// The name of the tool.
const NAME: &str = "batch";
/// The most steps, and the longest answer of one that is not the last.
const MAX_STEPS: usize = 25;
const MAX_STEP_TEXT: usize = 600;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BatchArguments {
    steps: Vec<BatchStep>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BatchStep {
    tool: String,
    arguments: Option<Json>,
}

/// All tools, with the one that runs several of them.
pub(super) fn add(registry: Registry) -> Vec<Tool> {
    let Registry { session, mut tools, steps } = registry;
    let steps = Arc::new(steps);
    let run = move |_: HandlerContext, it: BatchArguments| {
        let (session, steps) = (session.clone(), steps.clone());
        async move {
            let _busy = session.begin_call();
            deliver(&session, run(&session, &steps, it.steps).await)
        }
    };
    let step = json!({
        "type": "object",
        "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["tool"],
    });
    let description =
        "Runs several of these tools one after the other and stops at the first that fails.";
    let batch = Tool::new(NAME, description, run)
        .input_schema(
            json!({"steps": {"type": "array", "minItems": 1, "maxItems": MAX_STEPS, "items": step}}),
            &["steps"],
        )
        .destructive()
        .open_world()
        .batch_of("steps", "tool", "arguments");
    tools.push(batch);
    tools
}

async fn run(
    session: &Arc<Session>,
    steps: &BTreeMap<&'static str, Step>,
    wanted: Vec<BatchStep>,
) -> Result<Answer, HandlerError> {
    let count = wanted.len();
    if !(1..=MAX_STEPS).contains(&count) {
        let expected = format!("a list of 1 to {MAX_STEPS} steps");
        return Err(BrowserError::Argument { name: "steps", expected }.into());
    }
    // Nothing is done if a step does not exist.
    let mut known = Vec::new();
    for (at, step) in wanted.into_iter().enumerate() {
        let Some(run) = steps.get(step.tool.as_str()) else {
            let (number, tool) = (at + 1, shown(&step.tool, 40));
            let reason = "there is no such tool for a batch".to_owned();
            return Err(BrowserError::Batch { number, tool, reason, done: String::new() }.into());
        };
        known.push((step.tool, run.clone(), step.arguments.unwrap_or_else(|| json!({}))));
    }
    let mut lines = Vec::new();
    let mut picture = None;
    for (at, (tool, step, arguments)) in known.into_iter().enumerate() {
        let number = at + 1;
        let scope = CallScope { session: session.clone(), asking: Questions::Nobody };
        match step(scope, arguments).await {
            Ok(answer) => {
                let text = clean(&answer.text);
                let text = if number == count { text } else { cut(&text, MAX_STEP_TEXT) };
                lines.push(format!("{number}. {text}"));
                picture = answer.picture.or(picture);
            }
            Err(error) => {
                let done = match lines.is_empty() {
                    true => String::new(),
                    false => format!("; done before: {}", lines.join("; ")),
                };
                let reason = error.to_string();
                return Err(BrowserError::Batch { number, tool, reason, done }.into());
            }
        }
    }
    Ok(Answer { text: lines.join("\n"), picture })
}

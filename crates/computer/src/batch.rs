//! `computer_batch`: several actions in one call, each under the same checks, with a picture at the end if wanted.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard_builtin::kit::{HandlerContext, HandlerError, Tool, ToolOutput};

use crate::action::Action;
use crate::action_arguments::{ACTION_TOOLS, read_action};
use crate::desktop::{Performance, Subject};
use crate::error::{ComputerError, Result};
use crate::session::{Precondition, Session, Work};
use crate::tools::described;

/// The most actions in one call.
const MAX_ACTIONS: usize = 50;
const SCREENSHOT: &str = "screenshot";

#[derive(Deserialize, JsonSchema)]
struct BatchArguments {
    actions: Vec<BatchAction>,
}

#[derive(Deserialize, JsonSchema)]
struct BatchAction {
    tool: String,
    arguments: Option<Json>,
}

/// The actions of a batch, and whether a picture is taken at the end.
struct Batch {
    actions: Vec<(String, Action)>,
    end: BatchEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchEnd {
    Nothing,
    Picture,
}

pub(crate) fn tool(session: &Arc<Session>) -> Tool {
    let session = session.clone();
    let run = move |context: HandlerContext, it: BatchArguments| {
        let session = session.clone();
        async move {
            let batch = read(it.actions)?;
            let run = move |work: &mut Work<'_>| run(work, &batch);
            session.run(context, Precondition::Access, run).await
        }
    };
    let action = json!({
        "type": "object",
        "properties": {
            "tool": {"type": "string", "enum": ACTION_TOOLS},
            "arguments": {"type": "object", "description": "As for the tool."},
        },
        "required": ["tool"],
        "additionalProperties": false,
    });
    let description = "Runs several actions one after the other and stops at the first that fails. `screenshot` may only be the \
                       last one.";
    Tool::new("computer_batch", description, run).input_schema(
        json!({"actions": {"type": "array", "minItems": 1, "maxItems": MAX_ACTIONS, "items": action}}),
        &["actions"],
    )
    .batch_of("actions", "tool", "arguments")
}

/// Reads all actions before the first one is done.
fn read(actions: Vec<BatchAction>) -> std::result::Result<Batch, HandlerError> {
    let count = actions.len();
    if !(1..=MAX_ACTIONS).contains(&count) {
        let expected = format!("a list of 1 to {MAX_ACTIONS} actions");
        return Err(ComputerError::Argument { name: "actions", expected }.into());
    }
    let mut batch = Batch { actions: Vec::new(), end: BatchEnd::Nothing };
    for (at, BatchAction { tool, arguments }) in actions.into_iter().enumerate() {
        let number = at + 1;
        if tool == SCREENSHOT && number == count {
            batch.end = BatchEnd::Picture;
            continue;
        }
        let arguments = arguments.unwrap_or_else(|| json!({}));
        let action = match tool.as_str() {
            SCREENSHOT => {
                Err("a screenshot may only be the last action, because it is not seen before"
                    .to_owned())
            }
            _ => read_action(&tool, arguments),
        };
        match action {
            Ok(action) => batch.actions.push((tool, action)),
            Err(reason) => {
                let tool = crate::shown_text::shown(&tool, 40);
                return Err(ComputerError::InvalidAction { number, tool, reason }.into());
            }
        }
    }
    Ok(batch)
}

fn run(work: &mut Work<'_>, batch: &Batch) -> Result<ToolOutput> {
    let mut lines = Vec::new();
    for (at, (tool, action)) in batch.actions.iter().enumerate() {
        let is_cancelled = || work.context.is_cancelled();
        match Performance::perform(work.desktop, work.grants, &is_cancelled, action) {
            Ok(done) => lines.push(format!("{}. {done}", at + 1)),
            Err(error) if error.is_disconnect() => return Err(error),
            Err(error) => {
                let done = match lines.is_empty() {
                    true => String::new(),
                    false => format!("; done before: {}", lines.join("; ")),
                };
                let reason = format!("{error}{done}");
                return Err(ComputerError::InvalidAction {
                    number: at + 1,
                    tool: tool.clone(),
                    reason,
                });
            }
        }
    }
    let output = ToolOutput::text(lines.join("\n"));
    match batch.end {
        BatchEnd::Nothing => Ok(output),
        BatchEnd::Picture => {
            let look = work.desktop.look(work.grants, Subject::PrimaryMonitor)?;
            Ok(described(&look, &lines, work.desktop.display.monitors()?.len()))
        }
    }
}

//! The tool `BashOutput`: new output of a background command.

use std::sync::Arc;
use std::time::Duration;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::session::WorkspaceSession;

/// The maximum size of the shown output, in bytes.
const MAX_SHOWN_BYTES: u64 = 30_000;
/// The maximum time to wait for a command's end, in milliseconds.
const MAX_WAIT_MILLISECONDS: u64 = 60_000;

#[derive(Deserialize)]
struct BashOutputArguments {
    bash_id: String,
    filter: Option<String>,
    wait: Option<u64>,
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let read = move |_: HandlerContext, it: BashOutputArguments| {
        let session = session.clone();
        async move { read(&session, &it).await }
    };
    let description = "Shows what a command in the background has said since it was asked last, and whether it has ended. \
        With `wait`, waits that long for its end first.";
    Tool::new("BashOutput", description, read)
        .title("Read a command in the background")
        .input_schema(
            json!({
                "bash_id": {"type": "string", "description": "The name that Bash gave it."},
                "filter": {"type": "string", "description": "Show only lines that match this regular expression; other lines are discarded."},
                "wait": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_MILLISECONDS, "description": "How long to wait for its end, in milliseconds."},
            }),
            &["bash_id"],
        )
        .output_schema(json!({
            "type": "object",
            "properties": {
                "bashId": {"type": "string"},
                "command": {"type": "string"},
                "output": {"type": "string"},
                "running": {"type": "boolean"},
                "exitCode": {"type": ["integer", "null"]},
                "signal": {"type": ["integer", "null"]},
                "moreBytes": {"type": "integer", "minimum": 0, "description": "How much more there is to read."},
                "outputFile": {"type": "string", "description": "Where all of its output is."},
            },
            "required": ["bashId", "command", "output", "running", "exitCode", "moreBytes", "outputFile"],
            "additionalProperties": false,
        }))
        .read_only()
}

async fn read(
    session: &Arc<WorkspaceSession>,
    it: &BashOutputArguments,
) -> Result<ToolOutput, HandlerError> {
    // Compile the filter before any output counts as read.
    let filter = it.filter.as_deref().map(RegexMatcher::new_line_matcher).transpose();
    let filter = filter
        .map_err(|error| HandlerError::failed(format!("invalid regular expression: {error}")))?;
    let wait = Duration::from_millis(it.wait.unwrap_or(0).min(MAX_WAIT_MILLISECONDS));
    let update = session.jobs.read_update(&it.bash_id, wait, MAX_SHOWN_BYTES).await?;
    let text = match &filter {
        None => update.excerpt.text,
        Some(filter) => {
            let fits = |line: &&str| filter.is_match(line.as_bytes()).unwrap_or(false);
            update.excerpt.text.lines().filter(fits).map(|line| format!("{line}\n")).collect()
        }
    };
    let path = update.output_path.display().to_string();
    let structured = json!({
        "bashId": it.bash_id,
        "command": update.command,
        "output": text,
        "running": update.exit.is_none(),
        "exitCode": update.exit.and_then(|it| it.code).map_or(Json::Null, Json::from),
        "signal": update.exit.and_then(|it| it.signal).map_or(Json::Null, Json::from),
        "moreBytes": update.excerpt.omitted_bytes,
        "outputFile": path,
    });
    let mut text_output = text;
    if !text_output.is_empty() && !text_output.ends_with('\n') {
        text_output.push('\n');
    }
    if update.excerpt.omitted_bytes > 0 {
        text_output
            .push_str(&format!("({} more bytes; call again)\n", update.excerpt.omitted_bytes));
    }
    let state = match &update.exit {
        None => "still running".to_owned(),
        Some(exit) => exit.describe().unwrap_or_else(|| "it exited successfully".to_owned()),
    };
    text_output.push_str(&format!("({state})\n"));
    Ok(ToolOutput::structured(structured, text_output))
}

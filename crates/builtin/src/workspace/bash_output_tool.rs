//! `BashOutput`: what a command in the background has said since it was asked last.

use std::sync::Arc;
use std::time::Duration;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::bash_tool::describe_exit;
use super::workplace::WorkspaceSession;
use crate::content::ToolOutput;
use crate::context::HandlerContext;
use crate::refusal::HandlerError;
use crate::tooling::Tool;

/// How much is shown at once, in bytes.
const MAX_SHOWN_BYTES: u64 = 30_000;
/// How long one may wait for a command's end, in milliseconds.
const MAX_WAIT_MILLISECONDS: u64 = 60_000;

#[derive(Deserialize)]
struct BashOutputArguments {
    bash_id: String,
    filter: Option<String>,
    wait: Option<u64>,
}

pub(super) fn tool(place: &Arc<WorkspaceSession>) -> Tool {
    let place = place.clone();
    let read = move |_: HandlerContext, it: BashOutputArguments| {
        let place = place.clone();
        async move { read(&place, &it).await }
    };
    let description = "Shows what a command in the background has said since it was asked last, and whether it has ended. \
        With `wait`, waits that long for its end first.";
    Tool::new("BashOutput", description, read)
        .title("Read a command in the background")
        .input_schema(
            json!({
                "bash_id": {"type": "string", "description": "The name that Bash gave it."},
                "filter": {"type": "string", "description": "Show only lines that this regular expression fits; the others are gone."},
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
    place: &Arc<WorkspaceSession>,
    it: &BashOutputArguments,
) -> Result<ToolOutput, HandlerError> {
    // Before anything counts as read.
    let filter = it.filter.as_deref().map(RegexMatcher::new_line_matcher).transpose();
    let filter = filter.map_err(|error| {
        HandlerError::failed(format!("the regular expression makes no sense: {error}"))
    })?;
    let wait = Duration::from_millis(it.wait.unwrap_or(0).min(MAX_WAIT_MILLISECONDS));
    let news = place.jobs.read_update(&it.bash_id, wait, MAX_SHOWN_BYTES).await?;
    let text = match &filter {
        None => news.excerpt.text,
        Some(filter) => {
            let fits = |line: &&str| filter.is_match(line.as_bytes()).unwrap_or(false);
            news.excerpt.text.lines().filter(fits).map(|line| format!("{line}\n")).collect()
        }
    };
    let path = news.output_path.display().to_string();
    let about = json!({
        "bashId": it.bash_id,
        "command": news.command,
        "output": text,
        "running": news.exit.is_none(),
        "exitCode": news.exit.and_then(|it| it.code).map_or(Json::Null, Json::from),
        "signal": news.exit.and_then(|it| it.signal).map_or(Json::Null, Json::from),
        "moreBytes": news.excerpt.omitted_bytes,
        "outputFile": path,
    });
    let mut words = text;
    if !words.is_empty() && !words.ends_with('\n') {
        words.push('\n');
    }
    if news.excerpt.omitted_bytes > 0 {
        words.push_str(&format!("({} more bytes; ask again)\n", news.excerpt.omitted_bytes));
    }
    let state = match &news.exit {
        None => "it still runs".to_owned(),
        Some(ending) => describe_exit(ending).unwrap_or_else(|| "it has ended well".to_owned()),
    };
    words.push_str(&format!("({state})\n"));
    Ok(ToolOutput::structured(about, words))
}

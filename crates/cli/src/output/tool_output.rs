//! Tool output and the failures of calls and requests, as text and as JSON.

use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::request::RequestError;
use switchboard::tool_result::{ContentBlock, ToolOutput};
use switchboard::{Snapshot, ToolCallError};

use crate::exit::Exit;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::definition_diff;
use crate::output::json::json_output;

/// The failure of a call, with a hint.
pub fn call_failure(error: &ToolCallError, snapshot: &Snapshot) -> Failure {
    match error {
        ToolCallError::UnknownTool { nearest, .. } => {
            let failure = Failure::new(Exit::NotFound, &error.to_string());
            let problems: String =
                snapshot.servers.values().map(|it| connection_text::problem_text(it)).collect();
            let failure = failure.detail(problems);
            match nearest.first() {
                Some(nearest) => failure.hint(&format!("did you mean `{nearest}`?")),
                None => failure.hint("`swb tools` lists all tools"),
            }
        }
        ToolCallError::InvalidArguments { faults, tool } => {
            let lines = faults.iter().map(|fault| format!("  {}\n", printable(&fault.to_string())));
            Failure::new(Exit::Usage, &error.to_string())
                .detail(lines.collect())
                .hint(&format!("`swb describe {tool}` shows its arguments"))
        }
        ToolCallError::Denied { tool, definition_diff: None, .. } => {
            Failure::new(Exit::Policy, &error.to_string())
                .hint(&format!("`swb permissions explain {tool}` explains the decision"))
        }
        ToolCallError::Denied { tool, definition_diff: Some(diff), .. } => {
            Failure::new(Exit::Policy, &error.to_string())
                .detail(definition_diff::as_text(diff))
                .hint(&format!("`swb permissions accept {tool}` accepts the new definition"))
        }
        ToolCallError::Unrecorded { error: cause, .. } => {
            Failure::new(Exit::Policy, &error.to_string()).caused_by(cause).hint(
                "make room on the disk, or raise `audit.maxMegabytes` in the settings; with \
                 `\"audit\": {\"unrecordedCalls\": \"allow\"}` calls run without a record",
            )
        }
        ToolCallError::Request(RequestError::NotConnected(view)) => {
            connection_text::not_connected(view)
        }
        ToolCallError::Request(error) => {
            Failure::new(Exit::Connection, "the call failed").caused_by(error)
        }
    }
}

/// A tool's output as text. The exit code says whether the tool reported an error.
pub fn text(output: &ToolOutput) -> CommandOutput {
    let text: String = output.blocks.iter().map(block_text).collect();
    let notes = output.notes.iter().map(|it| format!("note: {}\n", printable(&it.to_string())));
    let done = CommandOutput::text(text).note(notes.collect::<String>());
    CommandOutput { exit: exit(output), ..done }
}

/// A tool's output as JSON. The exit code says whether the tool reported an error.
pub fn json(output: &ToolOutput) -> CommandOutput {
    let done = json_output(&as_json(output));
    match exit(output) {
        None => done,
        Some(exit) => done.failed(Failure::new(exit, "the tool reported an error")),
    }
}

fn exit(output: &ToolOutput) -> Option<Exit> {
    output.is_error.then_some(Exit::ToolFailed)
}

fn block_text(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Text { text, .. } => {
            text.lines().map(|line| printable_with_tabs(line) + "\n").collect()
        }
        ContentBlock::Image { mime, width, height, .. } => format!("[{mime}, {width}×{height}]\n"),
        ContentBlock::Saved { path, mime, bytes, .. } => {
            let mime = mime.as_deref().unwrap_or("data");
            format!(
                "[{}, {bytes} bytes: {}]\n",
                printable(mime),
                printable(&path.display().to_string())
            )
        }
        ContentBlock::NotSaved { mime, .. } => {
            format!("[{}, not saved]\n", printable(mime.as_deref().unwrap_or("data")))
        }
        ContentBlock::Link { uri, .. } => format!("[resource {}]\n", printable(uri)),
        ContentBlock::Unknown { kind, .. } => format!("[{}]\n", printable(kind)),
    }
}

/// A tool's output as a JSON value.
pub fn as_json(output: &ToolOutput) -> Json {
    let part = |part: &ContentBlock| match part {
        ContentBlock::Text { text, from_uri } => {
            json!({"type": "text", "text": text, "uri": from_uri})
        }
        ContentBlock::Image { mime, base64, width, height } => {
            json!({"type": "image", "mimeType": mime, "data": base64, "width": width, "height": height})
        }
        ContentBlock::Saved { path, mime, bytes, from_uri } => {
            json!({"type": "saved", "path": path, "mimeType": mime, "bytes": bytes, "uri": from_uri})
        }
        ContentBlock::NotSaved { mime, from_uri } => {
            json!({"type": "unsaved", "mimeType": mime, "uri": from_uri})
        }
        ContentBlock::Link { raw, .. } | ContentBlock::Unknown { raw, .. } => {
            raw.decode().unwrap_or_default()
        }
    };
    json!({
        "isError": output.is_error,
        "content": output.blocks.iter().map(part).collect::<Vec<_>>(),
        "structuredContent": output.structured.as_ref().and_then(|it| it.decode::<Json>().ok()),
        "_meta": output.meta.as_ref().and_then(|it| it.decode::<Json>().ok()),
        "notes": output.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// A printable line that keeps its tabs.
pub fn printable_with_tabs(line: &str) -> String {
    line.split('\t').map(printable).collect::<Vec<_>>().join("\t")
}

/// The failure of a request to a server.
pub fn request_failure(error: &RequestError) -> Failure {
    Failure::new(Exit::Connection, "the request failed").caused_by(error)
}

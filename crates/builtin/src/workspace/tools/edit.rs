//! `Edit`: one piece of a file replaced by another, and nothing else.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::files::replace::{Extent, ReplaceResult, Replacement, line_number, replace};
use crate::workspace::session::{FileAccess, WorkspaceSession, with_line_numbers};

/// How many lines are shown around a change, and at most.
const CONTEXT_LINES: usize = 3;
const MAX_SHOWN_LINES: usize = 40;
/// How many characters of a line are shown.
const MAX_LINE_LENGTH: usize = 500;

/// One replacement.
#[derive(Deserialize)]
pub(crate) struct EditOperation {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Deserialize)]
struct EditArguments {
    file_path: String,
    #[serde(flatten)]
    operation: EditOperation,
}

impl EditOperation {
    /// The text with this replacement made.
    pub(crate) fn apply(&self, text: &str) -> Result<ReplaceResult, String> {
        let extent = match self.replace_all {
            true => Extent::Everywhere,
            false => Extent::Once,
        };
        let replacement = Replacement { old: &self.old_string, new: &self.new_string, extent };
        replace(text, replacement).map_err(|mismatch| mismatch.message())
    }

    /// The schemas of its members.
    pub(crate) fn schema() -> Json {
        json!({
            "old_string": {
                "type": "string", "minLength": 1,
                "description": "The text to replace, exactly as it is in the file, blanks included.",
            },
            "new_string": {"type": "string", "description": "What to put there."},
            "replace_all": {
                "type": "boolean", "default": false,
                "description": "Replace every occurrence; otherwise there may be only one.",
            },
        })
    }
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let edit = move |context: HandlerContext, it: EditArguments| {
        let session = session.clone();
        async move {
            session
                .run_blocking(context, move |access| access.with_write_lock(|| edit(&access, &it)))
                .await
        }
    };
    let description = "Replaces a piece of a file's text by another, exactly. The file must have been read before. Fails \
        where the piece is not there, or is there more than once and `replace_all` is not set. Line ends, encoding and \
        permissions stay.";
    let mut properties = EditOperation::schema();
    properties["file_path"] = json!({
        "type": "string", "description": "The file: absolute, or from the first allowed folder on.",
    });
    Tool::new("Edit", description, edit)
        .title("Edit a file")
        .input_schema(properties, &["file_path", "old_string", "new_string"])
        .output_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "replacements": {"type": "integer", "minimum": 1},
                "line": {"type": "integer", "minimum": 1, "description": "Where the first one begins."},
                "snippet": {"type": "string", "description": "The changed place, with line numbers."},
            },
            "required": ["path", "replacements", "line", "snippet"],
            "additionalProperties": false,
        }))
}

fn edit(access: &FileAccess, it: &EditArguments) -> Result<ToolOutput, HandlerError> {
    let file = access.text_as_read(&it.file_path)?;
    let path = file.resolved.path.display().to_string();
    let replaced = it.operation.apply(&file.decoded.text);
    let replaced =
        replaced.map_err(|why| HandlerError::failed(format!("`{path}` is unchanged: {why}")))?;
    access.save(&file, &replaced.text)?;
    let (line, snippet) = snippet(&replaced);
    let count = replaced.count;
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let text = format!("`{path}`: replaced {times}\n{snippet}");
    let structured = json!({"path": path, "replacements": count, "line": line, "snippet": snippet});
    Ok(ToolOutput::structured(structured, text))
}

/// Where the first change begins, and what it looks like there now.
pub(crate) fn snippet(replaced: &ReplaceResult) -> (usize, String) {
    let line = line_number(&replaced.text, replaced.start);
    let last = line_number(&replaced.text, replaced.end);
    let first = line.saturating_sub(CONTEXT_LINES).max(1);
    let count = (last + CONTEXT_LINES + 1 - first).min(MAX_SHOWN_LINES);
    let lines = replaced.text.lines().skip(first - 1).take(count);
    let cut: Vec<String> = lines.map(|line| line.chars().take(MAX_LINE_LENGTH).collect()).collect();
    (line, with_line_numbers(cut.iter().map(String::as_str), first))
}

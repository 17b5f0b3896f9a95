//! The tool `Edit`: replaces a piece of a file.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::edit_operation::{EditOperation, snippet};
use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::file_access::FileAccess;
use crate::workspace::session::WorkspaceSession;

#[derive(Deserialize)]
struct EditArguments {
    file_path: String,
    #[serde(flatten)]
    operation: EditOperation,
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
        .destructive()
}

/// The text after a call, or nothing where the call would fail.
pub(in crate::workspace) fn apply(arguments: &Json, text: &str) -> Option<String> {
    let it = EditArguments::deserialize(arguments).ok()?;
    it.operation.apply(text).ok().map(|replaced| replaced.text)
}

fn edit(access: &FileAccess, it: &EditArguments) -> Result<ToolOutput, HandlerError> {
    let file = access.text_as_read(&it.file_path)?;
    let path = file.resolved.path.display().to_string();
    let replaced = it.operation.apply(&file.decoded.text);
    let replaced = replaced
        .map_err(|error| HandlerError::failed(format!("`{path}` is unchanged: {error}")))?;
    access.save(&file, &replaced.text)?;
    let (line, snippet) = snippet(&replaced);
    let count = replaced.count;
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let text = format!("`{path}`: replaced {times}\n{snippet}");
    let structured = json!({"path": path, "replacements": count, "line": line, "snippet": snippet});
    Ok(ToolOutput::structured(structured, text))
}

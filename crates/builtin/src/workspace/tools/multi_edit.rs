//! The tool `MultiEdit`: several replacements in one file, all or none.

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

/// The maximum number of replacements.
const MAX_EDITS: usize = 200;

#[derive(Deserialize)]
struct MultiEditArguments {
    file_path: String,
    edits: Vec<EditOperation>,
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let edit = move |context: HandlerContext, it: MultiEditArguments| {
        let session = session.clone();
        async move {
            session
                .run_blocking(context, move |access| access.with_write_lock(|| edit(&access, &it)))
                .await
        }
    };
    let description = "Makes several replacements in one file, in order, each as Edit does, on what the ones before left. \
        Where one cannot be made, none is, and the file stays as it was.";
    let operation = json!({
        "type": "object", "properties": EditOperation::schema(), "required": ["old_string", "new_string"],
        "additionalProperties": false,
    });
    Tool::new("MultiEdit", description, edit)
        .title("Edit a file in several places")
        .input_schema(
            json!({
                "file_path": {"type": "string", "description": "The file: absolute, or from the first allowed folder on."},
                "edits": {"type": "array", "minItems": 1, "maxItems": MAX_EDITS, "items": operation},
            }),
            &["file_path", "edits"],
        )
        .output_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "edits": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "replacements": {"type": "integer", "minimum": 1},
                            "line": {"type": "integer", "minimum": 1},
                        },
                        "required": ["replacements", "line"],
                        "additionalProperties": false,
                    },
                },
                "snippet": {"type": "string", "description": "The last changed place, with line numbers."},
            },
            "required": ["path", "edits", "snippet"],
            "additionalProperties": false,
        }))
        .destructive()
}

/// The text after a call, or nothing where the call would fail.
pub(in crate::workspace) fn apply(arguments: &Json, text: &str) -> Option<String> {
    let it = MultiEditArguments::deserialize(arguments).ok()?;
    let is_in_limits = !it.edits.is_empty() && it.edits.len() <= MAX_EDITS;
    let replaced = |text: String, operation: &EditOperation| {
        operation.apply(&text).ok().map(|replaced| replaced.text)
    };
    is_in_limits.then_some(())?;
    it.edits.iter().try_fold(text.to_owned(), replaced)
}

fn edit(access: &FileAccess, it: &MultiEditArguments) -> Result<ToolOutput, HandlerError> {
    if it.edits.is_empty() || it.edits.len() > MAX_EDITS {
        return Err(HandlerError::failed(format!("one call makes from 1 to {MAX_EDITS} edits")));
    }
    let file = access.text_as_read(&it.file_path)?;
    let path = file.resolved.path.display().to_string();
    let mut text = file.decoded.text.clone();
    let (mut made, mut last) = (Vec::new(), String::new());
    for (number, operation) in (1..).zip(&it.edits) {
        let replaced = operation.apply(&text).map_err(|error| {
            let total = it.edits.len();
            HandlerError::failed(format!(
                "`{path}` is unchanged: edit {number} of {total}: {error}"
            ))
        })?;
        let (line, shown) = snippet(&replaced);
        made.push(json!({"replacements": replaced.count, "line": line}));
        (text, last) = (replaced.text, shown);
    }
    access.save(&file, &text)?;
    let message =
        format!("`{path}`: all {} edits are made; after the last one:\n{last}", made.len());
    Ok(ToolOutput::structured(json!({"path": path, "edits": made, "snippet": last}), message))
}

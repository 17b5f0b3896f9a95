//! `MultiEdit`: several pieces of one file replaced, one after the other: all of them or none.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::edit_tool::{EditOperation, snippet};
use super::workplace::{FileAccess, WorkspaceSession};
use crate::content::ToolOutput;
use crate::context::HandlerContext;
use crate::refusal::HandlerError;
use crate::tooling::Tool;

/// How many replacements one call makes.
const MAX_EDITS: usize = 200;

#[derive(Deserialize)]
struct MultiEditArguments {
    file_path: String,
    edits: Vec<EditOperation>,
}

pub(super) fn tool(place: &Arc<WorkspaceSession>) -> Tool {
    let place = place.clone();
    let edit = move |context: HandlerContext, it: MultiEditArguments| {
        let place = place.clone();
        async move {
            place.run_blocking(context, move |turn| turn.with_write_lock(|| edit(&turn, &it))).await
        }
    };
    let description = "Makes several replacements in one file, in order, each as Edit does, on what the ones before left. \
        Where one cannot be made, none is, and the file stays as it was.";
    let piece = json!({
        "type": "object", "properties": EditOperation::schema(), "required": ["old_string", "new_string"],
        "additionalProperties": false,
    });
    Tool::new("MultiEdit", description, edit)
        .title("Edit a file in several places")
        .input_schema(
            json!({
                "file_path": {"type": "string", "description": "The file: absolute, or from the first allowed folder on."},
                "edits": {"type": "array", "minItems": 1, "maxItems": MAX_EDITS, "items": piece},
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
}

fn edit(turn: &FileAccess, it: &MultiEditArguments) -> Result<ToolOutput, HandlerError> {
    if it.edits.is_empty() || it.edits.len() > MAX_EDITS {
        return Err(HandlerError::failed(format!("one call makes from 1 to {MAX_EDITS} edits")));
    }
    let known = turn.text_as_read(&it.file_path)?;
    let path = known.resolved.path.display().to_string();
    let mut text = known.decoded.text.clone();
    let (mut made, mut last) = (Vec::new(), String::new());
    for (number, piece) in (1..).zip(&it.edits) {
        let replaced = piece.apply(&text).map_err(|why| {
            let of = it.edits.len();
            HandlerError::failed(format!("`{path}` is unchanged: edit {number} of {of}: {why}"))
        })?;
        let (line, shown) = snippet(&replaced);
        made.push(json!({"replacements": replaced.count, "line": line}));
        (text, last) = (replaced.text, shown);
    }
    turn.save(&known, &text)?;
    let words = format!("`{path}`: all {} edits are made; after the last one:\n{last}", made.len());
    Ok(ToolOutput::structured(json!({"path": path, "edits": made, "snippet": last}), words))
}

//! `MultiEdit`: several pieces of one file replaced, one after the other: all of them or none.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::edit_tool::{Piece, snippet};
use super::workplace::{Turn, Workplace};
use crate::content::Output;
use crate::context::Context;
use crate::refusal::Stop;
use crate::tooling::Tool;

/// How many replacements one call makes.
const MOST: usize = 200;

#[derive(Deserialize)]
struct MultiEdit {
    file_path: String,
    edits: Vec<Piece>,
}

pub(super) fn tool(place: &Arc<Workplace>) -> Tool {
    let place = place.clone();
    let edit = move |context: Context, it: MultiEdit| {
        let place = place.clone();
        async move { place.work(context, move |turn| turn.alone(|| edit(&turn, &it))).await }
    };
    let description = "Makes several replacements in one file, in order, each as Edit does, on what the ones before left. \
        Where one cannot be made, none is, and the file stays as it was.";
    let piece = json!({
        "type": "object", "properties": Piece::schema(), "required": ["old_string", "new_string"],
        "additionalProperties": false,
    });
    Tool::new("MultiEdit", description, edit)
        .title("Edit a file in several places")
        .takes(
            json!({
                "file_path": {"type": "string", "description": "The file: absolute, or from the first allowed folder on."},
                "edits": {"type": "array", "minItems": 1, "maxItems": MOST, "items": piece},
            }),
            &["file_path", "edits"],
        )
        .gives(json!({
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

fn edit(turn: &Turn, it: &MultiEdit) -> Result<Output, Stop> {
    if it.edits.is_empty() || it.edits.len() > MOST {
        return Err(Stop::failed(format!("one call makes from 1 to {MOST} edits")));
    }
    let known = turn.known_text(&it.file_path)?;
    let path = known.spot.path.display().to_string();
    let mut text = known.decoded.text.clone();
    let (mut made, mut last) = (Vec::new(), String::new());
    for (number, piece) in (1..).zip(&it.edits) {
        let replaced = piece.apply(&text).map_err(|why| {
            let of = it.edits.len();
            Stop::failed(format!("`{path}` is unchanged: edit {number} of {of}: {why}"))
        })?;
        let (line, shown) = snippet(&replaced);
        made.push(json!({"replacements": replaced.count, "line": line}));
        (text, last) = (replaced.text, shown);
    }
    turn.save(&known, &text)?;
    let words = format!("`{path}`: all {} edits are made; after the last one:\n{last}", made.len());
    Ok(Output::value(json!({"path": path, "edits": made, "snippet": last}), words))
}

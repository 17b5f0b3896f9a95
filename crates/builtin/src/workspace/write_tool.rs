//! `Write`: a whole file, new or in place of the one that is there.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use super::decoded::{Encoding, LineEnds};
use super::denial::Denial;
use super::grounds::Access;
use super::holding::Before;
use super::workplace::{Turn, Workplace, encoding_of};
use crate::content::Output;
use crate::context::Context;
use crate::refusal::Stop;
use crate::tooling::Tool;

#[derive(Deserialize)]
struct Write {
    file_path: String,
    content: String,
}

pub(super) fn tool(place: &Arc<Workplace>) -> Tool {
    let place = place.clone();
    let write = move |context: Context, it: Write| {
        let place = place.clone();
        async move { place.work(context, move |turn| turn.alone(|| write(&turn, &it))).await }
    };
    let description = "Writes a whole file; folders on the way are made. A file that is there must have been read before, \
        and keeps its permissions, its encoding and its way to end lines. Prefer Edit for changes.";
    Tool::new("Write", description, write)
        .title("Write a file")
        .takes(
            json!({
                "file_path": {"type": "string", "description": "The file: absolute, or from the first allowed folder on."},
                "content": {"type": "string", "description": "All of its new text."},
            }),
            &["file_path", "content"],
        )
        .gives(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "created": {"type": "boolean"},
                "bytes": {"type": "integer", "minimum": 0},
                "lines": {"type": "integer", "minimum": 0},
            },
            "required": ["path", "created", "bytes", "lines"],
            "additionalProperties": false,
        }))
        .idempotent()
}

fn write(turn: &Turn, it: &Write) -> Result<Output, Stop> {
    let spot = turn.grounds.find(&it.file_path, Access::Write)?;
    let is_new = !spot.is_there()?;
    let bytes = if is_new {
        let bytes = Encoding::Utf8.encode(&it.content);
        turn.put(&spot, &bytes, Before::Nothing)?;
        bytes
    } else {
        if spot.is_folder()? {
            return Err(Denial::IsFolder { path: spot.path }.into());
        }
        let held = turn.known(&spot)?;
        let (encoding, before) = encoding_of(&held);
        let ends = before.map_or(LineEnds::Feed, |before| LineEnds::of(&before.text));
        let bytes = encoding.encode(&ends.adopt(&it.content));
        turn.put(&spot, &bytes, Before::File(&held))?;
        bytes
    };
    let path = spot.path.display().to_string();
    let lines = it.content.lines().count();
    let done = if is_new { "is new" } else { "was written anew" };
    let about = json!({"path": path, "created": is_new, "bytes": bytes.len(), "lines": lines});
    Ok(Output::value(about, format!("`{path}` {done}: {lines} lines, {} bytes", bytes.len())))
}

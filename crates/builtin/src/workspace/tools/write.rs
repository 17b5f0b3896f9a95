//! The tool `Write`: writes a whole file.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::file_access::FileAccess;
use crate::workspace::files::allowed_roots::Access;
use crate::workspace::files::contents::WriteMode;
use crate::workspace::files::file_error::FileError;
use crate::workspace::files::text_encoding::{Encoding, LineEndings, detect_encoding};
use crate::workspace::session::WorkspaceSession;

#[derive(Deserialize)]
struct WriteArguments {
    file_path: String,
    content: String,
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let write = move |context: HandlerContext, it: WriteArguments| {
        let session = session.clone();
        async move {
            session
                .run_blocking(context, move |access| access.with_write_lock(|| write(&access, &it)))
                .await
        }
    };
    let description = "Writes a whole file; folders on the way are made. A file that is there must have been read before, \
        and keeps its permissions, its encoding and its way to end lines. Prefer Edit for changes.";
    Tool::new("Write", description, write)
        .title("Write a file")
        .input_schema(
            json!({
                "file_path": {"type": "string", "description": "The file: absolute, or from the first allowed folder on."},
                "content": {"type": "string", "description": "All of its new text."},
            }),
            &["file_path", "content"],
        )
        .output_schema(json!({
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
        .destructive()
        .idempotent()
}

fn write(access: &FileAccess, it: &WriteArguments) -> Result<ToolOutput, HandlerError> {
    let resolved = access.roots.resolve(&it.file_path, Access::Write)?;
    let is_new = !resolved.exists()?;
    let bytes = if is_new {
        let bytes = Encoding::Utf8.encode(&it.content);
        access.write(&resolved, &bytes, WriteMode::CreateNew)?;
        bytes
    } else {
        if resolved.is_dir()? {
            return Err(FileError::IsDirectory { path: resolved.path }.into());
        }
        let contents = access.contents_as_read(&resolved)?;
        let (encoding, before) = detect_encoding(&contents.bytes);
        let ends = before.map_or(LineEndings::Lf, |before| LineEndings::detect(&before.text));
        let bytes = encoding.encode(&ends.normalize(&it.content));
        access.write(&resolved, &bytes, WriteMode::Replace(&contents))?;
        bytes
    };
    let path = resolved.path.display().to_string();
    let lines = it.content.lines().count();
    let action = if is_new { "is new" } else { "was replaced" };
    let structured = json!({"path": path, "created": is_new, "bytes": bytes.len(), "lines": lines});
    Ok(ToolOutput::structured(
        structured,
        format!("`{path}` {action}: {lines} lines, {} bytes", bytes.len()),
    ))
}

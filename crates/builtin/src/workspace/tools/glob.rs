//! The tool `Glob`: files that match a pattern, most recently modified first.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::json;

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::file_access::FileAccess;
use crate::workspace::files::walk;
use crate::workspace::files::walk::{IgnoredFiles, WalkCoverage};
use crate::workspace::session::WorkspaceSession;

/// The default and maximum number of files.
const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1000;
/// How many matching files are sorted.
const MAX_SORTED: usize = 100_000;

#[derive(Deserialize)]
struct GlobArguments {
    pattern: String,
    path: Option<String>,
    limit: Option<usize>,
    include_ignored: Option<bool>,
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let glob = move |context: HandlerContext, it: GlobArguments| {
        let session = session.clone();
        async move { session.run_blocking(context, move |access| glob(&access, &it)).await }
    };
    let description = "Finds files by a pattern such as `**/*.rs` or `src/{a,b}/*.ts`, those that were changed last first. \
        What ignore files name and `.git` are left out. No link is followed.";
    Tool::new("Glob", description, glob)
        .title("Find files")
        .input_schema(
            json!({
                "pattern": {"type": "string", "description": "The pattern, for paths from `path` on; `**` is any number of folders."},
                "path": {"type": "string", "description": "The folder to look in; the first allowed folder otherwise."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
                "include_ignored": {"type": "boolean", "default": false, "description": "Also what ignore files name."},
            }),
            &["pattern"],
        )
        .output_schema(json!({
            "type": "object",
            "properties": {
                "files": {"type": "array", "items": {"type": "string"}},
                "total": {"type": "integer", "minimum": 0, "description": "How many fit."},
                "truncated": {"type": "boolean", "description": "Are there more than are named?"},
            },
            "required": ["files", "total", "truncated"],
            "additionalProperties": false,
        }))
        .read_only()
}

fn glob(access: &FileAccess, it: &GlobArguments) -> Result<ToolOutput, HandlerError> {
    let start = access.resolve_start(it.path.as_deref())?;
    if !start.is_dir()? {
        return Err(HandlerError::failed(format!("`{}` is not a folder", start.path.display())));
    }
    let pattern = walk::compile_glob(&it.pattern, &start.path)?;
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    let ignored = IgnoredFiles::from_flag(it.include_ignored);
    let coverage = walk::walk_files(&access.context, &start, ignored, None, |entry| {
        if pattern.is_match(walk::relative_to(entry.path(), &start.path)) {
            let changed = entry.metadata().ok().and_then(|it| it.modified().ok());
            found.push((changed.unwrap_or(SystemTime::UNIX_EPOCH), entry.path().to_owned()));
        }
        match found.len() < MAX_SORTED {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let total = found.len();
    found.truncate(it.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT));
    let is_truncated = found.len() < total || coverage != WalkCoverage::Complete;
    let files: Vec<String> = found.iter().map(|(_, path)| path.display().to_string()).collect();
    let mut text = files.iter().map(|file| format!("{file}\n")).collect::<String>();
    if files.is_empty() {
        text = "no file matches\n".to_owned();
    }
    if files.len() < total {
        text.push_str(&format!("({} more match)\n", total - files.len()));
    }
    if coverage != WalkCoverage::Complete {
        text.push_str("(not all files were searched; name a folder)\n");
    }
    Ok(ToolOutput::structured(
        json!({"files": files, "total": total, "truncated": is_truncated}),
        text,
    ))
}

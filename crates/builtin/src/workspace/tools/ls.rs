//! The tool `LS`: lists a folder.

use std::os::fd::AsFd;
use std::sync::Arc;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::kit::context::HandlerContext;
use crate::kit::handler_error::HandlerError;
use crate::kit::tool::Tool;
use crate::kit::tool_output::ToolOutput;
use crate::workspace::file_access::FileAccess;
use crate::workspace::session::WorkspaceSession;

/// The maximum number of listed entries.
const MAX_ENTRIES: usize = 1000;
/// The maximum number of scanned entries.
const MAX_SCANNED: usize = 100_000;

#[derive(Deserialize)]
struct ListArguments {
    path: Option<String>,
    #[serde(default)]
    ignore: Vec<String>,
}

struct Entry {
    name: String,
    kind: &'static str,
    size: u64,
}

pub(crate) fn tool(session: &Arc<WorkspaceSession>) -> Tool {
    let session = session.clone();
    let list = move |context: HandlerContext, it: ListArguments| {
        let session = session.clone();
        async move { session.run_blocking(context, move |access| list(&access, &it)).await }
    };
    let description = "Lists what is in a folder: folders first, then files with their sizes. Names that begin with a dot are \
        among them.";
    Tool::new("LS", description, list)
        .title("List a folder")
        .input_schema(
            json!({
                "path": {"type": "string", "description": "The folder; the first allowed folder otherwise."},
                "ignore": {
                    "type": "array", "maxItems": 100, "items": {"type": "string"},
                    "description": "Patterns for names to leave out, such as `*.log`.",
                },
            }),
            &[],
        )
        .output_schema(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "entries": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "kind": {"enum": ["folder", "file", "link", "other"]},
                            "size": {"type": "integer", "minimum": 0},
                        },
                        "required": ["name", "kind"],
                        "additionalProperties": false,
                    },
                },
                "total": {"type": "integer", "minimum": 0},
                "truncated": {"type": "boolean"},
            },
            "required": ["path", "entries", "total", "truncated"],
            "additionalProperties": false,
        }))
        .read_only()
}

fn list(access: &FileAccess, it: &ListArguments) -> Result<ToolOutput, HandlerError> {
    let resolved = access.resolve_start(it.path.as_deref())?;
    let ignored = ignore_set(&it.ignore)?;
    let folder = resolved.open_dir()?;
    let failed =
        |_| HandlerError::failed(format!("`{}` cannot be listed", resolved.path.display()));
    let mut entries = Vec::new();
    for entry in Dir::read_from(&folder).map_err(failed)?.take(MAX_SCANNED) {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." && !ignored.is_match(&name) {
            let status = statat(folder.as_fd(), entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            let Ok(status) = status else { continue };
            let kind = file_kind(FileType::from_raw_mode(status.st_mode));
            entries.push(Entry { name, kind, size: u64::try_from(status.st_size).unwrap_or(0) });
        }
    }
    entries.sort_by(|a, b| (a.kind != "folder", &a.name).cmp(&(b.kind != "folder", &b.name)));
    let total = entries.len();
    entries.truncate(MAX_ENTRIES);
    let path = resolved.path.display().to_string();
    let mut text = format!("{path}\n");
    entries.iter().for_each(|entry| text.push_str(&entry.to_line()));
    if entries.len() < total {
        text.push_str(&format!("({} more)\n", total - entries.len()));
    }
    let structured = json!({
        "path": path,
        "entries": entries.iter().map(Entry::to_json).collect::<Vec<_>>(),
        "total": total,
        "truncated": entries.len() < total,
    });
    Ok(ToolOutput::structured(structured, text))
}

fn file_kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "folder",
        FileType::RegularFile => "file",
        FileType::Symlink => "link",
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => "other",
    }
}

impl Entry {
    fn to_line(&self) -> String {
        match self.kind {
            "folder" => format!("  {}/\n", self.name),
            "file" => format!("  {} ({} bytes)\n", self.name, self.size),
            kind => format!("  {} ({kind})\n", self.name),
        }
    }

    fn to_json(&self) -> Json {
        let mut structured = json!({"name": self.name, "kind": self.kind});
        if self.kind == "file" {
            structured["size"] = json!(self.size);
        }
        structured
    }
}

fn ignore_set(patterns: &[String]) -> Result<GlobSet, HandlerError> {
    let invalid_pattern =
        |error| HandlerError::failed(format!("a pattern makes no sense: {error}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns.iter().take(100) {
        set.add(GlobBuilder::new(pattern).build().map_err(invalid_pattern)?);
    }
    set.build().map_err(invalid_pattern)
}

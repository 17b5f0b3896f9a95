//! `Glob`: files whose paths fit a pattern, those that were changed last first.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::json;

use super::walk::{self, Ignored, Seen};
use super::workplace::{Turn, Workplace};
use crate::content::Output;
use crate::context::Context;
use crate::refusal::Stop;
use crate::tooling::Tool;

/// How many files are named unless told otherwise, and at most.
const USUAL: usize = 100;
const MOST: usize = 1000;
/// How many files that fit are sorted.
const SORTED: usize = 100_000;

#[derive(Deserialize)]
struct Glob {
    pattern: String,
    path: Option<String>,
    limit: Option<usize>,
    include_ignored: Option<bool>,
}

pub(super) fn tool(place: &Arc<Workplace>) -> Tool {
    let place = place.clone();
    let glob = move |context: Context, it: Glob| {
        let place = place.clone();
        async move { place.work(context, move |turn| glob(&turn, &it)).await }
    };
    let description = "Finds files by a pattern such as `**/*.rs` or `src/{a,b}/*.ts`, those that were changed last first. \
        What ignore files name and `.git` are left out. No link is followed.";
    Tool::new("Glob", description, glob)
        .title("Find files")
        .takes(
            json!({
                "pattern": {"type": "string", "description": "The pattern, for paths from `path` on; `**` is any number of folders."},
                "path": {"type": "string", "description": "The folder to look in; the first allowed folder otherwise."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
                "include_ignored": {"type": "boolean", "default": false, "description": "Also what ignore files name."},
            }),
            &["pattern"],
        )
        .gives(json!({
            "type": "object",
            "properties": {
                "files": {"type": "array", "items": {"type": "string"}},
                "total": {"type": "integer", "minimum": 0, "description": "How many fit."},
                "truncated": {"type": "boolean", "description": "Are there more than are named?"},
            },
            "required": ["files", "total", "truncated"],
            "additionalProperties": false,
        }))
        .reads()
}

fn glob(turn: &Turn, it: &Glob) -> Result<Output, Stop> {
    let start = turn.find_start(it.path.as_deref())?;
    if !start.is_folder()? {
        return Err(Stop::failed(format!("`{}` is not a folder", start.path.display())));
    }
    let pattern = walk::pattern(&it.pattern, &start.path)?;
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    let ignored = Ignored::from_flag(it.include_ignored);
    let seen = walk::files(turn, &start, ignored, None, |entry| {
        if pattern.is_match(walk::below(entry.path(), &start.path)) {
            let changed = entry.metadata().ok().and_then(|it| it.modified().ok());
            found.push((changed.unwrap_or(SystemTime::UNIX_EPOCH), entry.path().to_owned()));
        }
        match found.len() < SORTED {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let total = found.len();
    found.truncate(it.limit.unwrap_or(USUAL).clamp(1, MOST));
    let is_cut = found.len() < total || seen != Seen::Everything;
    let files: Vec<String> = found.iter().map(|(_, path)| path.display().to_string()).collect();
    let mut words = files.iter().map(|file| format!("{file}\n")).collect::<String>();
    if files.is_empty() {
        words = "no file fits\n".to_owned();
    }
    if files.len() < total {
        words.push_str(&format!("({} more fit)\n", total - files.len()));
    }
    if seen != Seen::Everything {
        words.push_str("(there was too much to look at all of it; name a folder)\n");
    }
    Ok(Output::value(json!({"files": files, "total": total, "truncated": is_cut}), words))
}

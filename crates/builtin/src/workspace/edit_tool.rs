//! `Edit`: one piece of a file replaced by another, and nothing else.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::replacing::{Extent, Replaced, Replacement, line_of, replace};
use super::workplace::{Turn, Workplace, numbered};
use crate::content::Output;
use crate::context::Context;
use crate::refusal::Stop;
use crate::tooling::Tool;

/// How many lines are shown around a change, and at most.
const AROUND: usize = 3;
const MOST_SHOWN: usize = 40;
/// How many characters of a line are shown.
const LONGEST_LINE: usize = 500;

/// One replacement.
#[derive(Deserialize)]
pub(super) struct Piece {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Deserialize)]
struct Edit {
    file_path: String,
    #[serde(flatten)]
    piece: Piece,
}

impl Piece {
    /// The text with this replacement made.
    pub(super) fn apply(&self, text: &str) -> Result<Replaced, String> {
        let extent = match self.replace_all {
            true => Extent::Everywhere,
            false => Extent::Once,
        };
        let wanted = Replacement { old: &self.old_string, new: &self.new_string, extent };
        replace(text, wanted).map_err(|mismatch| mismatch.advice())
    }

    /// The schemas of its members.
    pub(super) fn schema() -> Json {
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

pub(super) fn tool(place: &Arc<Workplace>) -> Tool {
    let place = place.clone();
    let edit = move |context: Context, it: Edit| {
        let place = place.clone();
        async move { place.work(context, move |turn| turn.alone(|| edit(&turn, &it))).await }
    };
    let description = "Replaces a piece of a file's text by another, exactly. The file must have been read before. Fails \
        where the piece is not there, or is there more than once and `replace_all` is not set. Line ends, encoding and \
        permissions stay.";
    let mut takes = Piece::schema();
    takes["file_path"] = json!({
        "type": "string", "description": "The file: absolute, or from the first allowed folder on.",
    });
    Tool::new("Edit", description, edit)
        .title("Edit a file")
        .takes(takes, &["file_path", "old_string", "new_string"])
        .gives(json!({
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

fn edit(turn: &Turn, it: &Edit) -> Result<Output, Stop> {
    let known = turn.known_text(&it.file_path)?;
    let path = known.spot.path.display().to_string();
    let replaced = it.piece.apply(&known.decoded.text);
    let replaced = replaced.map_err(|why| Stop::failed(format!("`{path}` is unchanged: {why}")))?;
    turn.save(&known, &replaced.text)?;
    let (line, snippet) = snippet(&replaced);
    let count = replaced.count;
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let words = format!("`{path}`: replaced {times}\n{snippet}");
    let about = json!({"path": path, "replacements": count, "line": line, "snippet": snippet});
    Ok(Output::value(about, words))
}

/// Where the first change begins, and what it looks like there now.
pub(super) fn snippet(replaced: &Replaced) -> (usize, String) {
    let line = line_of(&replaced.text, replaced.start);
    let last = line_of(&replaced.text, replaced.end);
    let first = line.saturating_sub(AROUND).max(1);
    let count = (last + AROUND + 1 - first).min(MOST_SHOWN);
    let lines = replaced.text.lines().skip(first - 1).take(count);
    let cut: Vec<String> = lines.map(|line| line.chars().take(LONGEST_LINE).collect()).collect();
    (line, numbered(cut.iter().map(String::as_str), first))
}

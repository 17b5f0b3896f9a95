//! One replacement in a file, as `Edit` and `MultiEdit` take it.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::workspace::files::replace::{Extent, ReplaceResult, Replacement, line_number, replace};
use crate::workspace::files::text_encoding::with_line_numbers;

/// How many lines are shown around a change, and in total.
const CONTEXT_LINES: usize = 3;
const MAX_SHOWN_LINES: usize = 40;
/// The maximum length of a shown line, in characters.
const MAX_LINE_LENGTH: usize = 500;

/// A replacement.
#[derive(Deserialize)]
pub(super) struct EditOperation {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl EditOperation {
    /// Applies the replacement to a text.
    pub(super) fn apply(&self, text: &str) -> Result<ReplaceResult, String> {
        let extent = match self.replace_all {
            true => Extent::Everywhere,
            false => Extent::Once,
        };
        let replacement = Replacement { old: &self.old_string, new: &self.new_string, extent };
        replace(text, replacement).map_err(|mismatch| mismatch.message())
    }

    /// The schemas of the members.
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

/// The line of the first change, and the lines around it.
pub(super) fn snippet(replaced: &ReplaceResult) -> (usize, String) {
    let line = line_number(&replaced.text, replaced.start);
    let last = line_number(&replaced.text, replaced.end);
    let first = line.saturating_sub(CONTEXT_LINES).max(1);
    let count = (last + CONTEXT_LINES + 1 - first).min(MAX_SHOWN_LINES);
    let lines = replaced.text.lines().skip(first - 1).take(count);
    let cut: Vec<String> = lines.map(|line| line.chars().take(MAX_LINE_LENGTH).collect()).collect();
    (line, with_line_numbers(cut.iter().map(String::as_str), first))
}

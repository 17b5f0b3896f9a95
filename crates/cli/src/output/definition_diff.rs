//! The difference between two definitions of a tool, as text and as JSON.

use std::fmt::Write;

use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::permission::{DefinitionDiff, LineChange};

use crate::output::style::{TextStyle, paint};

/// The changed lines under a heading.
pub fn as_text(diff: &DefinitionDiff) -> String {
    let mut text = String::from("It changed since it was approved:\n");
    for (change, line) in &diff.lines {
        let line = printable(line);
        let _infallible = match change {
            LineChange::Added => {
                writeln!(text, "{}", paint(TextStyle::Success, format!("  + {line}")))
            }
            LineChange::Removed => {
                writeln!(text, "{}", paint(TextStyle::Error, format!("  - {line}")))
            }
            LineChange::Unchanged => writeln!(text, "    {line}"),
        };
    }
    text
}

/// The lines as JSON.
pub fn as_json(diff: &DefinitionDiff) -> Json {
    let line = |(change, line): &(LineChange, String)| {
        let change = match change {
            LineChange::Added => "added",
            LineChange::Removed => "removed",
            LineChange::Unchanged => "unchanged",
        };
        json!({"change": change, "line": line})
    };
    diff.lines.iter().map(line).collect()
}

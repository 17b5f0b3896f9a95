//! The difference between two definitions of a tool, as lines.

use std::fmt;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// The maximum number of lines in a diff.
const MAX_DIFF_LINES: usize = 200;
/// The maximum length of a line in a diff.
const MAX_LINE_BYTES: usize = 2000;
/// The maximum number of bytes of a definition that are compared.
const MAX_COMPARED_BYTES: usize = 64 * 1024;
/// The maximum number of lines of a definition that are compared.
const MAX_COMPARED_LINES: usize = 2000;
/// The maximum time to compare two definitions. After it the difference is larger than necessary.
const MAX_DIFF_TIME: Duration = Duration::from_millis(200);

/// The difference between two definitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DefinitionDiff {
    /// The changed lines, each with one line of context.
    pub lines: Vec<(LineChange, String)>,
}

/// How a line changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineChange {
    /// An added line.
    Added,
    /// A removed line.
    Removed,
    /// A context line.
    Unchanged,
}

/// The lines, each after `+`, `-` or a space.
impl fmt::Display for DefinitionDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (change, line)) in self.lines.iter().enumerate() {
            let sign = match change {
                LineChange::Added => '+',
                LineChange::Removed => '-',
                LineChange::Unchanged => ' ',
            };
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{sign} {line}")?;
        }
        Ok(())
    }
}

impl DefinitionDiff {
    /// Compares the beginnings, as far as [`MAX_COMPARED_LINES`] and [`MAX_COMPARED_BYTES`] allow.
    pub(super) fn between(before: &str, after: &str) -> DefinitionDiff {
        let (before, after) = (compared_text(before), compared_text(after));
        let difference = TextDiff::configure().timeout(MAX_DIFF_TIME).diff_lines(&before, &after);
        let mut lines = Vec::new();
        for group in difference.grouped_ops(1) {
            for change in group.iter().flat_map(|operation| difference.iter_changes(operation)) {
                let kind = match change.tag() {
                    ChangeTag::Insert => LineChange::Added,
                    ChangeTag::Delete => LineChange::Removed,
                    ChangeTag::Equal => LineChange::Unchanged,
                };
                lines.push((kind, shown_line(change.value())));
            }
        }
        if lines.len() > MAX_DIFF_LINES {
            let left_out = lines.len() - MAX_DIFF_LINES;
            lines.truncate(MAX_DIFF_LINES);
            lines.push((LineChange::Unchanged, format!("… and {left_out} more lines")));
        }
        DefinitionDiff { lines }
    }
}

/// Splits long strings at their line breaks, so that a changed word stands out, and cuts what is too long to compare.
fn compared_text(definition: &str) -> String {
    let is_long = definition.len() > MAX_COMPARED_BYTES;
    let definition = &definition[..definition.floor_char_boundary(MAX_COMPARED_BYTES)];
    let mut text = definition.replace("\\n", "\n  ");
    let end = text.match_indices('\n').nth(MAX_COMPARED_LINES - 1).map(|(at, _)| at + 1);
    if let Some(end) = end {
        text.truncate(end);
    }
    if is_long || end.is_some() {
        text.push_str("… the rest is not compared\n");
    }
    text
}

fn shown_line(line: &str) -> String {
    let line = line.trim_end();
    let end = line.floor_char_boundary(MAX_LINE_BYTES);
    match end < line.len() {
        true => format!("{}…", &line[..end]),
        false => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_comparison_of_hostile_definitions_is_bounded_on_both_sides() {
        let text = |word: &str, count: usize| {
            (0..count).map(|index| format!("{word}{index}\\n")).collect::<String>()
        };
        let (before, after) = (text("a", 40_000), text("b", 400_000));
        for side in [&before, &after] {
            let compared = compared_text(side);
            assert_eq!(compared.lines().count(), MAX_COMPARED_LINES + 1);
            assert!(compared.ends_with("… the rest is not compared\n"));
        }
        let diff = DefinitionDiff::between(&before, &after);
        assert_eq!(diff.lines.len(), MAX_DIFF_LINES + 1);
        let long = "x".repeat(10_000_000);
        let diff = DefinitionDiff::between("", &long);
        let bytes: usize = diff.lines.iter().map(|(_, line)| line.len()).sum();
        assert!(bytes < 2 * MAX_LINE_BYTES, "{bytes}");
    }
}

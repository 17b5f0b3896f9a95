//! The change that a call would make to a file, where its arguments look like an edit. Recognised by the names of the
//! arguments and shown as a diff. Reading the file is left to `elicitor`.

use std::time::Duration;

use serde_json::Value as Json;
use similar::{ChangeTag, TextDiff};
use switchboard::permission::LineChange;

use crate::text::rich_text::RichText;
use crate::theme::Tone;

/// Names of the argument for the path.
const PATH_KEYS: [&str; 6] = ["path", "file_path", "filePath", "filename", "file", "target_file"];
/// Names of the arguments for the old and the new text.
const REPLACE_KEYS: [(&str, &str); 5] = [
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("oldString", "newString"),
];
/// Names of the argument for a list of such pairs.
const EDIT_LIST_KEYS: [&str; 2] = ["edits", "replacements"];
/// Names of the argument for the whole content.
const CONTENT_KEYS: [&str; 5] = ["content", "contents", "file_text", "text", "new_content"];
/// The number of unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// The most lines of a preview; longer edits are shown as arguments only.
const MAX_LINES: usize = 5000;
/// How long computing a diff may take.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// An edit that arguments describe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The path as it is in the arguments.
    pub path: String,
    /// The kind of edit.
    pub kind: EditKind,
    /// The arguments that describe the edit.
    argument_names: Vec<String>,
}

/// The kind of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditKind {
    /// Replaces parts: pairs of old and new text.
    Replace(Vec<(String, String)>),
    /// Replaces the whole content.
    Overwrite(String),
}

/// An edit for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditPreview {
    /// The path.
    pub path: String,
    /// The lines of the diff.
    pub lines: Vec<(LineChange, String)>,
    /// The arguments that the diff stands for.
    pub argument_names: Vec<String>,
}

/// The edit that arguments describe, if they look like one.
pub fn detect_edit(arguments: &Json) -> Option<FileEdit> {
    let members = arguments.as_object()?;
    let text = |value: &Json, key: &str| value[key].as_str().map(str::to_owned);
    let path = PATH_KEYS.iter().find_map(|key| text(arguments, key))?;
    let pair = |value: &Json| {
        REPLACE_KEYS.iter().find_map(|(old, new)| Some((text(value, old)?, text(value, new)?)))
    };
    if let Some(pair) = pair(arguments) {
        let named = |it: &&String| REPLACE_KEYS.iter().any(|(old, new)| *it == old || *it == new);
        let members = members.keys().filter(named).cloned().collect();
        return Some(FileEdit {
            path,
            kind: EditKind::Replace(vec![pair]),
            argument_names: members,
        });
    }
    for key in EDIT_LIST_KEYS {
        let items = members.get(key).and_then(Json::as_array).filter(|it| !it.is_empty());
        let Some(items) = items else { continue };
        if let Some(pairs) = items.iter().map(pair).collect::<Option<Vec<_>>>() {
            // Further members of the listed edits must stay visible as arguments.
            let is_all = |it: &Json| it.as_object().is_some_and(|it| it.len() == 2);
            let members = if items.iter().all(is_all) { vec![key.to_owned()] } else { Vec::new() };
            return Some(FileEdit {
                path,
                kind: EditKind::Replace(pairs),
                argument_names: members,
            });
        }
    }
    let (key, whole) = CONTENT_KEYS.iter().find_map(|key| Some((*key, text(arguments, key)?)))?;
    Some(FileEdit { path, kind: EditKind::Overwrite(whole), argument_names: vec![key.to_owned()] })
}

impl FileEdit {
    /// The diff of the edit. `existing` is the file's content; an overwrite without one has no preview.
    pub fn preview(self, existing: Option<&str>) -> Option<EditPreview> {
        let mut lines = Vec::new();
        match (&self.kind, existing) {
            (EditKind::Replace(pairs), _) => {
                for (index, (old, new)) in pairs.iter().enumerate() {
                    if index > 0 {
                        lines.push((LineChange::Unchanged, String::new()));
                    }
                    push_diff(&mut lines, old, new, usize::MAX);
                }
            }
            (EditKind::Overwrite(whole), Some(existing)) => {
                push_diff(&mut lines, existing, whole, CONTEXT_LINES)
            }
            (EditKind::Overwrite(_), None) => return None,
        }
        (lines.len() <= MAX_LINES).then_some(EditPreview {
            path: self.path,
            lines,
            argument_names: self.argument_names,
        })
    }
}

fn push_diff(lines: &mut Vec<(LineChange, String)>, old: &str, new: &str, around: usize) {
    let mut configuration = TextDiff::configure();
    let difference = configuration.timeout(DIFF_TIMEOUT).diff_lines(old, new);
    let groups = match around {
        usize::MAX => vec![difference.ops().to_vec()],
        around => difference.grouped_ops(around),
    };
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            lines.push((LineChange::Unchanged, "⋯".to_owned()));
        }
        for change in group.iter().flat_map(|op| difference.iter_changes(op)) {
            let kind = match change.tag() {
                ChangeTag::Equal => LineChange::Unchanged,
                ChangeTag::Delete => LineChange::Removed,
                ChangeTag::Insert => LineChange::Added,
            };
            lines.push((kind, change.value().trim_end_matches('\n').to_owned()));
        }
    }
}

/// Appends the lines of a diff.
pub fn push_diff_lines(content: &mut RichText, lines: &[(LineChange, String)]) {
    for (change, line) in lines {
        let (sign, tone) = match change {
            LineChange::Added => ("+ ", Tone::Success),
            LineChange::Removed => ("- ", Tone::Error),
            LineChange::Unchanged => ("  ", Tone::Muted),
        };
        content.push_line(2, vec![(tone, format!("{sign}{line}"))]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(arguments: Json, existing: Option<&str>, expected: Option<(&str, &[&str])>) {
        let preview = detect_edit(&arguments).and_then(|it| it.preview(existing));
        let sign = |change: &LineChange| match change {
            LineChange::Added => "+",
            LineChange::Removed => "-",
            LineChange::Unchanged => " ",
        };
        let shown = preview.as_ref().map(|it| {
            let lines = it.lines.iter().map(|(change, line)| format!("{}{line}", sign(change)));
            (lines.collect::<Vec<_>>().join("\n"), it.argument_names.clone())
        });
        let expected = expected.map(|(text, members)| {
            (text.to_owned(), members.iter().map(|it| (*it).to_owned()).collect())
        });
        assert_eq!(shown, expected, "{arguments}");
    }

    #[test]
    fn edits_are_known_by_the_names_of_their_arguments() {
        let pair =
            json!({"file_path": "a", "old_string": "x\ny", "new_string": "x\nz", "all": true});
        check(pair, None, Some((" x\n-y\n+z", &["old_string", "new_string"])));
        let list = json!({"path": "a", "edits": [{"oldText": "x", "newText": "y"}]});
        check(list, None, Some(("-x\n+y", &["edits"])));
        let more = json!({"path": "a", "edits": [{"oldText": "x", "newText": "y", "all": 1}]});
        check(more, None, Some(("-x\n+y", &[])));
        check(json!({"path": "a", "old_string": "x"}), None, None);
        check(json!({"old_string": "x", "new_string": "y"}), None, None);
        check(json!("x"), None, None);
    }

    #[test]
    fn a_whole_file_is_compared_with_what_is_there() {
        let whole = json!({"path": "a", "content": "1\n2\n3\n4\n5\n6\n7\n8\n9\nX\n"});
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
        check(whole.clone(), Some(before), Some((" 7\n 8\n 9\n-10\n+X", &["content"])));
        check(whole, None, None);
    }

    #[test]
    fn an_edit_that_is_too_large_has_no_preview() {
        let new: String = (0..6000).map(|it| format!("{it}\n")).collect();
        check(json!({"path": "a", "old_string": "", "new_string": new}), None, None);
    }
}

//! Which problems in files are new since an edit. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value as Json;

/// The most new problems that are shown to a model.
const MAX_SHOWN: usize = 30;
/// The longest message that is shown, in characters.
const MAX_MESSAGE: usize = 500;

/// A problem in a file. Its place is no part of what it is: edits move it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ProblemKey {
    severity: String,
    source: String,
    message: String,
}

/// The known problems of files, and the files that were edited since they were shown.
#[derive(Debug, Default)]
pub(super) struct KnownDiagnostics {
    /// How often each problem occurs, by file.
    files: BTreeMap<String, BTreeMap<ProblemKey, usize>>,
    edited: BTreeSet<String>,
}

#[derive(Deserialize)]
struct FileDiagnostics {
    uri: String,
    #[serde(default)]
    diagnostics: Vec<Diagnostic>,
}

#[derive(Deserialize)]
struct Diagnostic {
    #[serde(default)]
    message: String,
    #[serde(default)]
    severity: Json,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    range: Json,
}

impl Diagnostic {
    fn key(&self) -> ProblemKey {
        ProblemKey {
            severity: match &self.severity {
                Json::String(text) => text.clone(),
                Json::Null => "Problem".to_owned(),
                other @ (Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
                    other.to_string()
                }
            },
            source: self.source.clone().unwrap_or_default(),
            message: self.message.clone(),
        }
    }

    fn line(&self) -> Option<u64> {
        self.range["start"]["line"].as_u64().map(|it| it.saturating_add(1))
    }
}

impl KnownDiagnostics {
    /// Notes the problems that a file has before an edit.
    pub(super) fn set_baseline(&mut self, uri: &str, result: &Json) {
        let mut problems = BTreeMap::new();
        for file in decode(result).into_iter().filter(|it| is_same_file(&it.uri, uri)) {
            for diagnostic in &file.diagnostics {
                *problems.entry(diagnostic.key()).or_default() += 1;
            }
        }
        self.files.insert(file_key(uri), problems);
    }

    /// Notes that a file was edited.
    pub(super) fn note_edit(&mut self, uri: &str) {
        self.edited.insert(file_key(uri));
    }

    /// Whether a file was edited since problems were compared.
    pub(super) fn has_edits(&self) -> bool {
        !self.edited.is_empty()
    }

    /// Forgets the edits, because the problems cannot be fetched.
    pub(super) fn forget_edits(&mut self) {
        self.edited.clear();
    }

    /// The problems that are new, as a text for the model. A file that was not looked at before has only old ones, unless
    /// it was edited.
    pub(super) fn new_problems(&mut self, result: &Json) -> Option<String> {
        let mut shown: Vec<String> = Vec::new();
        let mut count = 0;
        for file in decode(result) {
            let key = file_key(&file.uri);
            let is_known = self.files.contains_key(&key) || self.edited.contains(&key);
            let mut before = self.files.remove(&key).unwrap_or_default();
            let mut now: BTreeMap<ProblemKey, usize> = BTreeMap::new();
            for diagnostic in &file.diagnostics {
                let problem = diagnostic.key();
                *now.entry(problem.clone()).or_default() += 1;
                let left = before.get_mut(&problem).filter(|it| **it > 0);
                match left {
                    Some(left) => *left -= 1,
                    None if is_known => {
                        count += 1;
                        if shown.len() < MAX_SHOWN {
                            shown.push(problem_text(&key, diagnostic, &problem));
                        }
                    }
                    None => {}
                }
            }
            self.files.insert(key, now);
        }
        self.edited.clear();
        if count == 0 {
            return None;
        }
        let more = match count - shown.len() {
            0 => String::new(),
            more => format!("\n… and {more} more"),
        };
        Some(format!(
            "The editor reports problems that were not there before the last edits:\n{}{more}",
            shown.join("\n")
        ))
    }
}

fn decode(result: &Json) -> Vec<FileDiagnostics> {
    let files = result.as_array().map(Vec::as_slice).unwrap_or_default();
    files.iter().filter_map(|it| FileDiagnostics::deserialize(it).ok()).collect()
}

/// The path that a URI stands for; editors escape different characters.
fn file_key(uri: &str) -> String {
    let path = url::Url::parse(uri).ok().and_then(|it| it.to_file_path().ok());
    match path {
        Some(path) => path.display().to_string(),
        None => uri.strip_prefix("file://").unwrap_or(uri).to_owned(),
    }
}

fn is_same_file(one: &str, other: &str) -> bool {
    file_key(one) == file_key(other)
}

fn problem_text(path: &str, diagnostic: &Diagnostic, problem: &ProblemKey) -> String {
    let line = diagnostic.line().map(|it| format!(":{it}")).unwrap_or_default();
    let message: String = problem.message.chars().take(MAX_MESSAGE).collect();
    let source = match problem.source.as_str() {
        "" => String::new(),
        source => format!(" ({source})"),
    };
    format!("- {path}{line}: {}: {message}{source}", problem.severity)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn files(problems: &[(&str, &[(u64, &str)])]) -> Json {
        let diagnostic = |(line, message): &(u64, &str)| {
            json!({
                "message": message, "severity": "Error", "source": "lint",
                "range": {"start": {"line": line, "character": 0}, "end": {"line": line, "character": 1}},
            })
        };
        let file = |(uri, problems): &(&str, &[(u64, &str)])| json!({"uri": uri, "diagnostics": problems.iter().map(diagnostic).collect::<Vec<_>>()});
        problems.iter().map(file).collect()
    }

    #[test]
    fn only_problems_that_an_edit_added_are_new() {
        let mut known = KnownDiagnostics::default();
        known.set_baseline("file:///a.py", &files(&[("file:///a.py", &[(0, "old")])]));
        known.note_edit("file:///a.py");
        // The old problem has moved, and another file was never looked at.
        let now =
            files(&[("file:///a.py", &[(5, "old"), (6, "new")]), ("file:///b.py", &[(0, "b")])]);
        let expected = "The editor reports problems that were not there before the last edits:\n\
                        - /a.py:7: Error: new (lint)";
        assert_eq!(known.new_problems(&now).as_deref(), Some(expected));
        assert_eq!(known.new_problems(&now), None);
        assert!(!known.has_edits());
    }

    #[test]
    fn the_same_problem_a_second_time_is_new() {
        let mut known = KnownDiagnostics::default();
        known.set_baseline("file:///a", &files(&[("file:///a", &[(0, "unused")])]));
        known.note_edit("file:///a");
        let twice = files(&[("file:///a", &[(0, "unused"), (1, "unused")])]);
        assert!(known.new_problems(&twice).is_some_and(|it| it.contains("/a:2: Error: unused")));
    }

    #[test]
    fn a_file_that_is_new_itself_has_only_new_problems() {
        let mut known = KnownDiagnostics::default();
        known.note_edit("file:///w/a%20b");
        let now = files(&[("file:///w/a b", &[(0, "x")])]);
        assert!(known.new_problems(&now).is_some());
    }

    #[test]
    fn many_problems_are_counted_and_what_is_no_list_has_none() {
        let mut known = KnownDiagnostics::default();
        known.note_edit("file:///a");
        let messages: Vec<String> = (0..40).map(|it| format!("problem {it}")).collect();
        let problems: Vec<(u64, &str)> = messages.iter().map(|it| (0, it.as_str())).collect();
        let text = known.new_problems(&files(&[("file:///a", &problems)])).expect("new ones");
        assert!(text.ends_with("… and 10 more"), "{text}");
        known.note_edit("file:///a");
        assert_eq!(known.new_problems(&json!({"code": -32000})), None);
    }
}

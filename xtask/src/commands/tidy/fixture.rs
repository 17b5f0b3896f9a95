//! Small repositories for the tests of the rules.

use std::fs;

use tempfile::TempDir;

use super::{RULES, violations};

/// A temporary folder with these files: path, then text.
pub fn repository(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (path, text) in files {
        let file = folder.path().join(path);
        let parent = file.parent().expect("a file lies in a folder");
        fs::create_dir_all(parent).expect("a new folder can be made");
        fs::write(&file, text).expect("a new file can be written");
    }
    folder
}

/// Runs all rules over `files` and compares the locations (`path:line`) that violate `rule`.
///
/// All rules run, so that a rule that is missing from `RULES` fails its own tests.
pub fn check(rule: &str, files: &[(&str, &str)], expected: &[&str]) {
    assert!(RULES.iter().any(|known| known.name == rule), "no rule is called {rule}");
    let folder = repository(files);
    let found: Vec<String> = violations(folder.path())
        .expect("the folder can be read")
        .into_iter()
        .filter(|violation| violation.rule == rule)
        .map(|violation| format!("{}:{}", violation.finding.path, violation.finding.line))
        .collect();
    assert_eq!(found, expected);
}

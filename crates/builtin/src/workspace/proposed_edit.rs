//! What `Edit`, `MultiEdit` and `Write` would make of a file, for a program that shows the change before it is permitted. The
//! tools check again when they run.

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::files::allowed_roots::{Access, AllowedRoots};
use super::files::contents;
use super::files::resolved_path::ResolvedPath;
use super::files::text_encoding::{LineEndings, decode};
use super::tools::{edit, multi_edit};

/// The largest file for which a change is proposed, in bytes.
const MAX_TEXT: usize = 4 * 1024 * 1024;

/// The tools whose changes are proposed.
pub const EDIT_TOOLS: [&str; 3] = ["Edit", "MultiEdit", "Write"];

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedEdit {
    /// The file, absolute and with links resolved.
    pub path: PathBuf,
    /// Its text; `None` where it does not exist yet.
    pub old_text: Option<String>,
    /// The text that the tool would write.
    pub new_text: String,
}

/// The change that a call of a tool would make in the allowed folders; `None` where it would fail. Blocks.
pub fn propose_edit(roots: &[PathBuf], tool: &str, arguments: &Json) -> Option<ProposedEdit> {
    let roots = AllowedRoots::new(roots, None);
    let resolved = roots.resolve(arguments["file_path"].as_str()?, Access::Write).ok()?;
    let old_text = match resolved.exists().ok()? {
        true => Some(read(&resolved)?),
        false => None,
    };
    let new_text = match (tool, &old_text) {
        ("Write", None) => arguments["content"].as_str()?.to_owned(),
        ("Write", Some(old)) => LineEndings::detect(old).normalize(arguments["content"].as_str()?),
        ("Edit", Some(old)) => edit::apply(arguments, old)?,
        ("MultiEdit", Some(old)) => multi_edit::apply(arguments, old)?,
        (_, _) => return None,
    };
    (new_text.len() <= MAX_TEXT).then_some(ProposedEdit { path: resolved.path, old_text, new_text })
}

/// The text of a file in the allowed folders; `None` for one that is too large or no text. Blocks.
pub fn read_text(roots: &[PathBuf], path: &Path) -> Option<String> {
    let roots = AllowedRoots::new(roots, None);
    read(&roots.resolve(path.to_str()?, Access::Read).ok()?)
}

fn read(resolved: &ResolvedPath) -> Option<String> {
    let contents = contents::read_contents(resolved).ok()?;
    decode(&contents.bytes).ok().map(|it| it.text).filter(|it| it.len() <= MAX_TEXT)
}

impl ProposedEdit {
    /// The arguments with which the tool writes other contents than proposed. They have the line endings of the file.
    pub fn arguments_for(&self, tool: &str, arguments: &Json, contents: &str) -> Option<Json> {
        let file_path = arguments["file_path"].as_str()?;
        let old = self.old_text.as_deref().filter(|it| !it.is_empty());
        let contents = match old {
            Some(old) => LineEndings::detect(old).normalize(contents),
            None => contents.to_owned(),
        };
        match tool {
            "Write" => Some(json!({"file_path": file_path, "content": contents})),
            "Edit" => {
                Some(json!({"file_path": file_path, "old_string": old?, "new_string": contents}))
            }
            "MultiEdit" => {
                let edit = json!({"old_string": old?, "new_string": contents});
                Some(json!({"file_path": file_path, "edits": [edit]}))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn with(name: &str, text: &str) -> Folder {
            let folder = tempfile::tempdir().expect("a temp folder");
            std::fs::write(folder.path().join(name), text).expect("a file");
            Folder(folder)
        }

        fn propose(&self, tool: &str, arguments: &Json) -> Option<ProposedEdit> {
            propose_edit(&[self.0.path().to_owned()], tool, arguments)
        }
    }

    #[test]
    fn each_tool_proposes_what_it_would_write() {
        let folder = Folder::with("a", "one\ntwo\n");
        let text =
            |tool: &str, arguments: Json| folder.propose(tool, &arguments).map(|it| it.new_text);
        let edit = json!({"file_path": "a", "old_string": "two", "new_string": "2"});
        assert_eq!(text("Edit", edit).as_deref(), Some("one\n2\n"));
        let edits = json!([{"old_string": "one", "new_string": "1"}, {"old_string": "1\n", "new_string": ""}]);
        let multi = json!({"file_path": "a", "edits": edits});
        assert_eq!(text("MultiEdit", multi).as_deref(), Some("two\n"));
        let write = json!({"file_path": "new/b", "content": "x"});
        assert_eq!(text("Write", write).as_deref(), Some("x"));
    }

    #[test]
    fn what_would_fail_or_lies_outside_is_not_proposed() {
        let folder = Folder::with("a", "one one");
        let twice = json!({"file_path": "a", "old_string": "one", "new_string": "1"});
        assert_eq!(folder.propose("Edit", &twice), None);
        let missing = json!({"file_path": "b", "old_string": "one", "new_string": "1"});
        assert_eq!(folder.propose("Edit", &missing), None);
        let outside = json!({"file_path": "../b", "content": "x"});
        assert_eq!(folder.propose("Write", &outside), None);
        assert_eq!(folder.propose("Bash", &json!({"file_path": "a"})), None);
    }

    #[test]
    fn other_contents_become_arguments_that_write_exactly_them() {
        let folder = Folder::with("a", "one\r\ntwo\r\n");
        let arguments = json!({"file_path": "a", "old_string": "two", "new_string": "2"});
        let proposed = folder.propose("Edit", &arguments).expect("it fits");
        let changed = proposed.arguments_for("Edit", &arguments, "mine\n").expect("arguments");
        let written = folder.propose("Edit", &changed).expect("it fits");
        assert_eq!(written.new_text, "mine\r\n");
        let edits = json!({"file_path": "a", "edits": [{"old_string": "one", "new_string": "1"}]});
        let proposed = folder.propose("MultiEdit", &edits).expect("it fits");
        let changed = proposed.arguments_for("MultiEdit", &edits, "mine").expect("arguments");
        assert_eq!(folder.propose("MultiEdit", &changed).expect("it fits").new_text, "mine");
    }
}

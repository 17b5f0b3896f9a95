//! Edits JSON files of clients: the splices of `edit` keep comments and layout.

use serde_json::{Map, Value};

use super::section::{Sections, has_gemini_allow_list};
use super::{AdoptError, FileChange};
use crate::edit::{self, Edit};
use crate::import::{HostApp, ImportedScope};

pub(super) fn rewrite(
    change: &FileChange<'_>,
    sections: &Sections,
    root: &Map<String, Value>,
    text: &str,
) -> Result<String, AdoptError> {
    let mut edits: Vec<Edit> = Vec::new();
    // The entry comes first, so that an object never becomes empty and keeps its layout.
    if let Some(entry) = change.entry {
        edits.push(Edit::SetMember {
            path: sections.path(ImportedScope::User).to_vec(),
            key: entry.name.clone(),
            value: entry.value_for(change.file.app),
        });
        if change.file.app == HostApp::Gemini && has_gemini_allow_list(root) {
            edits.push(Edit::AddToNestedList {
                object: "mcp".to_owned(),
                key: "allowed".to_owned(),
                text: entry.name.clone(),
            });
        }
    }
    let is_entry = |name: &str| change.entry.is_some_and(|entry| entry.name == name);
    edits.extend(
        change
            .removals
            .iter()
            // A server with the name of the entry was replaced by it.
            .filter(|it| it.scope == ImportedScope::Local || !is_entry(&it.name))
            .map(|removal| Edit::RemoveMember {
                path: sections.path(removal.scope).to_vec(),
                key: removal.name.clone(),
            }),
    );
    Ok(edit::apply(text, &edits)?)
}

#[cfg(test)]
mod tests {
    use crate::adopt::tests::check;
    use crate::import::HostApp;

    #[test]
    fn comments_and_other_keys_stay() {
        check(
            HostApp::Cursor,
            r#"{
  // shared
  "mcpServers": {
    "a": { "command": "x" }, // first
    // about b
    "b": {
      "url": "https://b"
    },
  },
  "other": [1,2]
}
"#,
            &["a", "b"],
            r#"{
  // shared
  "mcpServers": {
    // about b
    "switchboard": {
      "command": "swb",
      "args": ["serve", "--pool"]
    },
  },
  "other": [1,2]
}
"#,
        );
    }

    #[test]
    fn servers_of_one_project_leave_its_own_section() {
        check(
            HostApp::ClaudeCode,
            r#"{"numStartups": 3, "projects": {"/w/app": {"mcpServers": {"l": {"command": "x"}}}, "/w/b": {"mcpServers": {"l": {}}}}}"#,
            &["local:l"],
            r#"{"numStartups": 3, "projects": {"/w/app": {"mcpServers": {}}, "/w/b": {"mcpServers": {"l": {}}}}, "mcpServers": {"switchboard": {"type": "stdio", "command": "swb", "args": ["serve", "--pool"]}}}"#,
        );
    }

    #[test]
    fn the_entry_is_allowed_where_gemini_has_a_list() {
        check(
            HostApp::Gemini,
            r#"{"mcp": {"allowed": ["a"]}, "mcpServers": {"a": {"command": "x"}}}"#,
            &["a"],
            r#"{"mcp": {"allowed": ["a", "switchboard"]}, "mcpServers": {"switchboard": {"command": "swb", "args": ["serve", "--pool"]}}}"#,
        );
    }

    #[test]
    fn a_moved_server_with_the_name_of_the_entry_is_replaced() {
        check(
            HostApp::Windsurf,
            r#"{"mcpServers": {"switchboard": {"command": "old"}}}"#,
            &["switchboard"],
            r#"{"mcpServers": {"switchboard": {"command": "swb", "args": ["serve", "--pool"]}}}"#,
        );
    }

    #[test]
    fn both_versions_of_opencode_are_edited() {
        check(
            HostApp::Opencode,
            r#"{"mcp": {"a": {"type": "local", "command": ["x"]}}}"#,
            &["a"],
            r#"{"mcp": {"switchboard": {"type": "local", "command": ["swb", "serve", "--pool"]}}}"#,
        );
        check(
            HostApp::Opencode,
            r#"{"mcp": {"timeout": 5, "servers": {"a": {"type": "local", "command": ["x"]}}}}"#,
            &["a"],
            r#"{"mcp": {"timeout": 5, "servers": {"switchboard": {"type": "local", "command": ["swb", "serve", "--pool"]}}}}"#,
        );
    }
}

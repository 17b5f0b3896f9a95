//! The tools that a client's file approves in advance, in the entries of their servers.

use std::path::Path;

use serde_json::Value;

use super::section::{Sections, object_at};
use crate::import::{self, HostAppFile, ImportedScope};

/// The keys of an entry that approve tools: lists, as several clients call them, and Codex's table.
pub const APPROVAL_KEYS: [&str; 4] = ["autoApprove", "alwaysAllow", "always_allow", "tools"];

/// Returns the tools that the entry of a server approves. Names with other characters than those of tools are left
/// out: in a rule they could mean more than one tool.
pub fn approved_tools(
    file: &HostAppFile,
    text: &str,
    project: &Path,
    (scope, server): (ImportedScope, &str),
) -> Vec<String> {
    let Ok(mut root) = import::parse_file(file.app, text) else { return Vec::new() };
    let sections = Sections::of(file.app, &root, project);
    let servers = object_at(&mut root, sections.path(scope));
    let Some(entry) = servers.and_then(|servers| servers.get(server).cloned()) else {
        return Vec::new();
    };
    let mut tools: Vec<String> = Vec::new();
    for list in APPROVAL_KEYS.iter().filter_map(|key| entry.get(*key)?.as_array()) {
        tools.extend(list.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    // Codex has one table for each tool.
    for (tool, settings) in entry.get("tools").and_then(Value::as_object).into_iter().flatten() {
        if settings.get("approval_mode").and_then(Value::as_str) == Some("approve") {
            tools.push(tool.clone());
        }
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    tools.retain(|tool| !tool.is_empty() && tool.chars().all(is_plain));
    tools.dedup();
    tools
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{FileScope, HostApp};

    #[track_caller]
    fn check(app: HostApp, text: &str, expected: &[&str]) {
        let file = HostAppFile { app, path: "/h/file".into(), scope: FileScope::User };
        let server = (ImportedScope::User, "a");
        assert_eq!(approved_tools(&file, text, Path::new("/w"), server), expected);
    }

    #[test]
    fn lists_of_approved_tools_are_found() {
        check(
            HostApp::Cursor,
            r#"{"mcpServers": {"a": {"command": "x", "autoApprove": ["read", "*", "a(b)"]}}}"#,
            &["read"],
        );
        check(HostApp::Windsurf, r#"{"mcpServers": {"a": {"alwaysAllow": ["list"]}}}"#, &["list"]);
        check(
            HostApp::Codex,
            "[mcp_servers.a.tools.read]\napproval_mode = 'approve'\n[mcp_servers.a.tools.drop]\napproval_mode = 'prompt'\n",
            &["read"],
        );
        check(HostApp::Cursor, r#"{"mcpServers": {"b": {"autoApprove": ["read"]}}}"#, &[]);
    }
}

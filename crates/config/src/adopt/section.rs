//! Where a client's file holds its servers.

use std::path::Path;

use serde_json::{Map, Value};

use crate::import::{HostApp, ImportedScope, is_same_folder};

/// The paths of the objects that hold servers.
#[derive(Debug)]
pub(super) struct Sections {
    all_projects: Vec<String>,
    one_project: Vec<String>,
}

impl Sections {
    pub(super) fn of(app: HostApp, root: &Map<String, Value>, project: &Path) -> Sections {
        let path = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
        let all_projects = match app {
            HostApp::ClaudeCode
            | HostApp::ClaudeDesktop
            | HostApp::Cursor
            | HostApp::Gemini
            | HostApp::Windsurf => path(&["mcpServers"]),
            HostApp::VsCode => path(&["servers"]),
            HostApp::Codex => path(&["mcp_servers"]),
            HostApp::Opencode if is_second_opencode_version(root) => path(&["mcp", "servers"]),
            HostApp::Opencode => path(&["mcp"]),
            HostApp::Zed => path(&["context_servers"]),
            HostApp::Goose => path(&["extensions"]),
        };
        let one_project = match app {
            HostApp::ClaudeCode => {
                let projects = root.get("projects").and_then(Value::as_object);
                let mut folders = projects.into_iter().flat_map(Map::keys);
                // The import reads the last one that matches.
                let folder = folders.rfind(|folder| is_same_folder(folder, project));
                folder.map_or(Vec::new(), |folder| path(&["projects", folder, "mcpServers"]))
            }
            HostApp::ClaudeDesktop
            | HostApp::Cursor
            | HostApp::VsCode
            | HostApp::Codex
            | HostApp::Gemini
            | HostApp::Opencode
            | HostApp::Zed
            | HostApp::Windsurf
            | HostApp::Goose => all_projects.clone(),
        };
        Sections { all_projects, one_project }
    }

    /// The keys that lead to the servers of a scope. A project's file holds them where a user's file does.
    pub(super) fn path(&self, scope: ImportedScope) -> &[String] {
        match scope {
            ImportedScope::User | ImportedScope::Project => &self.all_projects,
            ImportedScope::Local => &self.one_project,
        }
    }
}

fn is_second_opencode_version(root: &Map<String, Value>) -> bool {
    let servers = root.get("mcp").and_then(|mcp| mcp.get("servers"));
    servers.is_some_and(|servers| servers.get("type").is_none_or(Value::is_object))
}

/// Gemini starts only the servers in `mcp.allowed`, if that list exists.
pub(super) fn has_gemini_allow_list(root: &Map<String, Value>) -> bool {
    root.get("mcp").and_then(|mcp| mcp.get("allowed")).is_some_and(Value::is_array)
}

/// The object at a path.
pub(super) fn object_at<'r>(
    root: &'r mut Map<String, Value>,
    path: &[String],
) -> Option<&'r mut Map<String, Value>> {
    path.iter().try_fold(root, |object, key| object.get_mut(key)?.as_object_mut())
}

/// The object at a path. Creates what is missing.
pub(super) fn object_or_new<'r>(
    root: &'r mut Map<String, Value>,
    path: &[String],
) -> &'r mut Map<String, Value> {
    path.iter().fold(root, |object, key| {
        let inner = object.entry(key.clone()).or_insert(Value::Null);
        if !inner.is_object() {
            *inner = Value::Object(Map::new());
        }
        match inner {
            Value::Object(inner) => inner,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => unreachable!("it was made an object above"),
        }
    })
}

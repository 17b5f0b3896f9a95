//! Which calls edit files, and what they would write. Computing the text is left to the program, which knows the tools.

use std::path::PathBuf;

use serde_json::Value as Json;
use switchboard::config::entry::TransportKind;
use switchboard::pool::Tool;
use switchboard::{Host, Status};

/// The name that the workspace server gives itself.
const WORKSPACE_SERVER: &str = "switchboard-workspace";
/// The tools that edit files.
const EDIT_TOOLS: [&str; 3] = ["Edit", "MultiEdit", "Write"];
/// The tool that reads files.
pub(super) const READ_TOOL: &str = "Read";

/// A change of a file that a call would make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedEdit {
    /// The file, absolute.
    pub path: PathBuf,
    /// Its text; `None` where it does not exist yet.
    pub old_text: Option<String>,
    /// The text that the call would write.
    pub new_text: String,
}

/// Computes what the tools of the workspace server would write. Its methods block.
pub trait EditPlanner: Send + Sync {
    /// The change that a call would make; `None` where it would fail or is not allowed.
    fn plan(&self, tool: &str, arguments: &Json) -> Option<PlannedEdit>;

    /// The arguments with which the tool writes other contents.
    fn arguments_for(
        &self,
        tool: &str,
        arguments: &Json,
        edit: &PlannedEdit,
        contents: &str,
    ) -> Option<Json>;

    /// The text of a file now.
    fn read(&self, edit: &PlannedEdit) -> Option<String>;
}

/// Where a workspace server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkspaceKind {
    /// In this process, with the working folder as its first folder.
    InProcess,
    /// In a program on this machine, whose first folder is not known.
    Program,
}

/// Whether a call of a tool edits a file in a way that can be planned.
pub(super) fn is_edit(host: &Host, tool: &Tool, arguments: &Json) -> bool {
    if !EDIT_TOOLS.contains(&tool.name.as_str()) {
        return false;
    }
    let path = arguments["file_path"].as_str().map(PathBuf::from);
    match workspace_kind(host, &tool.server) {
        Some(WorkspaceKind::InProcess) => true,
        // A relative path could lead to another file here than there.
        Some(WorkspaceKind::Program) => path.is_some_and(|it| it.is_absolute()),
        None => false,
    }
}

/// The servers whose rules decide whether files may be read.
pub(super) fn workspace_servers(host: &Host) -> Vec<String> {
    let snapshot = host.snapshot();
    let names = snapshot.servers.keys();
    names.filter(|name| workspace_kind(host, name).is_some()).cloned().collect()
}

/// A remote server may call itself what it wants, so only servers on this machine count.
fn workspace_kind(host: &Host, server: &str) -> Option<WorkspaceKind> {
    let snapshot = host.snapshot();
    let mut embedded = snapshot.embedded_servers().filter(|it| it.name == server);
    let view = snapshot.servers.get(server).or_else(|| embedded.next());
    let view = view.filter(|it| it.status == Status::Connected)?;
    let names_itself_so = view.server_info.as_ref().is_some_and(|it| it.name == WORKSPACE_SERVER);
    match view.transport {
        TransportKind::Sdk if names_itself_so => Some(WorkspaceKind::InProcess),
        TransportKind::Stdio if names_itself_so => Some(WorkspaceKind::Program),
        TransportKind::Sdk
        | TransportKind::Stdio
        | TransportKind::Sse
        | TransportKind::Http
        | TransportKind::Ws
        | TransportKind::SseIde
        | TransportKind::WsIde
        | TransportKind::ConnectorProxy => None,
    }
}

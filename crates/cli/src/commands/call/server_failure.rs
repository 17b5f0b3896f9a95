//! Why a call finds no tool of this name, where the server of that name is the reason: a rule or the entry leaves the
//! tool out, the server may not start or is not connected, or its tools could not be listed.

use switchboard::Snapshot;
use switchboard::ToolCallError;
use switchboard::catalogue::{ListIssueKind, ListKind};
use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::config::permission;
use switchboard::connection::{ServerView, Status};
use switchboard::pool::{Pool, naming};
use switchboard::sources::loader::Configuration;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::lookup;
use crate::invocation::lookup::ToolOfServer;
use crate::outcome::Failure;
use crate::output::connection_text;
use crate::output::tool_output;
use crate::runtime::servers;

/// The failure of the server whose tool is unknown; `None` where the server has no such tool, or where no server of
/// that name is configured.
pub(in crate::commands) fn explain(
    invocation: &Invocation,
    configuration: &Configuration,
    error: &ToolCallError,
    (snapshot, pool): (&Snapshot, &Pool),
) -> Option<Failure> {
    let ToolCallError::UnknownTool { name, .. } = error else { return None };
    let found = lookup::server_of_tool(configuration, name)?;
    let ToolOfServer { server, tool } = found;
    let prefix = lookup::exposed_server_name(server);
    let sanitised = naming::sanitise(tool);
    if let Some(because) = permission::tool_hidden_by(&configuration.rules, &prefix, &sanitised) {
        let (tool, because) = (format!("mcp__{prefix}__{sanitised}"), because.to_string());
        let denied = ToolCallError::Denied { tool, because, definition_diff: None };
        return Some(tool_output::call_failure(&denied, snapshot));
    }
    if let Err(failure) = servers::startable_server(invocation, configuration, &server.name) {
        return Some(failure);
    }
    let view = snapshot.servers.get(&server.name)?;
    if view.status != Status::Connected {
        return Some(connection_text::not_connected(view));
    }
    filtered(server, tool)
        .or_else(|| quarantined(pool, &server.name, tool))
        .or_else(|| not_listed(view))
}

/// The failure if `tools` of the server's entry leaves the tool out.
fn filtered(server: &ResolvedServer, tool: &str) -> Option<Failure> {
    let filter = &server.entry.as_ref()?.common.tools;
    // The names in entries are the server's own, and the given name may be the exposed one.
    let names = |list: &[String]| list.iter().any(|it| it == tool || naming::sanitise(it) == tool);
    let key = match &filter.allow {
        Some(allowed) if !names(allowed) => "tools.allow",
        Some(_) | None if names(&filter.deny) => "tools.deny",
        Some(_) | None => return None,
    };
    let message = format!("`{tool}` of `{}` is left out by `{key}` of its entry", server.name);
    let hint = format!("`swb get {}` shows the entry and its file", server.name);
    Some(Failure::new(Exit::Policy, &message).hint(&hint))
}

/// The failure if the tool's definition cannot be used.
fn quarantined(pool: &Pool, server: &str, tool: &str) -> Option<Failure> {
    let is_it = |name: &str| name == tool || naming::sanitise(name) == tool;
    let found = pool.quarantined().iter().find(|it| it.server == server && is_it(&it.tool))?;
    let message = format!("`{tool}` of `{server}` cannot be used");
    let failure = Failure::new(Exit::NotFound, &message);
    let failure = Failure { causes: vec![printable(&found.reason.to_string())], ..failure };
    Some(failure.hint("the server has to correct the tool's definition"))
}

/// The failure if the server's tools could not be listed.
fn not_listed(view: &ServerView) -> Option<Failure> {
    let is_failed = |kind: &ListIssueKind| match kind {
        ListIssueKind::Failed(_) | ListIssueKind::CursorLoop | ListIssueKind::Unbounded => true,
        ListIssueKind::Skipped(_) | ListIssueKind::InvalidParamHeaders { .. } => false,
    };
    let mut issues = view.catalogue.issues();
    let issue = issues.find(|it| it.list == ListKind::Tools && is_failed(&it.kind))?;
    let message = format!("the tools of `{}` are not known", view.name);
    let failure = Failure::new(Exit::Connection, &message);
    let failure = Failure { causes: vec![printable(&issue.to_string())], ..failure };
    Some(failure.hint(&format!("`swb doctor {}` shows what is wrong", view.name)))
}

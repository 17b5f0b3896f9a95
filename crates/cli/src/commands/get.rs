//! `swb get`: prints every definition of a server in full, with secrets masked.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::{pluralize, printable};
use switchboard::config::merge::ResolvedServer;
use switchboard::sharing::share::protocol::ProgramStatus;
use switchboard::sharing::{ServerSharing, SharingReason, configured_sharing};

use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::entry_text;
use crate::output::json::json_output;
use crate::output::report;
use crate::output::server_json;
use crate::output::server_text;
use crate::output::style::paint;
use crate::runtime::interrupts::tokio_runtime;
use crate::runtime::sharing;

/// Arguments of `swb get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// The server's name
    pub name: String,
}

/// Runs the command.
pub fn run(arguments: &GetArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let definitions = invocation.definitions(&configuration, &arguments.name)?;
    let running = running_copies(invocation, &definitions)?;
    if invocation.wants_json() {
        let definitions: Vec<Json> =
            definitions.iter().map(|it| as_json(it, invocation, &running)).collect();
        return Ok(json_output(&json!({"name": arguments.name, "definitions": definitions})));
    }
    let mut done = CommandOutput::default();
    for (index, server) in definitions.iter().enumerate() {
        if index > 0 {
            done.text.push('\n');
        }
        done.text.push_str(&definition_text(server, invocation));
        done.text.push_str(&sharing_text(server, invocation, &running));
        done.notes.push_str(&report::problems(&invocation.env, server.problems.iter()));
    }
    Ok(done)
}

/// What the shared host runs for these definitions. It is asked, not started.
fn running_copies(
    invocation: &Invocation,
    definitions: &[&ResolvedServer],
) -> Result<Vec<ProgramStatus>, Failure> {
    let is_own = |program: &ProgramStatus| {
        definitions.iter().any(|it| {
            it.name == program.server
                && it.fingerprint.as_ref().is_some_and(|it| it.as_str() == program.fingerprint)
        })
    };
    let status = tokio_runtime()?.block_on(sharing::client(invocation).status());
    let programs = status.map(|(_, status)| status.programs).unwrap_or_default();
    Ok(programs.into_iter().filter(is_own).collect())
}

fn sharing_of(server: &ResolvedServer, invocation: &Invocation) -> Option<ServerSharing> {
    let (spec, fingerprint) = (server.spec.as_ref()?, server.fingerprint.as_ref()?);
    let settings = &invocation.providers().sharing;
    Some(configured_sharing(spec, fingerprint, settings, &invocation.env.paths))
}

/// The sharing class, why the server has it, and the copies that run.
fn sharing_text(
    server: &ResolvedServer,
    invocation: &Invocation,
    running: &[ProgramStatus],
) -> String {
    let Some(sharing) = sharing_of(server, invocation).filter(|_| server.is_ready()) else {
        return String::new();
    };
    // Only programs can be shared.
    if matches!(sharing.reason, SharingReason::Remote | SharingReason::InProcess) {
        return String::new();
    }
    let mut details = entry_text::DetailsText::default();
    details.line("Sharing", &format!("{}: {}", sharing.class, printable(&sharing.reason_text())));
    for copy in running.iter().filter(|it| it.server == server.name) {
        let pid = copy.pid.map_or_else(|| "-".to_owned(), |it| it.to_string());
        let clients = pluralize(copy.clients.len(), "client", "clients");
        let starter = &copy.started_by;
        let folder = invocation.display_path(&starter.folder);
        details.line(
            "",
            &format!(
                "process {pid} runs for {clients}, with the environment of `{}` (process {}) in {folder}",
                printable(&starter.command),
                starter.pid
            ),
        );
    }
    details.text
}

fn sharing_json(
    server: &ResolvedServer,
    invocation: &Invocation,
    running: &[ProgramStatus],
) -> Option<Json> {
    let sharing = sharing_of(server, invocation)?;
    let copy = |it: &ProgramStatus| {
        json!({
            "pid": it.pid,
            "clients": it.clients.len(),
            "folder": it.folder,
            "startedBy": {
                "pid": it.started_by.pid,
                "command": it.started_by.command,
                "folder": it.started_by.folder,
            },
        })
    };
    let copies: Vec<Json> =
        running.iter().filter(|it| it.server == server.name).map(copy).collect();
    Some(json!({
        "class": sharing.class.as_str(),
        "reason": sharing.reason_text(),
        "running": copies,
    }))
}

fn as_json(server: &ResolvedServer, invocation: &Invocation, running: &[ProgramStatus]) -> Json {
    let mut json = server_json::server_json(&invocation.env, server, None);
    json["entry"] = server_json::entry_json(server).into();
    json["sharing"] = sharing_json(server, invocation, running).into();
    let approvable = server.approvable();
    json["fingerprint"] = approvable.as_ref().map(|it| it.fingerprint.as_str()).into();
    json
}

/// One definition in full.
pub fn definition_text(server: &ResolvedServer, invocation: &Invocation) -> String {
    let mut details = entry_text::DetailsText::new(&printable(&server.name));
    let state = server_text::state_text(&server.state);
    details.line("State", &paint(server_text::state_style(&server.state), state));
    if let Some(reason) = server_text::state_reason(&invocation.env, server) {
        details.line("", &reason);
    }
    details.line("Scope", server.scope().id());
    details.line("From", &invocation.display_origin(&server.origin));
    entry_text::entry_lines(&invocation.env, &mut details, server);
    if server.is_trusted() {
        details.line("Trust", "its tools run without asking");
    } else if server.entry.as_ref().is_some_and(|entry| entry.common.trust) {
        details.line("Trust", "requested: once approved, its tools run without asking");
    }
    if let Some(plugin) = &server.plugin {
        details.line("Plugin", &printable(&plugin.to_string()));
    }
    if let Some(approvable) = server.approvable() {
        details.line("Hash", approvable.fingerprint.as_str());
    }
    if let Some(scope) = WritableScope::from_scope(server.scope()) {
        let scope = scope.scope().id();
        details.line("Remove", &format!("swb remove {} --scope {scope}", printable(&server.name)));
    }
    details.text
}

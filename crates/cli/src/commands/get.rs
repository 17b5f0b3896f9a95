//! `swb get`: prints every definition of a server in full, with secrets masked.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;

use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::entry_text;
use crate::output::json::json_output;
use crate::output::report;
use crate::output::server_json;
use crate::output::server_text;
use crate::output::style::paint;

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
    if invocation.wants_json() {
        let definitions: Vec<Json> = definitions.iter().map(|it| as_json(it, invocation)).collect();
        return Ok(json_output(&json!({"name": arguments.name, "definitions": definitions})));
    }
    let mut done = CommandOutput::default();
    for (index, server) in definitions.iter().enumerate() {
        if index > 0 {
            done.text.push('\n');
        }
        done.text.push_str(&definition_text(server, invocation));
        done.notes.push_str(&report::problems(&invocation.env, server.problems.iter()));
    }
    Ok(done)
}

fn as_json(server: &ResolvedServer, invocation: &Invocation) -> Json {
    let mut json = server_json::server_json(&invocation.env, server, None);
    json["entry"] = server_json::entry_json(server).into();
    json["fingerprint"] = server.fingerprint.as_ref().map(|it| it.as_str()).into();
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
    if let Some(fingerprint) = &server.fingerprint {
        details.line("Hash", fingerprint.as_str());
    }
    if let Some(scope) = WritableScope::from_scope(server.scope()) {
        let scope = scope.scope().id();
        details.line("Remove", &format!("swb remove {} --scope {scope}", printable(&server.name)));
    }
    details.text
}

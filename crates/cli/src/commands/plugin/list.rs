//! `swb plugin list`: every plugin that is installed or named somewhere, and its state.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::config::plugin::PluginId;
use switchboard::sources::loader::Configuration;
use switchboard::sources::plugins::{InactiveReason, LoadedPlugin, PluginProvenance, PluginState};
use switchboard::sources::project_root;

use super::{approval, files};
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::server_text;
use crate::output::table::{Cell, Truncate, render};

/// Arguments of `swb plugin list`.
#[derive(Debug, Args)]
pub struct ListPluginsArgs {
    /// List what marketplaces offer and is not installed
    #[arg(long)]
    pub available: bool,
}

/// Runs the command.
pub(super) fn run(
    arguments: &ListPluginsArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    let state = files::state(invocation)?;
    match arguments.available {
        true => Ok(available(&state, invocation)),
        false => Ok(list(&configuration, &state, invocation)),
    }
}

pub(super) fn list(
    configuration: &Configuration,
    state: &PluginState,
    invocation: &Invocation,
) -> CommandOutput {
    let mut rows = Vec::new();
    let mut json = Vec::new();
    let mut notes = String::new();
    for plugin in &configuration.plugins {
        let servers = approval::servers(&plugin.id, configuration);
        let version = version(&plugin.id, Some(plugin), state, invocation);
        rows.push(vec![
            Cell::plain(printable(&plugin.id.to_string())),
            Cell::plain(printable(&version)),
            Cell::plain("in use"),
            Cell::plain(provenance_text(&plugin.provenance)),
            Cell::plain(servers_summary(&servers)),
        ]);
        json.push(plugin_json(plugin, &version, &servers));
        notes.push_str(&approval::pending_note(&plugin.id, configuration));
    }
    for plugin in &configuration.inactive_plugins {
        let (word, reason) = reason_words(&plugin.id, &plugin.reason, invocation);
        let version = version(&plugin.id, None, state, invocation);
        rows.push(vec![
            Cell::plain(printable(&plugin.id.to_string())),
            Cell::plain(printable(&version)),
            Cell::plain(word),
            Cell::plain("-"),
            Cell::plain("-"),
        ]);
        json.push(json!({
            "id": plugin.id.to_string(),
            "version": version,
            "state": word,
            "reason": reason,
            "servers": [],
        }));
        if !matches!(plugin.reason, InactiveReason::Disabled(_) | InactiveReason::OtherProject) {
            notes.push_str(&format!("note: {}: {reason}\n", printable(&plugin.id.to_string())));
        }
    }
    if invocation.wants_json() {
        return json_output(&json!({ "plugins": json }));
    }
    if rows.is_empty() {
        let hint = match state.known.0.is_empty() {
            true => "swb plugin marketplace add SOURCE",
            false => "swb plugin list --available",
        };
        return CommandOutput::text(format!("No plugin is installed. Find one: {hint}\n"));
    }
    let header = ["PLUGIN", "VERSION", "STATE", "ENABLED BY", "SERVERS"];
    let table = render(&header, &rows, invocation.env.terminal.width, &[Truncate::End(4)]);
    CommandOutput::text(table).note(notes)
}

fn available(state: &PluginState, invocation: &Invocation) -> CommandOutput {
    let mut rows = Vec::new();
    let mut json = Vec::new();
    for name in state.known.0.keys() {
        let Ok(market) = files::open(state, name) else { continue };
        for entry in &market.content.plugins {
            let Ok(id) = PluginId::new(&entry.name, name) else { continue };
            if state.installed.0.contains_key(&id) {
                continue;
            }
            let about = entry.about.description.clone().unwrap_or_default();
            rows.push(vec![
                Cell::plain(printable(&id.to_string())),
                Cell::plain(printable(entry.about.version.as_deref().unwrap_or("-"))),
                Cell::plain(entry.source.kind()),
                Cell::plain(printable(&about)),
            ]);
            json.push(json!({
                "id": id.to_string(),
                "version": entry.about.version,
                "description": entry.about.description,
                "source": entry.source.describe(),
            }));
        }
    }
    if invocation.wants_json() {
        return json_output(&json!({ "available": json }));
    }
    if rows.is_empty() {
        let text = "No marketplace offers a plugin that is not installed.\n";
        return CommandOutput::text(text);
    }
    let header = ["PLUGIN", "VERSION", "SOURCE", "DESCRIPTION"];
    CommandOutput::text(render(&header, &rows, invocation.env.terminal.width, &[Truncate::End(3)]))
}

/// The version of a plugin: as installed, or as its manifest says.
fn version(
    id: &PluginId,
    loaded: Option<&LoadedPlugin>,
    state: &PluginState,
    invocation: &Invocation,
) -> String {
    let root = project_root(&invocation.env.working_folder);
    let current = loaded.and_then(|it| it.manifest.version.clone());
    let installed = || state.installed.record(id, &root).map(|it| it.version.clone());
    current.or_else(installed).unwrap_or_else(|| "-".to_owned())
}

pub(super) fn provenance_text(provenance: &PluginProvenance) -> &'static str {
    match provenance {
        PluginProvenance::Session => "--plugin-dir",
        PluginProvenance::Folder => "folder",
        PluginProvenance::User => "you",
        PluginProvenance::Project => "the project",
    }
}

fn servers_summary(servers: &[&ResolvedServer]) -> String {
    let one = |server: &&ResolvedServer| {
        let name = printable(&server.name);
        match matches!(server.state, ServerState::Ready) {
            true => name,
            false => format!("{name} ({})", server_text::state_text(&server.state)),
        }
    };
    match servers {
        [] => "none".to_owned(),
        servers => servers.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// Servers as JSON.
pub(super) fn servers_json(servers: &[&ResolvedServer]) -> Vec<Json> {
    servers
        .iter()
        .map(|server| {
            json!({
                "name": server.name,
                "state": server_text::state_id(&server.state),
                "target": server_text::target(server),
            })
        })
        .collect()
}

pub(super) fn plugin_json(
    plugin: &LoadedPlugin,
    version: &str,
    servers: &[&ResolvedServer],
) -> Json {
    let channels: Vec<&str> = plugin.channels.iter().map(|it| it.server.as_str()).collect();
    json!({
        "id": plugin.id.to_string(),
        "name": plugin.id.plugin,
        "marketplace": plugin.id.marketplace,
        "version": version,
        "state": "in use",
        "enabledBy": provenance_text(&plugin.provenance),
        "root": plugin.root.to_string_lossy(),
        "description": plugin.manifest.description,
        "channels": channels,
        "otherComponents": plugin.manifest.other_components,
        "servers": servers_json(servers),
    })
}

/// The state of a plugin that does not count, and why.
fn reason_words(
    id: &PluginId,
    reason: &InactiveReason,
    invocation: &Invocation,
) -> (&'static str, String) {
    match reason {
        InactiveReason::Disabled(Some(origin)) => {
            ("disabled", format!("disabled in {}", invocation.env.display_origin(origin)))
        }
        InactiveReason::Disabled(None) => {
            ("disabled", format!("not enabled: swb plugin enable {id}"))
        }
        InactiveReason::NotInstalled(origin) => (
            "not installed",
            format!(
                "{} enables it: swb plugin install {id}",
                invocation.env.display_origin(origin)
            ),
        ),
        InactiveReason::OtherProject => {
            ("elsewhere", "it is installed for another project".to_owned())
        }
        InactiveReason::Refused(refusal) => ("refused", files::refusal_text(refusal, invocation)),
        InactiveReason::Failed(problem) => ("failed", printable(&problem.to_string())),
    }
}

/// Why a plugin does not count.
pub(super) fn inactive_reason(
    id: &PluginId,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Option<String> {
    let inactive = configuration.inactive_plugins.iter().find(|it| it.id == *id)?;
    Some(reason_words(id, &inactive.reason, invocation).1)
}

/// The same as a note.
pub(super) fn inactive_note(
    id: &PluginId,
    configuration: &Configuration,
    invocation: &Invocation,
) -> String {
    match inactive_reason(id, configuration, invocation) {
        Some(reason) => format!("note: not in use: {reason}\n"),
        None => String::new(),
    }
}

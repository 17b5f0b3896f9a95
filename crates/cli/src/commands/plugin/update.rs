//! `swb plugin update`: fetches marketplaces and installed plugins again. A server whose definition changed needs approval
//! again.

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::merge::{PendingReason, ServerState};
use switchboard::config::plugin::{InstallRecord, PluginId};
use switchboard::sources::loader::Configuration;

use super::approval::{self, Consent};
use super::install::{self, SwitchValue, set_switch};
use super::{files, list, marketplace, options, uninstall};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Arguments of `swb plugin update`.
#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// The plugin; without one, every installed plugin
    #[arg(value_name = "PLUGIN@MARKETPLACE")]
    pub plugin: Option<String>,
    /// Also approve servers whose definitions changed, exactly as they are defined now
    #[arg(long)]
    pub yes: bool,
}

/// What an update did.
struct UpdatedPlugin {
    before: PluginId,
    id: PluginId,
    old: String,
    new: String,
}

/// Runs the command.
pub(super) fn run(
    arguments: &UpdateArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let state = files::state(invocation)?;
    let chosen: Vec<PluginId> = match &arguments.plugin {
        None => state.installed.0.keys().cloned().collect(),
        Some(text) => {
            let id = files::plugin_id(text, state.installed.0.keys())?;
            if !state.installed.0.contains_key(&id) {
                return Err(Failure::new(Exit::NotFound, &format!("`{id}` is not installed"))
                    .hint(&format!("swb plugin install {id}")));
            }
            vec![id]
        }
    };
    let mut markets: Vec<&str> = chosen.iter().filter_map(|it| it.marketplace.as_deref()).collect();
    markets.dedup();
    for name in markets {
        let known = files::known(&state, name)?;
        files::expect_allowed(&configuration.marketplace_policy, &known.source, invocation)?;
        marketplace::refresh(name, known, invocation)?;
    }
    let mut updated = Vec::new();
    for id in &chosen {
        let records = state.installed.0.get(id).cloned().unwrap_or_default();
        updated.push(update(id, &records, &configuration, invocation)?);
    }
    let consent = Consent::from_flag(arguments.yes);
    for plugin in &updated {
        approval::ask_for(&plugin.id, consent, &invocation.load_without_demo()?, invocation)?;
    }
    report(&updated, invocation)
}

fn update(
    id: &PluginId,
    records: &[InstallRecord],
    configuration: &Configuration,
    invocation: &Invocation,
) -> Result<UpdatedPlugin, Failure> {
    let state = files::state(invocation)?;
    let market = files::open(&state, id.marketplace.as_deref().unwrap_or_default())?;
    let current = install::current_id(id, &market)?;
    let entry = install::find_entry(&current, &market)?;
    let fetched = install::fetch(&current, &market, entry, invocation)?;
    for record in records {
        let scope = files::writable_scope(record);
        if files::install_scope(invocation, scope) != record.scope && current != *id {
            let message =
                format!("`{id}` is called `{current}` now, and is installed for another project");
            return Err(
                Failure::new(Exit::Conflict, &message).hint("run the command in that project")
            );
        }
    }
    // From here on, nothing is refused any more.
    let prepared = fetched.publish(&current, invocation)?;
    if current == *id {
        // All installations have the version of one of them.
        if let Some(first) = records.first() {
            install::record_version(id, first, entry, &prepared, invocation)?;
        }
    } else {
        for record in records {
            let scope = files::writable_scope(record);
            install::record(&current, scope, entry, &prepared, invocation)?;
        }
        follow_switches(id, &current, records, invocation)?;
        options::rename(id, &current, invocation)?;
        uninstall::everywhere(id, uninstall::PluginData::Kept, configuration, invocation)?;
    }
    install::prune(&current, invocation)?;
    let old = records.first().map(|it| it.version.clone()).unwrap_or_default();
    Ok(UpdatedPlugin { before: id.clone(), id: current, old, new: prepared.version })
}

/// Gives the new name of a plugin what settings say about the old one, in each scope that the user writes to. A plugin that is
/// disabled stays disabled.
fn follow_switches(
    old: &PluginId,
    new: &PluginId,
    records: &[InstallRecord],
    invocation: &Invocation,
) -> Result<(), Failure> {
    let mut scopes = vec![WritableScope::Local, WritableScope::User];
    if records.iter().any(|it| files::writable_scope(it) == WritableScope::Project) {
        scopes.push(WritableScope::Project);
    }
    for scope in scopes {
        let is_set = options::switch(new, scope, invocation).is_some();
        let value = match options::switch(old, scope, invocation) {
            Some(value) if !is_set => value,
            Some(_) | None => continue,
        };
        let value = if value { SwitchValue::On } else { SwitchValue::Off };
        set_switch(new, scope, value, invocation)?;
    }
    Ok(())
}

fn report(updated: &[UpdatedPlugin], invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    if invocation.wants_json() {
        let plugins: Vec<serde_json::Value> = updated
            .iter()
            .map(|it| {
                json!({
                    "id": it.id.to_string(),
                    "renamedFrom": (it.before != it.id).then(|| it.before.to_string()),
                    "from": it.old,
                    "to": it.new,
                    "servers": list::servers_json(&approval::servers(&it.id, &configuration)),
                })
            })
            .collect();
        return Ok(json_output(&json!({ "updated": plugins })));
    }
    if updated.is_empty() {
        return Ok(CommandOutput::text("No plugin is installed.\n"));
    }
    let mut text = String::new();
    let mut notes = String::new();
    for plugin in updated {
        let id = printable(&plugin.id.to_string());
        if plugin.before != plugin.id {
            let before = printable(&plugin.before.to_string());
            text.push_str(&format!("{before} is called {id} now\n"));
        }
        text.push_str(&match plugin.old == plugin.new {
            true => format!("{id} is {} as before\n", printable(&plugin.new)),
            false => format!(
                "Updated {id} from {} to {}\n",
                printable(&plugin.old),
                printable(&plugin.new)
            ),
        });
        let servers = approval::servers(&plugin.id, &configuration);
        let is_changed = |state: &ServerState| {
            matches!(
                state,
                ServerState::Pending(PendingReason::Changed | PendingReason::ProgramChanged)
            )
        };
        for server in servers.iter().filter(|it| is_changed(&it.state)) {
            let name = printable(&server.name);
            text.push_str(&format!("  {name} changed since you approved it\n"));
        }
        notes.push_str(&approval::pending_note(&plugin.id, &configuration));
        notes.push_str(&list::inactive_note(&plugin.id, &configuration, invocation));
    }
    Ok(CommandOutput::text(text).note(notes))
}

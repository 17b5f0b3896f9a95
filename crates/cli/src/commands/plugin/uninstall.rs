//! `swb plugin uninstall`: removes a plugin from a scope, and with its last scope its files, secrets, data and approvals.

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::edit::Edit;
use switchboard::config::plugin::{InstallRecord, PluginId};
use switchboard::sources::loader::Configuration;
use switchboard::sources::{project_approvals, secrets};

use super::{fetching, files, options};
use crate::commands::bundle::source as bundle_source;
use crate::commands::bundle::stored_secrets::stored_secrets;
use crate::commands::bundle::uninstall::is_used;
use crate::edit::file;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Arguments of `swb plugin uninstall`.
#[derive(Debug, Args)]
pub struct UninstallPluginArgs {
    /// The plugin
    #[arg(value_name = "PLUGIN@MARKETPLACE")]
    pub plugin: String,
    /// The scope to remove it from, if it is installed in several
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
    /// Keep the plugin's data and the values of its options
    #[arg(long)]
    pub keep_data: bool,
}

/// What becomes of the data of a plugin, and of the values of its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PluginData {
    Kept,
    Deleted,
}

/// Runs the command.
pub(super) fn run(
    arguments: &UninstallPluginArgs,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let state = files::state(invocation)?;
    let id = files::plugin_id(&arguments.plugin, state.installed.0.keys())?;
    let Some(records) = state.installed.0.get(&id) else {
        return Err(Failure::new(Exit::NotFound, &format!("`{id}` is not installed"))
            .hint("swb plugin list"));
    };
    let record = chosen(&id, records, arguments.scope, invocation)?;
    let scope = files::writable_scope(record);
    let data = match arguments.keep_data {
        true => PluginData::Kept,
        false => PluginData::Deleted,
    };
    let is_last = records.len() == 1;
    let notes = match is_last {
        true => everywhere(&id, data, &configuration, invocation)?,
        false => {
            let gone = record.scope.clone();
            remove_switch(&id, scope, invocation)?;
            files::change_installed(invocation, |installed| {
                if let Some(records) = installed.0.get_mut(&id) {
                    records.retain(|it| it.scope != gone);
                }
            })?;
            String::new()
        }
    };
    if invocation.wants_json() {
        return Ok(json_output(&json!({
            "uninstalled": id.to_string(),
            "scope": scope.scope().id(),
            "filesRemoved": is_last,
            "dataKept": data == PluginData::Kept,
        }))
        .note(notes));
    }
    let shown = printable(&id.to_string());
    Ok(CommandOutput::text(match (is_last, data) {
        (true, PluginData::Deleted) => format!("Uninstalled {shown} with its settings and data\n"),
        (true, PluginData::Kept) => format!("Uninstalled {shown}; its settings and data stay\n"),
        (false, _) => format!("Removed {shown} from the {} scope\n", scope.scope()),
    })
    .note(notes))
}

/// The installation that a user means.
fn chosen<'r>(
    id: &PluginId,
    records: &'r [InstallRecord],
    scope: Option<WritableScope>,
    invocation: &Invocation,
) -> Result<&'r InstallRecord, Failure> {
    if let Some(scope) = scope {
        let wanted = files::install_scope(invocation, scope);
        return records.iter().find(|it| it.scope == wanted).ok_or_else(|| {
            let message = format!("`{id}` is not installed in the {} scope", scope.scope());
            Failure::new(Exit::NotFound, &message)
        });
    }
    match records {
        [only] => Ok(only),
        _ => {
            let scopes: Vec<&str> = records.iter().map(|it| it.scope.id()).collect();
            let message = format!("`{id}` is installed in several scopes: {}", scopes.join(", "));
            Err(Failure::new(Exit::Conflict, &message).hint("choose one: add --scope SCOPE"))
        }
    }
}

/// Removes a plugin from every scope, with everything that belongs to it. Returns notes.
pub(super) fn everywhere(
    id: &PluginId,
    data: PluginData,
    configuration: &Configuration,
    invocation: &Invocation,
) -> Result<String, Failure> {
    let state = files::state(invocation)?;
    let records = state.installed.0.get(id).cloned().unwrap_or_default();
    for scope in [WritableScope::Local, WritableScope::User] {
        remove_switch(id, scope, invocation)?;
    }
    if records.iter().any(|it| files::writable_scope(it) == WritableScope::Project) {
        remove_switch(id, WritableScope::Project, invocation)?;
    }
    let mut notes = String::new();
    if data == PluginData::Deleted {
        for (owner, values) in options::remove(id, invocation)? {
            for reference in stored_secrets(&values, (WritableScope::User, &owner), invocation) {
                if let Err(error) = secrets::delete_secret(&reference, &invocation.env.home) {
                    let error = printable(&error.to_string());
                    notes.push_str(&format!("warning: a secret was not deleted: {error}\n"));
                }
            }
        }
    }
    files::change_installed(invocation, |installed| {
        installed.0.remove(id);
    })?;
    project_approvals::forget_plugin(&invocation.env.paths, id)?;
    let store = files::store(invocation);
    store.remove(&store.versions(id)).map_err(fetching::failure)?;
    if data == PluginData::Deleted {
        let folder = invocation.env.paths.plugin_data().join(id.data_folder());
        store.remove(&folder).map_err(fetching::failure)?;
    }
    let bundles = bundle_source::store(invocation, None)?;
    for hash in records.iter().flat_map(|it| it.bundles.values()) {
        let servers = configuration.effective.servers.iter();
        let elsewhere = servers
            .filter(|it| it.plugin.as_ref() != Some(id))
            .any(|it| it.bundle.as_ref().is_some_and(|it| it.hash == *hash));
        if !elsewhere && !is_used(hash, None, invocation) {
            // Another process may have removed it meanwhile.
            let _gone = bundles.remove(hash);
        }
    }
    Ok(notes)
}

/// Removes a plugin from `enabledPlugins` of a scope, if it is there.
pub(super) fn remove_switch(
    id: &PluginId,
    scope: WritableScope,
    invocation: &Invocation,
) -> Result<(), Failure> {
    let path = invocation.scope_file(scope);
    let is_named = std::fs::read_to_string(&path).is_ok_and(|text| text.contains(&id.to_string()));
    if is_named {
        let path_of_keys = vec!["enabledPlugins".to_owned()];
        let edit = Edit::RemoveMember { path: path_of_keys, key: id.to_string() };
        file::edit_file(invocation, scope, &path, &[edit])?;
    }
    Ok(())
}

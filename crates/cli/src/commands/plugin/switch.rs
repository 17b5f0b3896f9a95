//! `swb plugin enable` and `swb plugin disable`: write `enabledPlugins` of a scope.

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::plugin::PluginId;
use switchboard::sources::loader::Configuration;
use switchboard::sources::plugins::{InactiveReason, PluginProvenance};
use switchboard::sources::project_root;

use super::install::{SwitchValue, set_switch};
use super::{approval, files, list};
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Arguments of `swb plugin enable` and `swb plugin disable`.
#[derive(Debug, Args)]
pub struct SwitchArgs {
    /// The plugin
    #[arg(value_name = "PLUGIN@MARKETPLACE")]
    pub plugin: String,
    /// The scope to write to [default: where it is installed]
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
}

/// Which way a plugin is switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Toggle {
    Enable,
    Disable,
}

/// Runs the command.
pub(super) fn run(
    arguments: &SwitchArgs,
    toggle: Toggle,
    invocation: &Invocation,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load_without_demo()?;
    invocation.expect_unlocked(&configuration)?;
    let state = files::state(invocation)?;
    let inactive = configuration.inactive_plugins.iter().map(|it| &it.id);
    let known: Vec<&PluginId> = state.installed.0.keys().chain(inactive).collect();
    let id = files::plugin_id(&arguments.plugin, known.iter().copied())?;
    if !known.contains(&&id) {
        let message = format!("`{id}` is not installed");
        return Err(Failure::new(crate::exit::Exit::NotFound, &message)
            .hint(&format!("swb plugin install {id}")));
    }
    let root = project_root(&invocation.env.working_folder);
    let installed = state.installed.record(&id, &root).map(files::writable_scope);
    let scope = arguments.scope.unwrap_or_else(|| {
        match is_of_project(&id, &configuration) && toggle == Toggle::Disable {
            // The project's file is not the user's to change for everyone.
            true => WritableScope::Local,
            false => installed.unwrap_or(WritableScope::User),
        }
    });
    let value = match toggle {
        Toggle::Enable => SwitchValue::On,
        Toggle::Disable => SwitchValue::Off,
    };
    let path = set_switch(&id, scope, value, invocation)?;
    let after = invocation.load_without_demo()?;
    let is_on = after.plugins.iter().any(|it| it.id == id);
    let place = invocation.display_path(&path);
    if invocation.wants_json() {
        return Ok(json_output(&json!({
            "plugin": id.to_string(),
            "scope": scope.scope().id(),
            "file": place,
            "inUse": is_on,
            "servers": list::servers_json(&approval::servers(&id, &after)),
        })));
    }
    let shown = printable(&id.to_string());
    let text = match (toggle, is_on) {
        (Toggle::Enable, true) => format!("{shown} is enabled in {place}\n"),
        (Toggle::Disable, false) => format!("{shown} is disabled in {place}\n"),
        (Toggle::Enable, false) => format!("{shown} is enabled in {place}, but not in use\n"),
        (Toggle::Disable, true) => {
            format!("{shown} is disabled in {place}, but a nearer scope enables it\n")
        }
    };
    let note = match toggle {
        Toggle::Enable => approval::pending_note(&id, &after),
        Toggle::Disable => String::new(),
    };
    Ok(CommandOutput::text(text).note(note).note(match toggle {
        Toggle::Enable => list::inactive_note(&id, &after, invocation),
        Toggle::Disable => String::new(),
    }))
}

/// Does only a file of the project enable it?
fn is_of_project(id: &PluginId, configuration: &Configuration) -> bool {
    let loaded = configuration.plugins.iter();
    let by_project = |it: &switchboard::sources::plugins::LoadedPlugin| {
        it.provenance == PluginProvenance::Project
    };
    loaded.clone().any(|it| it.id == *id && by_project(it))
        || configuration
            .inactive_plugins
            .iter()
            .any(|it| it.id == *id && matches!(it.reason, InactiveReason::NotInstalled(_)))
}

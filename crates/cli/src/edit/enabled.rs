//! Enables and disables servers: in the entry where the user owns it, otherwise in the user's settings.

use std::path::PathBuf;

use serde_json::json;
use switchboard::config::display::printable;
use switchboard::config::edit::Edit;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::sources::loader::Configuration;

use crate::edit::file;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Which way a server is switched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toggle {
    /// The server may start.
    Enable,
    /// The server may not start.
    Disable,
}

const DISABLED_SERVERS_KEY: &str = "disabledMcpServers";

/// Enables or disables a server. `scope` says which settings file to write, where the user chose one.
pub fn set_enabled(
    invocation: &Invocation,
    name: &str,
    scope: Option<WritableScope>,
    toggle: Toggle,
) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    invocation.expect_unlocked(&configuration)?;
    let definitions = invocation.definitions(&configuration, name)?;
    let server = definitions[0];
    let changes = match toggle {
        Toggle::Disable => vec![disable_edit(invocation, server, scope)],
        Toggle::Enable => enable_edits(invocation, &configuration, server),
    };
    let mut paths = Vec::new();
    for PlannedEdit { scope, file, edit } in changes {
        file::edit_file(invocation, scope, &file, &[edit])?;
        let place = invocation.display_path(&file);
        if !paths.contains(&place) {
            paths.push(place);
        }
    }
    let after = invocation.load()?;
    Ok(toggle_output(invocation, &after, name, toggle, &paths))
}

/// One edit of one file.
struct PlannedEdit {
    scope: WritableScope,
    file: PathBuf,
    edit: Edit,
}

/// Disables a server: in its entry where the user owns it, otherwise in the user's `disabledMcpServers`.
fn disable_edit(
    invocation: &Invocation,
    server: &ResolvedServer,
    requested: Option<WritableScope>,
) -> PlannedEdit {
    let name = server.name.clone();
    let own = invocation.editable_file(server).filter(|(own, _)| match requested {
        Some(scope) => *own == scope,
        None => *own != WritableScope::Project,
    });
    match own {
        Some((scope, file)) => {
            let edit = Edit::SetKey { name, key: "disabled".to_owned(), value: Some(true.into()) };
            PlannedEdit { scope, file, edit }
        }
        None => {
            let scope = requested.filter(|it| *it != WritableScope::Project);
            let scope = scope.unwrap_or(WritableScope::Local);
            let edit = Edit::AddToList { key: DISABLED_SERVERS_KEY.to_owned(), text: name };
            PlannedEdit { scope, file: invocation.scope_file(scope), edit }
        }
    }
}

/// Every edit that is needed to enable a server.
fn enable_edits(
    invocation: &Invocation,
    configuration: &Configuration,
    server: &ResolvedServer,
) -> Vec<PlannedEdit> {
    let mut changes = Vec::new();
    if let Some((scope, file)) = invocation.editable_file(server)
        && server.entry.as_ref().is_some_and(|entry| entry.disabled)
    {
        let (name, key) = (server.name.clone(), "disabled".to_owned());
        changes.push(PlannedEdit { scope, file, edit: Edit::SetKey { name, key, value: None } });
    }
    for it in configuration.disabled.iter().filter(|it| it.name == server.name) {
        if let (Some(scope), Some(file)) =
            (WritableScope::from_scope(it.origin.scope()), it.origin.source.path())
        {
            let edit = Edit::RemoveFromList {
                key: DISABLED_SERVERS_KEY.to_owned(),
                text: server.name.clone(),
            };
            changes.push(PlannedEdit { scope, file: file.to_owned(), edit });
        }
    }
    changes
}

fn toggle_output(
    invocation: &Invocation,
    after: &Configuration,
    name: &str,
    toggle: Toggle,
    paths: &[String],
) -> CommandOutput {
    let state = after.effective.winner(name).map(|server| &server.state);
    let is_off = matches!(state, Some(ServerState::Disabled(_)));
    if invocation.wants_json() {
        let word = state.map(crate::output::server_text::state_id);
        return json_output(&json!({"name": name, "state": word, "changed": paths}));
    }
    let name = printable(name);
    let place = paths.join(" and ");
    CommandOutput::text(match (toggle, paths.is_empty(), is_off) {
        (Toggle::Disable, _, _) => format!("`{name}` is disabled in {place}\n"),
        (Toggle::Enable, true, false) => format!("`{name}` is not disabled\n"),
        (Toggle::Enable, false, false) => {
            let state = state.map(crate::output::server_text::state_text).unwrap_or_default();
            format!("`{name}` is enabled again in {place}: {state}\n")
        }
        (Toggle::Enable, _, true) => {
            format!("`{name}` is still disabled where it is defined\n")
        }
    })
}

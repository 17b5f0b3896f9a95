//! `swb paths`: prints the paths of all files.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value as Json};
use switchboard::sources::project_root;

use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::table;
use crate::output::table::{Cell, Truncate};

/// Arguments of `swb paths`: none.
#[derive(Debug, Args)]
pub struct PathsArgs {}

/// Runs the command.
pub fn run(_: &PathsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let rows = rows(invocation);
    if invocation.wants_json() {
        let json: Map<String, Json> = rows
            .iter()
            .map(|(key, _, path)| ((*key).to_owned(), path.to_string_lossy().into()))
            .collect();
        return Ok(json_output(&Json::Object(json)));
    }
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .map(|(_, about, path)| {
            let state = if path.symlink_metadata().is_ok() { "exists" } else { "missing" };
            vec![
                Cell::plain(*about),
                Cell::plain(invocation.display_path(path)),
                Cell::plain(state),
            ]
        })
        .collect();
    let width = invocation.env.terminal.width;
    Ok(CommandOutput::text(table::render(
        &["WHAT", "WHERE", "STATE"],
        &cells,
        width,
        &[Truncate::Start(1)],
    )))
}

fn rows(invocation: &Invocation) -> Vec<(&'static str, &'static str, PathBuf)> {
    let paths = &invocation.env.paths;
    vec![
        ("projectRoot", "project root", project_root(&invocation.env.working_folder)),
        ("projectServers", "project servers", invocation.scope_file(WritableScope::Project)),
        ("localSettings", "local settings", invocation.scope_file(WritableScope::Local)),
        ("userSettings", "user settings", invocation.scope_file(WritableScope::User)),
        ("plugins", "plugins", paths.plugins()),
        ("installedPlugins", "installed plugins", paths.plugin_store()),
        ("ideLocks", "lock files of IDEs", paths.ide_locks()),
        ("approvals", "approvals", paths.approvals()),
        ("managedServers", "managed servers", paths.managed_servers()),
        ("managedSettings", "managed settings", paths.managed_settings()),
    ]
}

//! `swb paths`: where everything is kept.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value as Json};
use switchboard::sources::paths::project_root;

use crate::invocation::{Invocation, WritableScope};
use crate::outcome::{CommandOutput, Failure};
use crate::output::table;
use crate::output::table::{Cell, Truncate};

/// Arguments of `swb paths`: none.
#[derive(Debug, Args)]
pub struct PathsArgs {}

/// Runs the command.
pub fn run(_: &PathsArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let rows = rows(session);
    if session.wants_json() {
        let json: Map<String, Json> = rows
            .iter()
            .map(|(key, _, path)| ((*key).to_owned(), path.to_string_lossy().into()))
            .collect();
        return Ok(super::json_output(&Json::Object(json)));
    }
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .map(|(_, about, path)| {
            let there = if path.symlink_metadata().is_ok() { "there" } else { "not there yet" };
            vec![Cell::plain(*about), Cell::plain(session.display_path(path)), Cell::plain(there)]
        })
        .collect();
    let width = session.env.terminal.width;
    Ok(CommandOutput::text(table::render(
        &["WHAT", "WHERE", "STATE"],
        &cells,
        width,
        &[Truncate::Start(1)],
    )))
}

fn rows(session: &Invocation) -> Vec<(&'static str, &'static str, PathBuf)> {
    let paths = &session.env.paths;
    vec![
        ("projectRoot", "project root", project_root(&session.env.working_folder)),
        ("projectServers", "project servers", session.scope_file(WritableScope::Project)),
        ("localSettings", "local settings", session.scope_file(WritableScope::Local)),
        ("userSettings", "user settings", session.scope_file(WritableScope::User)),
        ("plugins", "plugins", paths.plugins()),
        ("approvals", "approvals", paths.approvals()),
        ("managedServers", "managed servers", paths.managed_servers()),
        ("managedSettings", "managed settings", paths.managed_settings()),
    ]
}

//! `swb paths`: where everything is kept.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value as Json};
use switchboard::places::project_root;

use crate::outcome::{Done, Failure};
use crate::session::{Session, WritableScope};
use crate::table::{self, Cell, Yielding};

/// Arguments of `swb paths`: none.
#[derive(Debug, Args)]
pub struct Paths {}

/// Runs the command.
pub fn run(_: &Paths, session: &Session) -> Result<Done, Failure> {
    let rows = rows(session);
    if session.wants_json() {
        let json: Map<String, Json> = rows
            .iter()
            .map(|(key, _, path)| ((*key).to_owned(), path.to_string_lossy().into()))
            .collect();
        return Ok(super::json(&Json::Object(json)));
    }
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .map(|(_, about, path)| {
            let there = if path.symlink_metadata().is_ok() { "there" } else { "not there yet" };
            vec![Cell::plain(*about), Cell::plain(session.shown_path(path)), Cell::plain(there)]
        })
        .collect();
    let width = session.machine.terminal.width;
    Ok(Done::text(table::render(&["WHAT", "WHERE", "STATE"], &cells, width, &[Yielding::Front(1)])))
}

fn rows(session: &Session) -> Vec<(&'static str, &'static str, PathBuf)> {
    let places = &session.machine.places;
    vec![
        ("projectRoot", "project root", project_root(&session.machine.working_folder)),
        ("projectServers", "project servers", session.file_of(WritableScope::Project)),
        ("localSettings", "local settings", session.file_of(WritableScope::Local)),
        ("userSettings", "user settings", session.file_of(WritableScope::User)),
        ("plugins", "plugins", places.plugins()),
        ("approvals", "approvals", places.approvals()),
        ("managedServers", "managed servers", places.managed_servers()),
        ("managedSettings", "managed settings", places.managed_settings()),
    ]
}

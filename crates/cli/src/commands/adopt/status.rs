//! `swb adopt status`: lists the adopted clients.

use std::path::PathBuf;

use serde_json::{Value as Json, json};
use switchboard::sources::text_file::{self, AllowedFiles, FileContent};

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::table;
use crate::output::table::{Cell, Truncate};

use super::record::{AdoptionRecord, OriginalFile, Records};

/// Runs the command. Changes nothing.
pub(super) fn run(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let records = Records::load(invocation)?;
    if invocation.wants_json() {
        let adoptions: Vec<Json> = records
            .all
            .iter()
            .map(|record| {
                json!({
                    "program": record.client.id(),
                    "file": record.file,
                    "since": record.at,
                    "entry": record.entry,
                    "backup": backup(record, &records),
                    "state": state(record, &records),
                    "servers": record.servers.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(),
                })
            })
            .collect();
        return Ok(json_output(&json!({"adoptions": adoptions})));
    }
    if records.all.is_empty() {
        return Ok(CommandOutput::text("No client is adopted.\n"));
    }
    let row = |record: &AdoptionRecord| {
        let backup = match backup(record, &records) {
            Some(path) => invocation.display_path(&path),
            None => "none: the file is new".to_owned(),
        };
        vec![
            Cell::plain(record.client.id()),
            Cell::plain(invocation.display_path(&record.file)),
            Cell::plain(record.at.clone()),
            Cell::plain(state(record, &records)),
            Cell::plain(backup),
        ]
    };
    let rows: Vec<Vec<Cell>> = records.all.iter().map(row).collect();
    let width = invocation.env.terminal.width;
    Ok(CommandOutput::text(table::render(
        &["CLIENT", "FILE", "SINCE", "STATE", "BACKUP"],
        &rows,
        width,
        &[Truncate::Start(4), Truncate::Start(1)],
    )))
}

/// The text before the adoption; `None` if there was none.
fn backup(record: &AdoptionRecord, records: &Records<'_>) -> Option<PathBuf> {
    match record.original {
        OriginalFile::Absent | OriginalFile::Empty => None,
        OriginalFile::Saved => Some(records.before_path(record)),
    }
}

/// Whether the file still is what the adoption made of it.
fn state(record: &AdoptionRecord, records: &Records<'_>) -> &'static str {
    let adopted = records.adopted_text(record).ok();
    match text_file::read_text(&record.file, AllowedFiles::RegularOnly) {
        Ok(FileContent::Text(text)) if Some(&text) == adopted.as_ref() => "unchanged",
        Ok(FileContent::Text(_)) => "changed",
        Ok(FileContent::Absent) => "missing",
        Err(_) => "unreadable",
    }
}

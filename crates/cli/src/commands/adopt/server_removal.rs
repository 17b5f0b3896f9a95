//! Removes from Switchboard's files what an adoption added, where it was not changed since.

use serde_json::Value as Json;
use switchboard::config::display::printable;
use switchboard::config::document::{Document, strip_bom};
use switchboard::config::edit::{self, Edit};
use switchboard::sources::atomic_file::{self, Privacy};

use crate::outcome::Failure;

use super::record::{AdoptionRecord, ServerRecord, entry_hash};

/// Removes the servers and list items that the adoption added. What another adoption uses too stays and belongs to
/// that one. Returns notes about servers that stay because they were changed.
pub(super) fn remove_added(
    record: &AdoptionRecord,
    others: &mut [AdoptionRecord],
) -> Result<Vec<String>, Failure> {
    let mut notes = Vec::new();
    for server in record.servers.iter().filter(|server| server.is_added) {
        let is_same = |it: &&mut ServerRecord| it.file == server.file && it.name == server.name;
        if let Some(other) = others.iter_mut().flat_map(|it| &mut it.servers).find(is_same) {
            *other = server.clone();
            continue;
        }
        notes.extend(remove_server(server)?);
    }
    for list in &record.lists {
        if others.iter().any(|it| it.lists.contains(list)) || !list.file.exists() {
            continue;
        }
        let (key, text) = (list.key.clone(), list.text.clone());
        let edit = match list.object.as_str() {
            "" => Edit::RemoveFromList { key, text },
            object => Edit::RemoveFromNestedList { object: object.to_owned(), key, text },
        };
        atomic_file::change(&list.file, Privacy::Owner, |text| edit::apply(text, &[edit]))?;
    }
    Ok(notes)
}

/// Removes one server, unless its entry was changed. Returns a note if it stays.
fn remove_server(server: &ServerRecord) -> Result<Option<String>, Failure> {
    if !server.file.exists() {
        return Ok(None);
    }
    let mut note = None;
    atomic_file::change(&server.file, Privacy::Owner, |text| match entry_in(text, &server.name) {
        Some(Json::Object(entry)) if entry_hash(&entry) == server.hash => {
            edit::apply(text, &[Edit::RemoveServer { name: server.name.clone() }])
        }
        Some(_) => {
            let name = printable(&server.name);
            note = Some(format!("`{name}` was changed since; it stays in Switchboard"));
            Ok(text.to_owned())
        }
        None => Ok(text.to_owned()),
    })?;
    Ok(note)
}

fn entry_in(text: &str, name: &str) -> Option<Json> {
    let root = Document::parse(strip_bom(text)).ok()?.root?.to_json();
    root.get("mcpServers")?.get(name).cloned()
}

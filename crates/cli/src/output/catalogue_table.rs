//! Lists of what servers have, for people and programs: connects, gathers, lays out.

use serde_json::{Value as Json, json};
use switchboard::catalogue::fetch::{ListItem, ListKind};
use switchboard::config::display::printable;
use switchboard::connection::ServerView;
use switchboard::host::Snapshot;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::table;
use crate::output::table::{Cell, Truncate};
use crate::runtime::host;
use crate::runtime::host::ConnectedServers;

/// A column of a list: its title, and the member of an item that it shows.
pub type Column = (&'static str, &'static str);

/// What is listed, and how.
#[derive(Debug, Clone, Copy)]
pub struct ListLayout {
    /// The list.
    pub list: ListKind,
    /// The key that programs find it under.
    pub key: &'static str,
    /// Its columns after the server's name.
    pub columns: &'static [Column],
    /// What is said where there is nothing.
    pub empty_text: &'static str,
}

/// Connects to the servers that were named, or to all, and lists what they have.
pub fn list_items(
    session: &Invocation,
    names: &[String],
    layouts: &[ListLayout],
) -> Result<CommandOutput, Failure> {
    let configuration = session.load()?;
    let ConnectedServers { snapshot, notes, .. } =
        host::connect_once(session, &configuration, names)?;
    let done = match session.wants_json() {
        true => crate::commands::json_output(&as_json(&snapshot, layouts)),
        false => CommandOutput::text(as_text(session, &snapshot, layouts)),
    };
    Ok(done.note(notes))
}

fn items(snapshot: &Snapshot, list: ListKind) -> impl Iterator<Item = (&ServerView, &ListItem)> {
    let views = snapshot.servers.values();
    views.flat_map(move |view| view.catalogue.items(list).iter().map(move |item| (&**view, item)))
}

fn as_json(snapshot: &Snapshot, layouts: &[ListLayout]) -> Json {
    let mut answer = json!({});
    for layout in layouts {
        let list: Vec<Json> = items(snapshot, layout.list)
            .map(|(view, item)| {
                let mut json: Json = item.raw.decode().unwrap_or_default();
                json["server"] = view.name.as_str().into();
                json
            })
            .collect();
        answer[layout.key] = list.into();
    }
    answer
}

/// The lists as tables.
pub fn as_text(session: &Invocation, snapshot: &Snapshot, layouts: &[ListLayout]) -> String {
    let mut text = String::new();
    for layout in layouts {
        let rows: Vec<Vec<Cell>> = items(snapshot, layout.list)
            .map(|(view, item)| item_row(view, item, layout.columns))
            .collect();
        if rows.is_empty() {
            text.push_str(layout.empty_text);
            continue;
        }
        let mut header = vec!["SERVER"];
        header.extend(layout.columns.iter().map(|(title, _)| *title));
        let last = header.len() - 1;
        let truncated_columns = [Truncate::End(last), Truncate::End(1)];
        text.push_str(&table::render(
            &header,
            &rows,
            session.env.terminal.width,
            &truncated_columns,
        ));
    }
    text
}

fn item_row(view: &ServerView, item: &ListItem, columns: &[Column]) -> Vec<Cell> {
    let json: Json = item.raw.decode().unwrap_or_default();
    let mut row = vec![Cell::plain(printable(&view.name))];
    for (_, member) in columns {
        let shown = printable(&cell_text(&json[*member]));
        row.push(Cell::plain(if shown.is_empty() { "-".to_owned() } else { shown }));
    }
    row
}

/// The first line of a text; of a list of arguments, their names.
fn cell_text(value: &Json) -> String {
    match value {
        Json::String(text) => text.lines().next().unwrap_or_default().chars().take(300).collect(),
        Json::Array(arguments) => {
            let name = |it: &Json| {
                let name = it["name"].as_str().unwrap_or_default();
                if it["required"] == true { name.to_owned() } else { format!("[{name}]") }
            };
            arguments.iter().map(name).collect::<Vec<_>>().join(" ")
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => String::new(),
    }
}

//! Resources, templates and prompts of servers, as tables and as JSON.

use serde_json::{Value as Json, json};
use switchboard::Snapshot;
use switchboard::catalogue::{ListItem, ListKind};
use switchboard::config::display::printable;
use switchboard::connection::ServerView;

use crate::env::ProcessEnv;
use crate::output::table;
use crate::output::table::{Cell, Truncate};

/// A column: its title, and the JSON member of an item that it shows.
pub type Column = (&'static str, &'static str);

/// How one list is shown.
#[derive(Debug, Clone, Copy)]
pub struct ListLayout {
    /// The list.
    pub list: ListKind,
    /// Its key in JSON output.
    pub key: &'static str,
    /// Its columns after the server's name.
    pub columns: &'static [Column],
    /// The text for an empty list.
    pub empty_text: &'static str,
}

fn items(snapshot: &Snapshot, list: ListKind) -> impl Iterator<Item = (&ServerView, &ListItem)> {
    let views = snapshot.servers.values();
    views.flat_map(move |view| view.catalogue.items(list).iter().map(move |item| (&**view, item)))
}

/// The lists as JSON.
pub fn as_json(snapshot: &Snapshot, layouts: &[ListLayout]) -> Json {
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
pub fn as_text(env: &ProcessEnv, snapshot: &Snapshot, layouts: &[ListLayout]) -> String {
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
        text.push_str(&table::render(&header, &rows, env.terminal.width, &truncated_columns));
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

/// The first line of a text, or the names of a list of arguments.
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

/// The list of prompts.
pub const PROMPTS: [ListLayout; 1] = [ListLayout {
    list: ListKind::Prompts,
    key: "prompts",
    columns: &[("PROMPT", "name"), ("ARGUMENTS", "arguments"), ("ABOUT", "description")],
    empty_text: "No prompts.\n",
}];

const RESOURCE_LIST: ListLayout = ListLayout {
    list: ListKind::Resources,
    key: "resources",
    columns: &[("URI", "uri"), ("NAME", "name"), ("KIND", "mimeType"), ("ABOUT", "description")],
    empty_text: "No resources.\n",
};

const TEMPLATE_LIST: ListLayout = ListLayout {
    list: ListKind::ResourceTemplates,
    key: "resourceTemplates",
    columns: &[
        ("TEMPLATE", "uriTemplate"),
        ("NAME", "name"),
        ("KIND", "mimeType"),
        ("ABOUT", "description"),
    ],
    empty_text: "",
};

/// The lists of resources and of resource templates.
pub const RESOURCES: [ListLayout; 2] = [RESOURCE_LIST, TEMPLATE_LIST];

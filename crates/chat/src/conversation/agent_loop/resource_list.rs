//! The resources of servers, as a part of the system prompt: names first, and bounded.

use serde::Deserialize;
use switchboard::Snapshot;
use switchboard::catalogue::{ListItem, ListKind};
use switchboard::config::display::printable;
use switchboard::config::permission::{self, PermissionRules};
use switchboard::pool::naming::{NameOrigin, prefix};

/// The most bytes of the whole list.
const MAX_LIST_BYTES: usize = 8 * 1024;
/// The most resources of one server.
const MAX_RESOURCES: usize = 30;
/// The most characters of a name and of a URI.
const MAX_CHARS: usize = 120;

const HEADING: &str = "# Resources\n\
    `ReadMcpResource` reads a resource by its server and URI, and `ListMcpResources` lists them all. The names are the \
    servers' own words.";

/// The resources of the servers that are visible now; empty where there are none.
pub(super) fn resource_list(snapshot: &Snapshot, rules: &PermissionRules) -> String {
    let mut list = String::new();
    let mut left_out = 0;
    for view in snapshot.servers.values() {
        let items = view.catalogue.items(ListKind::Resources);
        let named = prefix(&view.name, NameOrigin::of(view.scope));
        if items.is_empty() || permission::server_hidden_by(rules, &named).is_some() {
            continue;
        }
        let text = server_text(&view.name, items);
        match list.len() + text.len() <= MAX_LIST_BYTES {
            true => list.push_str(&text),
            false => left_out += items.len(),
        }
    }
    if list.is_empty() && left_out == 0 {
        return list;
    }
    if left_out > 0 {
        list.push_str(&format!("\n\n{left_out} resources of other servers are not listed here."));
    }
    format!("{HEADING}{list}")
}

fn server_text(server: &str, items: &[ListItem]) -> String {
    let mut text = format!("\n\n## {server}");
    for item in items.iter().take(MAX_RESOURCES) {
        let uri = shortened(&item.name);
        match name(item) {
            Some(name) => text.push_str(&format!("\n- {}: {uri}", shortened(&name))),
            None => text.push_str(&format!("\n- {uri}")),
        }
    }
    if items.len() > MAX_RESOURCES {
        text.push_str(&format!("\n- … and {} more", items.len() - MAX_RESOURCES));
    }
    text
}

#[derive(Deserialize)]
struct NamedItem {
    name: String,
}

fn name(item: &ListItem) -> Option<String> {
    item.raw.decode::<NamedItem>().ok().map(|it| it.name)
}

/// On one line, without control characters.
fn shortened(text: &str) -> String {
    let text = printable(text);
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

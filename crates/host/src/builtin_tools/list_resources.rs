//! `ListMcpResources`: lists the servers' resources from the connections' catalogues, which are loaded at the start
//! and dropped when a server closes or reports a change.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use switchboard_config::permission::PermissionRules;
use switchboard_wire::jsonrpc::message::Payload;

use super::{
    BuiltinCall, is_hidden, no_resources, not_connected, status_reason, text_result, unknown_server,
};
use crate::catalogue::lists::{ListItem, ListKind};
use crate::connection::status::{ServerView, Status};
use crate::engine::snapshot::Snapshot;
use crate::pool::tool::Tool;

pub(super) const NAME: &str = "ListMcpResources";
/// The maximum length of a text in a listed resource, in characters.
const MAX_TEXT_CHARS: usize = 2048;

/// The tool.
pub(crate) fn definition() -> Tool {
    let description = "Lists the resources of connected servers, or of one of them: uri, name, mimeType, description, server.";
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "only those of this server"},
        },
        "additionalProperties": false,
    });
    super::builtin_tool(NAME, description, &schema)
}

/// Lists the resources of one server or of all.
pub(super) fn run(call: &BuiltinCall<'_>) -> Payload {
    let snapshot = call.engine().snapshot();
    match call.arguments["server"].as_str() {
        Some(server) => list_one(&call.rules, &snapshot, server),
        None => list_all(&call.rules, &snapshot),
    }
}

fn list_one(rules: &PermissionRules, snapshot: &Snapshot, server: &str) -> Payload {
    let Some(view) = snapshot.servers.get(server).filter(|_| !is_hidden(rules, snapshot, server))
    else {
        return unknown_server(server);
    };
    if view.status != Status::Connected {
        return not_connected(view);
    }
    match view.has_resources() {
        true => text_result(&[&Json::from(resources(view)).to_string()]),
        false => no_resources(server),
    }
}

fn list_all(rules: &PermissionRules, snapshot: &Snapshot) -> Payload {
    let visible =
        || snapshot.servers.values().filter(|view| !is_hidden(rules, snapshot, &view.name));
    let listed: Vec<Json> = visible().flat_map(|view| resources(view)).collect();
    let listed = Json::from(listed).to_string();
    let not_connected_servers = visible().filter(|view| view.status != Status::Connected);
    let not_connected_servers: Vec<String> = not_connected_servers
        .map(|view| format!("`{}` ({})", view.name, status_reason(view)))
        .collect();
    match not_connected_servers.is_empty() {
        true => text_result(&[&listed]),
        false => {
            text_result(&[&listed, &format!("not connected: {}", not_connected_servers.join(", "))])
        }
    }
}

fn resources(view: &ServerView) -> Vec<Json> {
    view.catalogue
        .items(ListKind::Resources)
        .iter()
        .map(|item| resource_json(&view.name, item))
        .collect()
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    mime_type: Option<&'a RawValue>,
    #[serde(borrow, default)]
    description: Option<&'a RawValue>,
}

/// The JSON of a resource: texts are truncated, values of other types left out.
fn resource_json(server: &str, item: &ListItem) -> Json {
    let resource: Resource<'_> = serde_json::from_slice(item.raw.as_bytes()).unwrap_or_default();
    let text = |raw: Option<&RawValue>| {
        let text = raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        text.map(|text| text.chars().take(MAX_TEXT_CHARS).collect::<String>())
    };
    let mut object = json!({"uri": item.name, "server": server});
    for (key, value) in [
        ("name", resource.name),
        ("mimeType", resource.mime_type),
        ("description", resource.description),
    ] {
        if let Some(value) = text(value) {
            object[key] = value.into();
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_texts_are_listed_and_long_ones_are_truncated() {
        let raw = json!({"uri": "a:b", "name": 7, "mimeType": "text/plain", "description": "ü".repeat(5000)});
        let item = ListItem { name: "a:b".to_owned(), raw: Payload::encode(&raw).expect("JSON") };
        let expected = json!({
            "uri": "a:b", "server": "s", "mimeType": "text/plain", "description": "ü".repeat(MAX_TEXT_CHARS),
        });
        assert_eq!(resource_json("s", &item), expected);
    }
}

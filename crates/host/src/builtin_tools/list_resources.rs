//! `ListMcpResources`: lists the servers' resources from the connections' catalogues, which are loaded at the start
//! and dropped when a server closes or reports a change.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use super::{is_hidden, no_resources, not_connected, status_reason, text_result, unknown_server};
use crate::call::executor::{ExecutionFuture, ToolExecution, ToolExecutor};
use crate::call::pipeline::{CallContext, Permit};
use crate::catalogue::fetch::{ListItem, ListKind};
use crate::connection::{ServerView, Status};
use crate::host::Snapshot;
use crate::pool::tool::Tool;
use switchboard_wire::jsonrpc::message::Payload;

const NAME: &str = "ListMcpResources";
/// The maximum length of a text in the list, in characters.
const MAX_TEXT_CHARS: usize = 2048;

#[derive(Debug)]
struct ListResources;

/// The tool's definition.
pub(crate) fn definition() -> Tool {
    let description = "Lists the resources of connected servers, or of one of them: uri, name, mimeType, description, server.";
    let schema = json!({
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "only those of this server"},
        },
        "additionalProperties": false,
    });
    super::builtin_tool(NAME, description, &schema, &ListResources)
}

impl ToolExecutor for ListResources {
    fn execute<'a>(&'a self, _permit: Permit, work: ToolExecution<'a>) -> ExecutionFuture<'a> {
        Box::pin(async move {
            let snapshot = work.host.snapshot();
            Ok(match work.call.arguments["server"].as_str() {
                Some(server) => list_one(work.context, &snapshot, server),
                None => list_all(work.context, &snapshot),
            })
        })
    }
}

fn list_one(context: &CallContext, snapshot: &Snapshot, server: &str) -> Payload {
    let Some(view) = snapshot.servers.get(server).filter(|_| !is_hidden(context, snapshot, server))
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

fn list_all(context: &CallContext, snapshot: &Snapshot) -> Payload {
    let visible =
        || snapshot.servers.values().filter(|view| !is_hidden(context, snapshot, &view.name));
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

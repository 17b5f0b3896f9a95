//! `search_tools` and `call_tool`, which replace a long list of tools. Search finds only tools that the client may see;
//! a call through `call_tool` is permitted and recorded like any other call.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard::pool::{Pool, Tool};
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;

use crate::exposed::pages::ListEntries;
use crate::json::payload;

/// The name of the tool that searches.
pub(crate) const SEARCH_TOOL: &str = "search_tools";
/// The name of the tool that calls a tool.
pub(crate) const CALL_TOOL: &str = "call_tool";
/// The default and the largest number of results.
const DEFAULT_LIMIT: usize = 8;
const MAX_LIMIT: usize = 50;

/// The definitions of both tools.
pub(crate) fn definitions() -> ListEntries {
    let search = json!({
        "name": SEARCH_TOOL,
        "title": "Search tools",
        "description": "Finds tools by keywords, with the input schema of each. Call a tool that was found with `call_tool`.",
        "inputSchema": {"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string", "description": "Keywords that describe the task, or a tool's name"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        }},
        "outputSchema": {"type": "object", "required": ["tools"], "properties": {
            "tools": {"type": "array", "items": {"type": "object"}},
        }},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    });
    let call = json!({
        "name": CALL_TOOL,
        "title": "Call a tool",
        "description": "Calls a tool that `search_tools` found, with arguments that match its input schema.",
        "inputSchema": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "description": "The tool's name, as `search_tools` returned it"},
            "arguments": {"type": "object", "description": "The tool's arguments"},
        }},
    });
    [search, call].iter().map(payload).collect()
}

#[derive(Deserialize)]
struct Query {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
}

/// Runs `search_tools` over the exposed tools that are visible to the client.
pub(crate) fn search(
    (tools, pool): (&HashMap<String, Arc<Tool>>, &Pool),
    arguments: Option<&Payload>,
    is_visible: &dyn Fn(&Tool) -> bool,
) -> Result<Payload, RpcError> {
    let query = arguments.and_then(|it| it.decode::<Query>().ok());
    let query =
        query.ok_or_else(|| server::invalid_params("`query` is missing or is not a string"))?;
    let exposed_names: HashMap<*const Tool, &str> =
        tools.iter().map(|(name, tool)| (Arc::as_ptr(tool), name.as_str())).collect();
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let found = pool.search(&query.query, MAX_LIMIT * 4);
    let found = found.iter().filter_map(|it| {
        let name = exposed_names.get(&Arc::as_ptr(&it.tool))?;
        is_visible(&it.tool).then(|| definition(name, &it.tool))
    });
    let tools: Vec<Json> = found.take(limit).collect();
    let text = serde_json::to_string_pretty(&tools).unwrap_or_default();
    let result = json!({
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"tools": tools},
    });
    Ok(payload(&result))
}

fn definition(name: &str, tool: &Tool) -> Json {
    let mut definition_json = json!({"name": name, "description": tool.description});
    definition_json["inputSchema"] = tool.input_schema.decode().unwrap_or_default();
    definition_json
}

/// The parameters of the call inside a call of `call_tool`.
pub(crate) fn inner_call(mut params: RawObject) -> Result<RawObject, RpcError> {
    let inner = params.remove("arguments");
    let inner = inner.and_then(|it| RawObject::parse(Some(&it)));
    let mut inner = inner.ok_or_else(|| server::invalid_params("`arguments` is not an object"))?;
    let name = inner.remove("name");
    let name = name.ok_or_else(|| server::invalid_params("`arguments.name` is missing"))?;
    params.insert("name", name);
    if let Some(arguments) = inner.remove("arguments") {
        params.insert("arguments", arguments);
    }
    Ok(params)
}

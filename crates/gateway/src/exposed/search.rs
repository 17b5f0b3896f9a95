//! Two tools in place of thousands of definitions: one finds tools by words, the other calls what was found. Both see
//! what the client may see, and a call made through them is a call like any other.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard::pool::tool::Tool;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;

use crate::exposed::catalogue::ExposedCatalogue;
use crate::exposed::pages::ListEntries;

/// What the tool that searches is called.
pub(crate) const SEARCH_TOOL: &str = "search_tools";
/// What the tool that calls is called.
pub(crate) const CALL_TOOL: &str = "call_tool";
/// How many tools are found, unless told otherwise, and at most.
const DEFAULT_LIMIT: usize = 8;
const MAX_LIMIT: usize = 50;

/// Their definitions.
pub(crate) fn definitions() -> ListEntries {
    let search = json!({
        "name": SEARCH_TOOL,
        "title": "Search tools",
        "description": "Finds tools by words, with the arguments that each takes. Call what is found with `call_tool`.",
        "inputSchema": {"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string", "description": "Words that say what is to be done, or a tool's name"},
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
        "description": "Calls a tool that `search_tools` found, with the arguments that its definition asks for.",
        "inputSchema": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "description": "The tool's name, as it was found"},
            "arguments": {"type": "object", "description": "Its arguments"},
        }},
    });
    [search, call].iter().map(|it| Payload::from_json(it.to_string().into())).collect()
}

#[derive(Deserialize)]
struct Query {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
}

/// Finds tools. What the client may not see is not found.
pub(crate) fn search(
    catalogue: &ExposedCatalogue,
    arguments: Option<&Payload>,
    is_visible: &dyn Fn(&Tool) -> bool,
) -> Result<Payload, RpcError> {
    let query = arguments.and_then(|it| it.decode::<Query>().ok());
    let query = query.ok_or_else(|| server::invalid_params("`query` is missing, or is no text"))?;
    let exposed_names: std::collections::HashMap<*const Tool, &str> =
        catalogue.tools.iter().map(|(name, tool)| (Arc::as_ptr(tool), name.as_str())).collect();
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let found = catalogue.pool.search(&query.query, MAX_LIMIT * 4);
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
    Ok(Payload::from_json(result.to_string().into()))
}

fn definition(name: &str, tool: &Tool) -> Json {
    let mut definition_json = json!({"name": name, "description": tool.description});
    definition_json["inputSchema"] = tool.input_schema.decode().unwrap_or_default();
    definition_json
}

/// The call that a call of `call_tool` stands for.
pub(crate) fn inner_call(mut params: RawObject) -> Result<RawObject, RpcError> {
    let inner = params.remove("arguments");
    let inner = inner.and_then(|it| RawObject::parse(Some(&it)));
    let mut inner = inner.ok_or_else(|| server::invalid_params("`arguments` is no object"))?;
    let name = inner.remove("name");
    let name = name.ok_or_else(|| server::invalid_params("`arguments` lacks the tool's `name`"))?;
    params.insert("name", name);
    if let Some(arguments) = inner.remove("arguments") {
        params.insert("arguments", arguments);
    }
    Ok(params)
}

//! Two tools in place of thousands of definitions: one finds tools by words, the other calls what was found. Both see
//! what the client may see, and a call made through them is a call like any other.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value as Json, json};
use switchboard::pool::tool::Tool;
use switchboard_wire::asked::Members;
use switchboard_wire::message::{Payload, RemoteError};
use switchboard_wire::reception;

use crate::directory::Directory;
use crate::list_pages::Entries;

/// What the tool that searches is called.
pub(crate) const SEARCH: &str = "search_tools";
/// What the tool that calls is called.
pub(crate) const CALL: &str = "call_tool";
/// How many tools are found, unless told otherwise, and at most.
const USUAL: usize = 8;
const MOST: usize = 50;

/// Their definitions.
pub(crate) fn definitions() -> Entries {
    let search = json!({
        "name": SEARCH,
        "title": "Search tools",
        "description": "Finds tools by words, with the arguments that each takes. Call what is found with `call_tool`.",
        "inputSchema": {"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string", "description": "Words that say what is to be done, or a tool's name"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
        }},
        "outputSchema": {"type": "object", "required": ["tools"], "properties": {
            "tools": {"type": "array", "items": {"type": "object"}},
        }},
        "annotations": {"readOnlyHint": true, "openWorldHint": false},
    });
    let call = json!({
        "name": CALL,
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
    directory: &Directory,
    arguments: Option<&Payload>,
    may_see: &dyn Fn(&Tool) -> bool,
) -> Result<Payload, RemoteError> {
    let query = arguments.and_then(|it| it.decode::<Query>().ok());
    let query = query.ok_or_else(|| reception::invalid("`query` is missing, or is no text"))?;
    let served: std::collections::HashMap<*const Tool, &str> =
        directory.tools.iter().map(|(name, tool)| (Arc::as_ptr(tool), name.as_str())).collect();
    let limit = query.limit.unwrap_or(USUAL).clamp(1, MOST);
    let found = directory.pool.search(&query.query, MOST * 4);
    let found = found.iter().filter_map(|it| {
        let name = served.get(&Arc::as_ptr(&it.tool))?;
        may_see(&it.tool).then(|| definition(name, &it.tool))
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
    let mut shown = json!({"name": name, "description": tool.description});
    shown["inputSchema"] = tool.input_schema.decode().unwrap_or_default();
    shown
}

/// The call that a call of `call_tool` stands for.
pub(crate) fn unwrapped(mut params: Members) -> Result<Members, RemoteError> {
    let inner = params.take("arguments");
    let inner = inner.and_then(|it| Members::read(Some(&it)));
    let mut inner = inner.ok_or_else(|| reception::invalid("`arguments` is no object"))?;
    let name = inner.take("name");
    let name = name.ok_or_else(|| reception::invalid("`arguments` lacks the tool's `name`"))?;
    params.put("name", name);
    if let Some(arguments) = inner.take("arguments") {
        params.put("arguments", arguments);
    }
    Ok(params)
}

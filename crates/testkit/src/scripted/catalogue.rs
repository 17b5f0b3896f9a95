//! The catalogue of a scripted server: tools, resources and prompts, in pages.

use serde_json::{Value, json};

use super::protocol::{RequestEra, RpcError};
use super::server_state::ServerState;
use crate::scripted::quirk::{Cursors, Quirk};

/// The built-in tools: name, description and properties of the input schema.
fn built_in_tools() -> Vec<(&'static str, &'static str, Value)> {
    let text = json!({"type": "string"});
    let number = json!({"type": "number"});
    vec![
        ("echo", "Returns its text.", json!({"text": text})),
        ("add", "Adds two numbers.", json!({"a": number, "b": number})),
        ("slow", "Takes a while.", json!({"ms": number, "steps": number})),
        ("big", "Returns a text of a size.", json!({"bytes": number})),
        ("fail", "Returns a failure.", json!({"text": text})),
        ("explode", "Answers with an error.", json!({"code": number})),
        ("crash", "Ends the server.", json!({})),
        ("ask", "Asks the client.", json!({"kind": text, "rounds": number})),
        ("env", "Names the variables that are set.", json!({})),
        ("change_tools", "Adds a tool.", json!({})),
        ("touch", "Says that a resource changed.", json!({"uri": text})),
        ("count", "Tells how often what was called.", json!({})),
        ("whoami", "Tells who asks whom.", json!({})),
        (
            "route",
            "Returns its region, which a header has to repeat.",
            json!({"region": {"type": "string", "x-mcp-header": "Region"}}),
        ),
        ("end_listening", "Ends all subscriptions.", json!({})),
    ]
}

/// All tools as they are listed.
pub fn tools(server: &ServerState) -> Vec<Value> {
    let tool = |name: &str, description: &str, properties: &Value| {
        let schema = json!({"type": "object", "properties": properties});
        json!({"name": name, "description": description, "inputSchema": schema})
    };
    let properties = json!({
        "subject": {"type": "string", "description": "What it is about."},
        "limit": {"type": "integer", "minimum": 0},
    });
    let mut tools: Vec<Value> =
        built_in_tools().iter().map(|(name, summary, input)| tool(name, summary, input)).collect();
    if let Some(path) = &server.script.echo_description {
        tools[0]["description"] = std::fs::read_to_string(path).unwrap_or_default().into();
    }
    for number in 0..server.script.tools {
        let description = format!("Does thing number {number} to its subject.");
        tools.push(tool(&format!("tool_{number}"), &description, &properties));
    }
    for name in &server.script.named_tools {
        tools.push(tool(name, "Has a name of its own.", &properties));
    }
    for number in 0..server.added_tools() {
        tools.push(tool(&format!("added_{number}"), "Was added later.", &json!({})));
    }
    if server.script.has_quirk(&Quirk::HasSayTool) {
        tools.push(tool("say", "Returns what it is told.", &json!({"result": {"type": "object"}})));
    }
    if server.script.has_quirk(&Quirk::HasTalkTool) {
        tools.push(tool(
            "talk",
            "Says its text in every way.",
            &json!({"text": {"type": "string"}}),
        ));
    }
    if let Some(taint) = &server.script.taint {
        tools.push(tool("misnamed", "Has a hostile argument.", &json!({taint: {}})));
        for tool in &mut tools {
            tool["title"] = json!("a title");
        }
    }
    if server.script.has_quirk(&Quirk::BadToolSchema) {
        tools.push(json!({"description": "Has no name.", "inputSchema": {"type": "object"}}));
        tools.push(json!({"name": "misshapen", "inputSchema": "anything goes"}));
    }
    if server.script.has_quirk(&Quirk::UnknownContent) {
        for tool in &mut tools {
            tool["x-unknown"] = json!({"unknown": "member"});
        }
    }
    tools
}

/// Whether a generated or added tool has this name.
pub fn has_generated_tool(server: &ServerState, name: &str) -> bool {
    let is_numbered = |prefix: &str, count: usize| {
        name.strip_prefix(prefix)
            .and_then(|number| number.parse::<usize>().ok())
            .is_some_and(|number| number < count)
    };
    is_numbered("tool_", server.script.tools)
        || is_numbered("added_", server.added_tools())
        || server.script.named_tools.iter().any(|it| it == name)
}

/// One page of a list.
pub fn list(server: &ServerState, method: &str, params: &Value) -> Result<Value, RpcError> {
    if method == "tools/list" && server.script.has_quirk(&Quirk::FailsToolList) {
        return Err(RpcError::new(-32603, "the tools are not to be listed"));
    }
    let (member, items) = match method {
        "tools/list" => ("tools", tools(server)),
        "resources/list" => ("resources", resources(server)),
        "resources/templates/list" => ("resourceTemplates", templates(server)),
        _ => ("prompts", prompts(server)),
    };
    page(server, member, items, params)
}

fn resources(server: &ServerState) -> Vec<Value> {
    (0..server.script.resources)
        .map(|number| {
            json!({
                "uri": format!("scripted://resource/{number}"),
                "name": format!("resource_{number}"),
                "mimeType": "text/plain",
            })
        })
        .collect()
}

fn templates(server: &ServerState) -> Vec<Value> {
    match server.script.resources {
        0 => Vec::new(),
        _ => vec![json!({"uriTemplate": "scripted://resource/{number}", "name": "by_number"})],
    }
}

fn prompts(server: &ServerState) -> Vec<Value> {
    (0..server.script.prompts)
        .map(|number| {
            json!({
                "name": format!("prompt_{number}"),
                "description": format!("Starts talk number {number}."),
                "arguments": [{"name": "topic", "required": false}],
            })
        })
        .collect()
}

fn page(
    server: &ServerState,
    member: &str,
    items: Vec<Value>,
    params: &Value,
) -> Result<Value, RpcError> {
    let start = match params.get("cursor").filter(|it| !it.is_null()) {
        None => 0,
        Some(cursor) => cursor
            .as_str()
            .and_then(|it| it.strip_prefix("from:")?.parse::<usize>().ok())
            .ok_or_else(|| RpcError::invalid_params("the cursor is unknown"))?,
    };
    let endless = server.script.find_quirk(|quirk| {
        if let Quirk::EndlessPages { cursors } = quirk { Some(*cursors) } else { None }
    });
    match endless {
        Some(Cursors::Same) => Ok(json!({member: items, "nextCursor": "from:0"})),
        Some(Cursors::Fresh) => {
            let mut renamed = items;
            for item in renamed.iter_mut().filter(|_| start > 0) {
                let name = item["name"].as_str().unwrap_or_default();
                item["name"] = json!(format!("{name}_{start}"));
            }
            Ok(json!({member: renamed, "nextCursor": format!("from:{}", start + 1)}))
        }
        None => Ok(finite_page(server, member, items, start)),
    }
}

fn finite_page(server: &ServerState, member: &str, items: Vec<Value>, start: usize) -> Value {
    let size = match server.script.page_size {
        0 => items.len().max(1),
        size => size,
    };
    let end = start.saturating_add(size);
    let has_more = end < items.len();
    let page_items: Vec<Value> = items.into_iter().skip(start).take(size).collect();
    let mut page = json!({member: page_items});
    if has_more {
        page["nextCursor"] = json!(format!("from:{end}"));
    }
    page
}

/// A binary resource that is not listed.
const BLOB_URI: &str = "scripted://blob";

/// The contents of a resource.
pub fn read_resource(
    server: &ServerState,
    era: RequestEra,
    params: &Value,
) -> Result<Value, RpcError> {
    let uri = params["uri"].as_str().unwrap_or_default();
    let number = uri.strip_prefix("scripted://resource/").and_then(|it| it.parse::<usize>().ok());
    if uri == BLOB_URI && server.script.resources > 0 {
        let content =
            json!({"uri": uri, "mimeType": "application/octet-stream", "blob": "AAECAw=="});
        return Ok(json!({"contents": [content]}));
    }
    match number {
        Some(number) if number < server.script.resources => {
            let text = format!("the text of resource {number}");
            Ok(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}))
        }
        Some(_) | None => {
            let code = match era {
                RequestEra::Legacy => -32002,
                RequestEra::Modern => -32602,
            };
            Err(RpcError::new(code, format!("there is no resource `{uri}`")))
        }
    }
}

/// The messages of a prompt.
pub fn get_prompt(server: &ServerState, params: &Value) -> Result<Value, RpcError> {
    let name = params["name"].as_str().unwrap_or_default();
    let number = name.strip_prefix("prompt_").and_then(|it| it.parse::<usize>().ok());
    match number {
        Some(number) if number < server.script.prompts => {
            let topic = params["arguments"]["topic"].as_str().unwrap_or("anything");
            let content = json!({"type": "text", "text": format!("Let us talk about {topic}.")});
            Ok(json!({"messages": [{"role": "user", "content": content}]}))
        }
        Some(_) | None => Err(RpcError::invalid_params(format!("there is no prompt `{name}`"))),
    }
}

/// Completions of the client's value.
pub fn complete(params: &Value) -> Value {
    let prefix = params["argument"]["value"].as_str().unwrap_or_default();
    let values: Vec<&str> =
        ["apple", "apricot", "banana"].into_iter().filter(|it| it.starts_with(prefix)).collect();
    json!({"completion": {"values": values, "total": values.len(), "hasMore": false}})
}

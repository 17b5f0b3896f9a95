//! Tools as a table and as JSON.

use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::pool::{Pool, QuarantineEntry, Tool};

use crate::env::ProcessEnv;
use crate::output::style::{TextStyle, paint};
use crate::output::table;
use crate::output::table::{Cell, Truncate};

/// A tool as JSON.
pub fn tool_json(pool: &Pool, tool: &Tool) -> Json {
    let server = Some(tool.server.as_str()).filter(|_| !tool.is_built_in());
    json!({
        "name": tool.exposed_name,
        "server": server,
        "tool": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema.decode::<Json>().unwrap_or_default(),
        "annotations": {
            "readOnlyHint": tool.annotations.read_only,
            "destructiveHint": tool.annotations.destructive,
            "idempotentHint": tool.annotations.idempotent,
            "openWorldHint": tool.annotations.open_world,
        },
        "deferred": pool.is_deferred(tool),
        "flags": tool.flags().iter().map(|flag| flag.id()).collect::<Vec<_>>(),
    })
}

/// Every tool, and every tool that was left out, as JSON.
pub fn as_json(pool: &Pool, tools: &[&Tool]) -> Json {
    let quarantined: Vec<Json> = pool
        .quarantined()
        .iter()
        .map(|it| json!({"server": it.server, "tool": it.tool, "reason": it.reason.to_string()}))
        .collect();
    let tools: Vec<Json> = tools.iter().map(|tool| tool_json(pool, tool)).collect();
    json!({"tools": tools, "quarantined": quarantined})
}

/// Tools as a table.
pub fn as_text(env: &ProcessEnv, tools: &[&Tool]) -> String {
    if tools.is_empty() {
        return "No tools.\n".to_owned();
    }
    let row = |tool: &&Tool| {
        let about = tool.description.lines().next().unwrap_or_default();
        let kind = match (tool.annotations.read_only, tool.annotations.destructive) {
            (true, _) => Cell::styled(TextStyle::Success, "read-only"),
            (false, false) => Cell::plain("writes"),
            (false, true) => Cell::styled(TextStyle::Warning, "destructive"),
        };
        vec![Cell::plain(printable(&tool.exposed_name)), kind, Cell::plain(printable(about))]
    };
    let rows: Vec<Vec<Cell>> = tools.iter().map(row).collect();
    // Names are never shortened: they are typed.
    table::render(&["TOOL", "KIND", "ABOUT"], &rows, env.terminal.width, &[Truncate::End(2)])
}

/// Warnings about tools that were left out.
pub fn quarantined(pool: &Pool) -> String {
    let line = |it: &QuarantineEntry| {
        format!(
            "{} `{}` of `{}` is left out: {}\n",
            paint(TextStyle::Warning, "warning:"),
            printable(&it.tool),
            printable(&it.server),
            printable(&it.reason.to_string())
        )
    };
    pool.quarantined().iter().map(line).collect()
}

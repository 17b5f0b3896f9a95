//! `swb tools`: every tool of every server, under the name that a model would see.

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::pool::Pool;
use switchboard::pool::tool::Tool;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::style::{TextStyle, paint};
use crate::output::table;
use crate::output::table::{Cell, Truncate};
use crate::runtime::host;
use crate::runtime::host::ConnectedServers;

/// Arguments of `swb tools`.
#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// Only those of these servers
    pub servers: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &ToolsArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = session.load()?;
    let ConnectedServers { pool, notes, .. } =
        host::connect_once(session, &configuration, &arguments.servers)?;
    // Whoever names servers does not mean our own tools.
    let is_meant = |tool: &&Tool| arguments.servers.is_empty() || !tool.is_built_in();
    let tools: Vec<&Tool> = pool.tools().iter().map(AsRef::as_ref).filter(is_meant).collect();
    let done = match session.wants_json() {
        true => super::json_output(&as_json(&pool, &tools)),
        false => CommandOutput::text(as_text(session, &tools)).note(quarantined(&pool)),
    };
    Ok(done.note(notes))
}

/// One tool, for programs.
pub(super) fn tool_json(pool: &Pool, tool: &Tool) -> Json {
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

fn as_json(pool: &Pool, tools: &[&Tool]) -> Json {
    let quarantined: Vec<Json> = pool
        .quarantined()
        .iter()
        .map(|it| json!({"server": it.server, "tool": it.tool, "reason": it.reason.to_string()}))
        .collect();
    let tools: Vec<Json> = tools.iter().map(|tool| tool_json(pool, tool)).collect();
    json!({"tools": tools, "quarantined": quarantined})
}

/// A table of tools.
pub(crate) fn as_text(session: &Invocation, tools: &[&Tool]) -> String {
    if tools.is_empty() {
        return "No tools.\n".to_owned();
    }
    let row = |tool: &&Tool| {
        let about = tool.description.lines().next().unwrap_or_default();
        let kind = match (tool.annotations.read_only, tool.annotations.destructive) {
            (true, _) => Cell::styled(TextStyle::Success, "reads"),
            (false, false) => Cell::plain("writes"),
            (false, true) => Cell::styled(TextStyle::Warning, "may destroy"),
        };
        vec![Cell::plain(printable(&tool.exposed_name)), kind, Cell::plain(printable(about))]
    };
    let rows: Vec<Vec<Cell>> = tools.iter().map(row).collect();
    let truncated_columns = [Truncate::End(2), Truncate::End(0)];
    table::render(&["TOOL", "KIND", "ABOUT"], &rows, session.env.terminal.width, &truncated_columns)
}

/// What is to be said of tools that are left out.
pub(crate) fn quarantined(pool: &Pool) -> String {
    let line = |it: &switchboard::pool::Quarantined| {
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

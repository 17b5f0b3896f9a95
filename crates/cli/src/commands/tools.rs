//! `swb tools`: lists the tools of servers under their exposed names.

use clap::Args;
use switchboard::pool::tool::Tool;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::tool_table;
use crate::runtime::servers;
use crate::runtime::servers::ConnectedServers;

/// Arguments of `swb tools`.
#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// Only tools of these servers
    pub servers: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &ToolsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let ConnectedServers { pool, notes, .. } =
        servers::connect_once(invocation, &configuration, &arguments.servers)?;
    // Built-in tools are listed only if no server is named.
    let is_meant = |tool: &&Tool| arguments.servers.is_empty() || !tool.is_built_in();
    let tools: Vec<&Tool> = pool.tools().iter().map(AsRef::as_ref).filter(is_meant).collect();
    let done = match invocation.wants_json() {
        true => json_output(&tool_table::as_json(&pool, &tools)),
        false => CommandOutput::text(tool_table::as_text(&invocation.env, &tools))
            .note(tool_table::quarantined(&pool)),
    };
    Ok(done.note(notes))
}

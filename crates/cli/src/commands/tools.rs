//! `swb tools`: lists the tools of servers under their exposed names.

use clap::Args;
use switchboard::pool::Tool;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::tool_table;
use crate::output::unusable_files;
use crate::runtime::servers;
use crate::runtime::servers::{KnownTools, ListSource};

/// Arguments of `swb tools`.
#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// Only tools of these servers
    pub servers: Vec<String>,
    /// Connect to the servers instead of using the lists of their last connection
    #[arg(long)]
    pub refresh: bool,
}

/// Runs the command.
pub fn run(arguments: &ToolsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let source = match arguments.refresh {
        true => ListSource::Servers,
        false => ListSource::Remembered,
    };
    let KnownTools { pool, remembered, notes } =
        servers::known_tools(invocation, &configuration, &arguments.servers, source)?;
    // Built-in tools are listed only if no server is named.
    let is_meant = |tool: &&Tool| arguments.servers.is_empty() || !tool.is_built_in();
    let tools: Vec<&Tool> = pool.tools().iter().map(AsRef::as_ref).filter(is_meant).collect();
    let done = match invocation.wants_json() {
        true => {
            let mut json = tool_table::as_json(&pool, &tools);
            json["remembered"] = remembered.into();
            json_output(&json)
        }
        false => CommandOutput::text(tool_table::as_text(&invocation.env, &tools))
            .note(tool_table::quarantined(&pool)),
    };
    Ok(match arguments.servers.is_empty() {
        true => unusable_files::incomplete(&configuration, done.note(notes)),
        false => done.note(notes),
    })
}

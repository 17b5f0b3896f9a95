//! `swb describe`: shows one tool with its arguments.

use clap::Args;
use switchboard::ToolCallError;
use switchboard::connection::RetryPolicy;

use super::call;
use crate::invocation::Invocation;
use crate::invocation::lookup;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;
use crate::output::tool_details;
use crate::output::tool_output;
use crate::output::unusable_files;
use crate::runtime::host;
use crate::runtime::readiness::ReadyOptions;
use crate::runtime::servers;

/// How many similar names are looked for.
const MAX_SUGGESTIONS: usize = 3;

/// Arguments of `swb describe`.
#[derive(Debug, Args)]
pub struct DescribeArgs {
    /// The tool's name, as shown by `swb tools`, or SERVER/TOOL
    pub tool: String,
}

/// Runs the command. Connects to the tool's server only.
pub fn run(arguments: &DescribeArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let names = lookup::servers_of_tool(&configuration, &arguments.tool);
    match names.as_slice() {
        [] => call::expect_built_in(invocation, &configuration, &arguments.tool)?,
        [name] => drop(servers::startable_server(invocation, &configuration, name)?),
        [_, _, ..] => {}
    }
    host::with_host(invocation, RetryPolicy::NoRetry, async |host| {
        servers::apply_configuration(host, &configuration, &names).await;
        let wait = ReadyOptions::default();
        let snapshot = call::wait_for_tool(invocation, host, &arguments.tool, &wait).await;
        let pool = host.pool();
        if let Some(tool) = call::tool_named(&pool, &arguments.tool) {
            return Ok(match invocation.wants_json() {
                true => json_output(&tool_details::as_json(&pool, tool)),
                false => CommandOutput::text(tool_details::as_text(&invocation.env, tool)),
            });
        }
        let nearest = pool.nearest(&arguments.tool, MAX_SUGGESTIONS);
        let error = ToolCallError::UnknownTool {
            name: arguments.tool.clone(),
            nearest: nearest.into_iter().map(|it| it.exposed_name.clone()).collect(),
        };
        let connected = (&*snapshot, &*pool);
        let of_server =
            call::server_failure::explain(invocation, &configuration, &error, connected);
        Err(of_server.unwrap_or_else(|| {
            let failure = tool_output::call_failure(&error, &snapshot);
            unusable_files::or_not_found(&configuration, failure)
        }))
    })
}

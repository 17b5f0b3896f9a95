//! `swb permissions accept`: accepts the definition that a tool had at its last call, in place of the approved one.

use clap::Args;
use serde_json::json;
use switchboard::config::display::printable;
use switchboard::permission::{ChangedDefinition, ToolPins};
use switchboard::sources::loader::Configuration;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::lookup;
use crate::invocation::lookup::ToolOfServer;
use crate::outcome::{CommandOutput, Failure};
use crate::output::definition_diff;
use crate::output::json::json_output;

/// Arguments of `swb permissions accept`.
#[derive(Debug, Args)]
pub struct AcceptArgs {
    /// The tool: mcp__SERVER__TOOL, or SERVER/TOOL
    pub tool: String,
}

/// Runs the command. Connects to no server: what is accepted is the definition that the last call was refused with.
pub fn run(
    invocation: &Invocation,
    arguments: &AcceptArgs,
    configuration: &Configuration,
) -> Result<CommandOutput, Failure> {
    let name = &arguments.tool;
    let found = lookup::server_of_tool(configuration, name);
    let Some(ToolOfServer { server, tool }) = found else {
        return Err(Failure::new(Exit::NotFound, &format!("no configured server has `{name}`"))
            .hint("`swb tools` lists all tools"));
    };
    let pins = ToolPins::open(&invocation.env.paths.pins());
    let accepted = match &server.fingerprint {
        Some(fingerprint) => pins.accept(&server.name, fingerprint, tool)?,
        None => None,
    };
    let Some(ChangedDefinition { diff, .. }) = accepted else {
        let message = format!("no changed definition of `{name}` is known");
        return Err(Failure::new(Exit::NotFound, &message)
            .hint("a change is noticed when the tool is called"));
    };
    Ok(match invocation.wants_json() {
        true => json_output(&json!({"accepted": name, "changes": definition_diff::as_json(&diff)})),
        false => CommandOutput::text(format!(
            "{}Accepted `{}` as it is now.\n",
            definition_diff::as_text(&diff),
            printable(name)
        )),
    })
}

//! `swb prompts`: lists the prompts of servers.

use clap::Args;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::catalogue_table;
use crate::output::json::json_output;
use crate::output::unusable_files;
use crate::runtime::servers;
use crate::runtime::servers::ConnectedServers;

/// Arguments of `swb prompts`.
#[derive(Debug, Args)]
pub struct PromptsArgs {
    /// Only prompts of these servers
    pub servers: Vec<String>,
}

/// Runs the command.
pub fn run(arguments: &PromptsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let ConnectedServers { snapshot, notes, .. } =
        servers::connect_once(invocation, &configuration, &arguments.servers)?;
    let layouts = &catalogue_table::PROMPTS;
    let done = match invocation.wants_json() {
        true => json_output(&catalogue_table::as_json(&snapshot, layouts)),
        false => CommandOutput::text(catalogue_table::as_text(&invocation.env, &snapshot, layouts)),
    };
    Ok(match arguments.servers.is_empty() {
        true => unusable_files::incomplete(&configuration, done.note(notes)),
        false => done.note(notes),
    })
}

//! `swb prompts`: the prompts that servers have.

use clap::Args;
use switchboard::catalogue::fetch::ListKind;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::catalogue_table;
use crate::output::catalogue_table::ListLayout;

/// Arguments of `swb prompts`.
#[derive(Debug, Args)]
pub struct PromptsArgs {
    /// Only those of these servers
    pub servers: Vec<String>,
}

const PROMPTS: ListLayout = ListLayout {
    list: ListKind::Prompts,
    key: "prompts",
    columns: &[("PROMPT", "name"), ("ARGUMENTS", "arguments"), ("ABOUT", "description")],
    empty_text: "No prompts.\n",
};

/// Runs the command.
pub fn run(arguments: &PromptsArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    catalogue_table::list_items(session, &arguments.servers, &[PROMPTS])
}

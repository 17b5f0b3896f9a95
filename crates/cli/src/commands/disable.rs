//! `swb disable`: switches a server off without forgetting it.

use clap::Args;

use crate::edit::enabled;
use crate::edit::enabled::Toggle;
use crate::invocation::Invocation;
use crate::invocation::scope::WritableScope;
use crate::outcome::{CommandOutput, Failure};

/// Arguments of `swb disable`.
#[derive(Debug, Args)]
pub struct DisableArgs {
    /// The server's name
    pub name: String,
    /// Where to write it down: in your local or user settings, or for everybody in the project's file
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
}

/// Runs the command.
pub fn run(arguments: &DisableArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    enabled::set_enabled(invocation, &arguments.name, arguments.scope, Toggle::Disable)
}

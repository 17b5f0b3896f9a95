//! `swb disable`: disables a server without removing it.

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
    /// The scope to write to: local or user settings, or the project's file for everyone
    #[arg(long, short, value_enum)]
    pub scope: Option<WritableScope>,
}

/// Runs the command.
pub fn run(arguments: &DisableArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    enabled::set_enabled(invocation, &arguments.name, arguments.scope, Toggle::Disable)
}

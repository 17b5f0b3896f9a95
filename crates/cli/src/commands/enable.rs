//! `swb enable`: enables a server.

use clap::Args;

use crate::edit::enabled;
use crate::edit::enabled::Toggle;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};

/// Arguments of `swb enable`.
#[derive(Debug, Args)]
pub struct EnableArgs {
    /// The server's name
    pub name: String,
}

/// Runs the command.
pub fn run(arguments: &EnableArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    enabled::set_enabled(invocation, &arguments.name, None, Toggle::Enable)
}

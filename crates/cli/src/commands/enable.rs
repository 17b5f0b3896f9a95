//! `swb enable`: switches a server on.

use clap::Args;

use crate::outcome::{CommandOutput, Failure};
use crate::session::Invocation;
use crate::switch::{self, Toggle};

/// Arguments of `swb enable`.
#[derive(Debug, Args)]
pub struct EnableArgs {
    /// The server's name
    pub name: String,
}

/// Runs the command.
pub fn run(arguments: &EnableArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    switch::set_enabled(session, &arguments.name, None, Toggle::Enable)
}

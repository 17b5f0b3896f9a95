//! `swb reject`: rejects servers of this project.

use clap::Args;

use crate::edit::project_approvals;
use crate::edit::project_approvals::ProjectServers;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};

/// Arguments of `swb reject`.
#[derive(Debug, Args)]
pub struct RejectArgs {
    /// The servers to reject
    #[arg(required_unless_present = "all")]
    pub names: Vec<String>,
    /// Reject every pending server of this project
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
}

/// Runs the command.
pub fn run(arguments: &RejectArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let selection = match arguments.all {
        true => ProjectServers::AllPending,
        false => ProjectServers::Named(&arguments.names),
    };
    project_approvals::reject(invocation, selection)
}

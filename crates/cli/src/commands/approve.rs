//! `swb approve`: approves servers of this project. The approval is bound to the definition's hash.

use clap::Args;

use crate::edit::project_approvals;
use crate::edit::project_approvals::ProjectServers;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};

/// Arguments of `swb approve`.
#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// The servers to approve
    #[arg(required_unless_present = "all")]
    pub names: Vec<String>,
    /// Approve every pending server of this project
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Approve only if the hash shown by `swb get` starts with this
    #[arg(long, value_name = "HASH", conflicts_with = "all")]
    pub hash: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &ApproveArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let selection = match arguments.all {
        true => ProjectServers::AllPending,
        false => ProjectServers::Named(&arguments.names),
    };
    project_approvals::approve(invocation, selection, arguments.hash.as_deref())
}

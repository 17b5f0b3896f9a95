//! `swb approve`: a person's yes to a project's server, bound to exactly what it would run.

use clap::Args;

use crate::edit::project_approvals;
use crate::edit::project_approvals::ProjectServers;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};

/// Arguments of `swb approve`.
#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Servers of this project
    #[arg(required_unless_present = "all")]
    pub names: Vec<String>,
    /// Every server that waits for approval in this project
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Only if its hash, as `swb get` shows it, begins with this
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

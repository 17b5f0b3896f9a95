//! `swb version`: prints the version of the program.

use clap::Args;
use serde_json::json;

use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_output;

/// Arguments of `swb version`: none.
#[derive(Debug, Args)]
pub struct VersionArgs {}

/// Runs the command.
pub fn run(_: &VersionArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    Ok(match invocation.wants_json() {
        true => json_output(&json!({"name": "swb", "version": version})),
        false => CommandOutput::text(format!("swb {version}\n")),
    })
}

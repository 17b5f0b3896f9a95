//! `swb man`: prints a manual page, generated from the clap table.

use clap::{Args, Command};

use crate::exit::Exit;
use crate::outcome::{CommandOutput, Failure};

/// Arguments of `swb man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Print the page of this command
    pub command: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &ManArgs, mut all: Command) -> Result<CommandOutput, Failure> {
    all.build();
    let page = match &arguments.command {
        None => all,
        Some(name) => all.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::new(Exit::Usage, &format!("there is no command `{name}`")).hint("swb --help")
        })?,
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page).render(&mut roff).map_err(|error| {
        Failure::new(Exit::Failure, "the manual page could not be generated").caused_by(error)
    })?;
    Ok(CommandOutput::text(String::from_utf8_lossy(&roff)))
}

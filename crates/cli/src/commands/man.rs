//! `swb man`: the manual page, made from the table of arguments.

use clap::{Args, CommandFactory};

use crate::arguments::Arguments;
use crate::exit::Exit;
use crate::outcome::{Done, Failure};

/// Arguments of `swb man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The page of one command instead of the main one
    pub command: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &Man) -> Result<Done, Failure> {
    let mut all = Arguments::command();
    all.build();
    let page = match &arguments.command {
        None => all,
        Some(name) => all.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::new(Exit::Usage, &format!("there is no command `{name}`")).hint("swb --help")
        })?,
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page).render(&mut roff).map_err(|error| {
        Failure::new(Exit::Failure, "the manual page could not be made").because(error)
    })?;
    Ok(Done::text(String::from_utf8_lossy(&roff)))
}

//! `swb completions`: a shell's completions, made from the table of arguments.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::outcome::{Done, Failure};

/// Arguments of `swb completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Runs the command.
pub fn run(arguments: &Completions) -> Result<Done, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "swb", &mut script);
    Ok(Done::text(String::from_utf8_lossy(&script)))
}

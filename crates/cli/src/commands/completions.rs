//! `swb completions`: a shell's completions. Those of bash, zsh and fish ask the program itself, so they know
//! servers, tools, prompts and resources; those of other shells are made from the table of arguments alone.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::outcome::{Done, Failure};
use crate::shell;

/// Arguments of `swb completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Runs the command.
pub fn run(arguments: &Completions) -> Result<Done, Failure> {
    Ok(match arguments.shell {
        Shell::Bash => Done::text(shell::BASH),
        Shell::Zsh => Done::text(shell::ZSH),
        Shell::Fish => Done::text(shell::FISH),
        // Not ours to list: PowerShell, Elvish, and what is yet to come.
        other => {
            let mut script = Vec::new();
            clap_complete::generate(other, &mut Arguments::command(), "swb", &mut script);
            Done::text(String::from_utf8_lossy(&script))
        }
    })
}

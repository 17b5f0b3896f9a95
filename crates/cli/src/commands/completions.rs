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
    let own = match arguments.shell {
        Shell::Bash => Some(shell::BASH),
        Shell::Zsh => Some(shell::ZSH),
        Shell::Fish => Some(shell::FISH),
        Shell::Elvish | Shell::PowerShell | _ => None,
    };
    if let Some(script) = own {
        return Ok(Done::text(script));
    }
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "swb", &mut script);
    Ok(Done::text(String::from_utf8_lossy(&script)))
}

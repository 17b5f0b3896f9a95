//! `swb completions`: a shell's completions. Those of bash, zsh and fish ask the program itself, so they know
//! servers, tools, prompts and resources; those of other shells are made from the table of arguments alone.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::outcome::{CommandOutput, Failure};
use crate::shell::completion;

/// Arguments of `swb completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Runs the command.
pub fn run(arguments: &CompletionsArgs) -> Result<CommandOutput, Failure> {
    let asks_us = [
        (Shell::Bash, completion::BASH_SCRIPT),
        (Shell::Zsh, completion::ZSH_SCRIPT),
        (Shell::Fish, completion::FISH_SCRIPT),
    ];
    if let Some((_, script)) = asks_us.iter().find(|(shell, _)| *shell == arguments.shell) {
        return Ok(CommandOutput::text(*script));
    }
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "swb", &mut script);
    Ok(CommandOutput::text(String::from_utf8_lossy(&script)))
}

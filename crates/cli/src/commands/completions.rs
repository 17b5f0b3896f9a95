//! `swb completions`: prints a shell completion script. The scripts for bash, zsh and fish call `swb`, so they
//! complete servers, tools, prompts and resources; those for other shells complete commands and options only.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::outcome::{CommandOutput, Failure};
use crate::shell::scripts;

/// Arguments of `swb completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Runs the command.
pub fn run(arguments: &CompletionsArgs, mut all: Command) -> Result<CommandOutput, Failure> {
    let asks_us = [
        (Shell::Bash, scripts::BASH_SCRIPT),
        (Shell::Zsh, scripts::ZSH_SCRIPT),
        (Shell::Fish, scripts::FISH_SCRIPT),
    ];
    if let Some((_, script)) = asks_us.iter().find(|(shell, _)| *shell == arguments.shell) {
        return Ok(CommandOutput::text(*script));
    }
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut all, "swb", &mut script);
    Ok(CommandOutput::text(String::from_utf8_lossy(&script)))
}

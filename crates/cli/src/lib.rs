//! The `swb` program: arguments, commands, output, prompts, and the adapters between them and the host.
//! The only crate that prints, reads the environment or knows the home folder.

pub mod args;
pub mod call_args;
pub mod chat_ui;
pub mod commands;
pub mod dispatch;
pub mod edit;
pub mod env;
pub mod exit;
pub mod help;
pub mod invocation;
pub mod outcome;
pub mod output;
pub mod prompt;
pub mod reference;
pub mod runtime;
pub mod shell;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::args::{Cli, TopLevelCommand};
use crate::env::ProcessEnv;
use crate::invocation::Invocation;
use crate::invocation::options::ColorMode;

/// Runs the program. `managed` is the folder of the administrator's files.
pub fn run(managed: PathBuf) -> ExitCode {
    if let Some(owner) = runtime::subprocess::watchdog_owner() {
        switchboard::wire::process::child::run_watchdog(std::io::stdin().lock(), &owner);
        return ExitCode::SUCCESS;
    }
    if runtime::subprocess::is_pdf_reader() {
        return runtime::subprocess::read_pdf();
    }
    if shell::completion::complete_if_requested(managed.clone(), Cli::command) {
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse_from(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            let error = with_help(error);
            let _reader_left = error.print();
            return ExitCode::from(if error.use_stderr() { exit::Exit::Usage.code() } else { 0 });
        }
    };
    match cli.global.color {
        ColorMode::Auto => {}
        ColorMode::Always => anstream::ColorChoice::Always.write_global(),
        ColorMode::Never => anstream::ColorChoice::Never.write_global(),
    }
    let env = match ProcessEnv::from_process(managed) {
        Ok(env) => env,
        Err(failure) => return ExitCode::from(output::report::print_outcome(Err(failure)).code()),
    };
    let invocation = Invocation::new(env, cli.global);
    let outcome = match cli.command {
        None if cli.conversation.print.is_some() => {
            commands::print::run(&cli.conversation, &invocation)
        }
        None if invocation.can_use_screen() => chat_ui::launch::run(&invocation, &cli.conversation),
        None => commands::overview::run(&invocation),
        Some(_) if cli.conversation.is_any_set() => Err(commands::print::unexpected_with_command()),
        Some(TopLevelCommand::Plain(command) | TopLevelCommand::Mcp { command }) => {
            dispatch::run(command, &invocation)
        }
    };
    ExitCode::from(output::report::print_outcome(outcome).code())
}

/// Help is rendered from the table with groups and examples, which parsing does not build.
fn with_help(error: clap::Error) -> clap::Error {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    match is_help {
        true => help::command().try_get_matches_from(std::env::args_os()).err().unwrap_or(error),
        false => error,
    }
}

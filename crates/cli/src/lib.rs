//! The terminal program: arguments, output, and the adapters between people and the host.
//! The only crate that prints, reads the environment or knows the home folder.

pub mod args;
pub mod call_args;
pub mod chat_ui;
pub mod commands;
pub mod edit;
pub mod env;
pub mod exit;
pub mod invocation;
pub mod outcome;
pub mod output;
pub mod prompt;
pub mod reference;
pub mod runtime;
pub mod shell;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, ColorMode, TopLevelCommand};
use crate::env::ProcessEnv;
use crate::invocation::Invocation;

/// Runs the program on this machine; `managed` is where an administrator's files are.
pub fn run(managed: PathBuf) -> ExitCode {
    if let Some(owner) = runtime::host::watchdog_owner() {
        switchboard::wire::process::child::run_watchdog(std::io::stdin().lock(), &owner);
        return ExitCode::SUCCESS;
    }
    if runtime::in_process::is_pdf_reader() {
        return runtime::in_process::read_pdf();
    }
    if shell::completion::complete_if_requested(managed.clone()) {
        return ExitCode::SUCCESS;
    }
    let arguments = match Cli::try_parse_from(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _reader_left = error.print();
            return ExitCode::from(if error.use_stderr() { exit::Exit::Usage.code() } else { 0 });
        }
    };
    match arguments.global.color {
        ColorMode::Auto => {}
        ColorMode::Always => anstream::ColorChoice::Always.write_global(),
        ColorMode::Never => anstream::ColorChoice::Never.write_global(),
    }
    let env = match ProcessEnv::from_process(managed) {
        Ok(env) => env,
        Err(failure) => return ExitCode::from(output::report::print_outcome(Err(failure)).code()),
    };
    let session = Invocation::new(env, arguments.global);
    let outcome = match arguments.command {
        None if arguments.conversation.print.is_some() => {
            commands::print::run(&arguments.conversation, &session)
        }
        None if session.can_use_screen() => chat_ui::launch::run(&session, &arguments.conversation),
        None => commands::overview::run(&session),
        Some(_) if arguments.conversation.is_any_set() => {
            Err(commands::print::unexpected_with_command())
        }
        Some(TopLevelCommand::Plain(verb) | TopLevelCommand::Mcp { command: verb }) => {
            commands::run(verb, &session)
        }
    };
    ExitCode::from(output::report::print_outcome(outcome).code())
}

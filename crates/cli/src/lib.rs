//! The terminal program: arguments, output, and the adapters between people and the host.
//! The only crate that prints, reads the environment or knows the home folder.

mod approval_lines;
pub mod arguments;
mod browser;
pub mod candidates;
pub mod commands;
pub mod connected;
pub mod control;
mod demo;
pub mod describe;
pub mod desk;
pub mod exit;
mod form_prompt;
pub mod given;
mod keyboard;
pub mod listing;
pub mod live;
mod login_text;
pub mod machine;
pub mod model_setup;
pub mod outcome;
pub mod person;
mod pool_service;
mod progress;
mod proposal;
pub mod reference;
pub mod report;
mod screen;
pub mod session;
pub mod shell;
mod signpost;
mod standard_streams;
pub mod style;
mod switch;
pub mod table;
mod trace_setup;
mod workbench;
mod writing;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Cli, ColorMode, TopLevelCommand};
use crate::machine::ProcessEnv;
use crate::session::Invocation;

/// Runs the program on this machine; `managed` is where an administrator's files are.
pub fn run(managed: PathBuf) -> ExitCode {
    if let Some(owner) = live::watchdog_owner() {
        switchboard::wire::process::run_watchdog(std::io::stdin().lock(), &owner);
        return ExitCode::SUCCESS;
    }
    if workbench::is_pdf_reader() {
        return workbench::read_pdf();
    }
    if shell::complete_if_requested(managed.clone()) {
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
    let machine = match ProcessEnv::from_process(managed) {
        Ok(machine) => machine,
        Err(failure) => return ExitCode::from(report::print_outcome(Err(failure)).code()),
    };
    let session = Invocation::new(machine, arguments.global);
    let outcome = match arguments.command {
        None if arguments.conversation.print.is_some() => {
            commands::print::run(&arguments.conversation, &session)
        }
        None if session.can_use_screen() => screen::run(&session, &arguments.conversation),
        None => commands::overview::run(&session),
        Some(_) if arguments.conversation.is_any_set() => {
            Err(commands::print::unexpected_with_command())
        }
        Some(TopLevelCommand::Plain(verb) | TopLevelCommand::Mcp { command: verb }) => {
            commands::run(verb, &session)
        }
    };
    ExitCode::from(report::print_outcome(outcome).code())
}

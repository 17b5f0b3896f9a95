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

use crate::arguments::{Arguments, Colour, Top};
use crate::machine::Machine;
use crate::session::Session;

/// Runs the program on this machine; `managed` is where an administrator's files are.
pub fn run(managed: PathBuf) -> ExitCode {
    if let Some(owner) = live::guarded_owner() {
        switchboard::wire::process::stand(std::io::stdin().lock(), &owner);
        return ExitCode::SUCCESS;
    }
    if workbench::is_pdf_reader() {
        return workbench::read_pdf();
    }
    if shell::answered(managed.clone()) {
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::try_parse_from(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _reader_left = error.print();
            return ExitCode::from(if error.use_stderr() { exit::Exit::Usage.code() } else { 0 });
        }
    };
    match arguments.global.color {
        Colour::Auto => {}
        Colour::Always => anstream::ColorChoice::Always.write_global(),
        Colour::Never => anstream::ColorChoice::Never.write_global(),
    }
    let machine = match Machine::ask(managed) {
        Ok(machine) => machine,
        Err(failure) => return ExitCode::from(report::print(Err(failure)).code()),
    };
    let session = Session::new(machine, arguments.global);
    let outcome = match arguments.command {
        None if arguments.talk.print.is_some() => commands::print::run(&arguments.talk, &session),
        None if session.is_for_the_screen() => screen::run(&session, &arguments.talk),
        None => commands::overview::run(&session),
        Some(_) if arguments.talk.is_given() => Err(commands::print::only_without_a_command()),
        Some(Top::Plain(verb) | Top::Mcp { verb }) => commands::run(verb, &session),
    };
    ExitCode::from(report::print(outcome).code())
}

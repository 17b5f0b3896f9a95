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
pub mod log;
pub mod outcome;
pub mod output;
pub mod prompt;
pub mod reference;
pub mod runtime;
pub mod shell;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::args::{Cli, CommandArgs, TopLevelCommand};
use crate::commands::print::ConversationArgs;
use crate::env::ProcessEnv;
use crate::invocation::Invocation;
use crate::invocation::options::ColorMode;
use crate::log::LogContext;
use crate::outcome::Failure;
use crate::output::json::json_line;
use crate::output::report;
use crate::output::report::FailureFormat;

/// Runs the program. `managed` is the folder of the administrator's files; `written` is when the program was written,
/// if that is not the time of its file.
pub fn run(managed: PathBuf, written: Option<u64>) -> ExitCode {
    if let Some(owner) = runtime::subprocess::watchdog_owner() {
        switchboard::wire::process::child::run_watchdog(std::io::stdin(), &owner);
        return ExitCode::SUCCESS;
    }
    if let Some(command) = runtime::subprocess::supervised_command() {
        return ExitCode::from(switchboard::wire::process::run_supervisor(&command));
    }
    if runtime::subprocess::is_pdf_reader() {
        return runtime::subprocess::read_pdf();
    }
    if let Some(folder) = runtime::subprocess::shared_host_folder() {
        let build = runtime::sharing::current_build(written);
        return match ProcessEnv::from_process(managed, build) {
            Ok(env) => runtime::shared_host::serve(folder, env),
            Err(failure) => {
                ExitCode::from(report::print_outcome(Err(failure), FailureFormat::Text).code())
            }
        };
    }
    if shell::completion::complete_if_requested(managed.clone(), Cli::command) {
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse_from(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            let error = with_help(error);
            if error.use_stderr() && wants_json(std::env::args_os()) {
                let failure = usage_failure(&error);
                report::print_stdout(&json_line(&report::failure_json(&failure)));
            }
            let _reader_left = error.print();
            return ExitCode::from(if error.use_stderr() { exit::Exit::Usage.code() } else { 0 });
        }
    };
    match cli.global.color {
        ColorMode::Auto => {}
        ColorMode::Always => anstream::ColorChoice::Always.write_global(),
        ColorMode::Never => anstream::ColorChoice::Never.write_global(),
    }
    let format = match cli.global.json || cli.conversation.prints_json() {
        true => FailureFormat::Json,
        false => FailureFormat::Text,
    };
    let build = runtime::sharing::current_build(written);
    let env = match ProcessEnv::from_process(managed, build) {
        Ok(env) => env,
        Err(failure) => return ExitCode::from(report::print_outcome(Err(failure), format).code()),
    };
    let invocation = Invocation::new(env, cli.global);
    let context = log_context(cli.command.as_ref(), &cli.conversation, &invocation);
    let log = match log::start(&invocation, context) {
        Ok(log) => log,
        Err(failure) => return ExitCode::from(report::print_outcome(Err(failure), format).code()),
    };
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
    log.finish();
    ExitCode::from(report::print_outcome(outcome, format).code())
}

/// Does a command line that cannot be parsed ask for JSON?
fn wants_json(words: impl Iterator<Item = OsString>) -> bool {
    let words: Vec<String> = words.map(|it| it.to_string_lossy().into_owned()).collect();
    let is_format = |it: &str| it == "json" || it == "stream-json";
    let follows = words.windows(2).any(|it| it[0] == "--output-format" && is_format(&it[1]));
    let is_json =
        |it: &String| it == "--json" || it.strip_prefix("--output-format=").is_some_and(is_format);
    follows || words.iter().any(is_json)
}

/// An invalid command line as a failure: its first line, without the word "error".
fn usage_failure(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let line = text.lines().next().unwrap_or_default();
    let message = line.strip_prefix("error: ").unwrap_or(line);
    Failure::new(exit::Exit::Usage, message).hint("`swb --help` lists commands and options")
}

/// How the run uses the terminal.
fn log_context(
    command: Option<&TopLevelCommand>,
    conversation: &ConversationArgs,
    invocation: &Invocation,
) -> LogContext {
    let has_screen =
        || invocation.can_use_screen() && !chat_ui::launch::is_plain_terminal(invocation);
    match command {
        None if conversation.print.is_none() && !conversation.plain && has_screen() => {
            LogContext::Screen
        }
        None => LogContext::Command,
        Some(TopLevelCommand::Plain(command) | TopLevelCommand::Mcp { command }) => {
            if let CommandArgs::Demo(demo) = command
                && !demo.is_plain()
                && has_screen()
            {
                LogContext::Screen
            } else if let CommandArgs::Serve(_) = command {
                LogContext::Serve
            } else {
                LogContext::Command
            }
        }
    }
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

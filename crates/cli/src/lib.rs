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
pub mod sdk_session;
pub mod shell;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::ErrorKind;
use switchboard::config::display::printable;

use crate::args::stream_json::ParsedCommandLine;
use crate::args::{Cli, CommandArgs, TopLevelCommand, serve_file, stream_json};
use crate::commands::print::ConversationArgs;
use crate::env::ProcessEnv;
use crate::invocation::Invocation;
use crate::invocation::options::ColorMode;
use crate::invocation::session_flags::SessionFlags;
use crate::log::LogContext;
use crate::outcome::Failure;
use crate::output::json::json_line;
use crate::output::report;
use crate::output::report::FailureFormat;
use crate::runtime::session_plugins;

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
    let words = match serve_file::expand(std::env::args_os().collect()) {
        Ok(words) => words,
        Err(failure) => {
            let format = match wants_json(std::env::args_os()) {
                true => FailureFormat::Json,
                false => FailureFormat::Text,
            };
            return ExitCode::from(report::print_outcome(Err(failure), format).code());
        }
    };
    let cli = match stream_json::parse(words) {
        Ok(ParsedCommandLine { cli, ignored }) => {
            report::print_stderr(&ignored_options_note(&ignored));
            cli
        }
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
    // In a session of a program, standard output carries frames only.
    let is_for_programs =
        cli.conversation.prints_json() && !cli.conversation.sdk.reads_stream_json();
    let format = match cli.global.json || is_for_programs {
        true => FailureFormat::Json,
        false => FailureFormat::Text,
    };
    let build = runtime::sharing::current_build(written);
    let env = match ProcessEnv::from_process(managed, build) {
        Ok(env) => env,
        Err(failure) => return ExitCode::from(report::print_outcome(Err(failure), format).code()),
    };
    let global = cli.conversation.sdk.with_log(cli.global);
    let session = match cli.conversation.session_flags(&env) {
        Ok((session, notes)) => {
            report::print_stderr(&notes);
            session
        }
        Err(failure) => return ExitCode::from(report::print_outcome(Err(failure), format).code()),
    };
    let plugins =
        session_plugins::session_plugins(&env, &global.plugin_dir, &global.plugin_dir_no_mcp);
    let session = match plugins {
        Ok(plugins) => SessionFlags { plugins, ..session },
        Err(failure) => return ExitCode::from(report::print_outcome(Err(failure), format).code()),
    };
    let invocation = Invocation::new(env, global).with_session(session);
    let context = log_context(cli.command.as_ref(), &cli.conversation, &invocation);
    let log = match log::start(&invocation, context) {
        Ok(log) => log,
        Err(failure) => return ExitCode::from(report::print_outcome(Err(failure), format).code()),
    };
    let is_interactive = !cli.conversation.is_without_screen() && invocation.can_use_screen();
    let outcome = match cli.command {
        None if cli.conversation.computer && !is_interactive => {
            Err(invocation::computer_server::no_user())
        }
        None if cli.conversation.sdk.reads_stream_json() => {
            sdk_session::run(&invocation, &cli.conversation)
        }
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

/// The note about options that were left out.
fn ignored_options_note(ignored: &[String]) -> String {
    match ignored {
        [] => String::new(),
        [word] if !word.starts_with('-') => {
            format!("warning: the unexpected word {} is ignored\n", printable(word))
        }
        [option] => format!("warning: the unknown option {} is ignored\n", printable(option)),
        options => {
            let are_options = options.iter().all(|it| it.starts_with('-'));
            let kind = if are_options { "unknown options" } else { "unknown options and words" };
            format!("warning: the {kind} {} are ignored\n", printable(&options.join(" ")))
        }
    }
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
        None if !conversation.is_without_screen() && !conversation.plain && has_screen() => {
            LogContext::Screen
        }
        None => LogContext::Command,
        Some(TopLevelCommand::Plain(command) | TopLevelCommand::Mcp { command }) => {
            if let CommandArgs::Demo(demo) = command
                && !demo.is_plain()
                && has_screen()
            {
                LogContext::Screen
            } else if let CommandArgs::Serve(_) | CommandArgs::Acp(_) = command {
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

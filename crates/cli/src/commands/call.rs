//! `swb call`: calls a tool and prints its output.

pub(super) mod server_failure;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value as Json;
use switchboard::config::display::printable;
use switchboard::config::permission::PermissionMode;
use switchboard::connection::RetryPolicy;
use switchboard::pool::{Pool, Tool};
use switchboard::request::RequestOptions;
use switchboard::sources::loader::Configuration;
use switchboard::{Host, Snapshot, ToolCall, pool_from_catalogues};
use tokio::sync::mpsc;

use crate::call_args;
use crate::call_args::{CallArguments, UnknownArgument};
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::lookup;
use crate::invocation::options::parse_mode;
use crate::outcome::{CommandOutput, Failure};
use crate::output::report;
use crate::output::style::{TextStyle, paint};
use crate::output::tool_output;
use crate::output::unusable_files;
use crate::prompt::progress_bar::ProgressBar;
use crate::runtime::call_context;
use crate::runtime::host;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::login;
use crate::runtime::readiness::ReadyOptions;
use crate::runtime::servers;
use crate::runtime::variables;

/// The default timeout of a tool call.
const TOOL_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a server may take to process a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// How many progress notifications are queued.
const PROGRESS_BUFFER: usize = 16;

/// Arguments of `swb call`.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The tool's name, as shown by `swb tools`, or SERVER/TOOL
    pub tool: String,
    /// Arguments: key=value, key:=json, key=@file, one JSON object, or - for standard input. The tool's schema gives
    /// key=value its type
    pub arguments: Vec<String>,
    /// Read the arguments from a file with a JSON object; other arguments add to it or replace what it says
    #[arg(long, value_name = "FILE")]
    pub args_file: Option<PathBuf>,
    /// Required servers.
    #[command(flatten)]
    pub ready: ReadyOptions,
    /// The permission mode: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long = "permission-mode", visible_alias = "mode", value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<PermissionMode>,
}

/// Runs the command.
pub fn run(arguments: &CallArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let call_arguments = arguments.parse(invocation)?;
    let timeout = variables::duration_variable(invocation, "MCP_TOOL_TIMEOUT", TOOL_TIMEOUT)?;
    let names = lookup::servers_of_tool(&configuration, &arguments.tool);
    match names.as_slice() {
        [] => expect_built_in(invocation, &configuration, &arguments.tool)?,
        [name] => drop(servers::startable_server(invocation, &configuration, name)?),
        [_, _, ..] => {}
    }
    arguments.ready.expect_startable(invocation, &configuration)?;
    let started = arguments.started_servers(names);
    if started.is_empty() {
        report::print_stderr(&servers::unapproved_note(&configuration, &started));
    }
    let output = host::with_host_and_interrupts(
        invocation,
        RetryPolicy::NoRetry,
        async |host, interrupts| {
            servers::apply_configuration(host, &configuration, &started).await;
            let snapshot = tokio::select! {
                snapshot = wait_for_tool(invocation, host, &arguments.tool, &arguments.ready) => snapshot,
                () = interrupts.next() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
            };
            arguments.ready.expect_connected(&snapshot)?;
            let tool = tool_named(&host.pool(), &arguments.tool).cloned();
            let context =
                call_context::call_context(invocation, &configuration, host, arguments.mode)?;
            let (progress_sender, mut progress) = mpsc::channel(PROGRESS_BUFFER);
            let call = ToolCall {
                caller: "cli".to_owned(),
                call_id: None,
                exposed_name: match &tool {
                    Some(tool) => tool.exposed_name.clone(),
                    None => arguments.tool.clone(),
                },
                arguments: typed_arguments(tool.as_deref(), call_arguments),
                options: RequestOptions {
                    progress: Some(progress_sender),
                    ..RequestOptions::new(timeout)
                },
            };
            let outcome = {
                let mut bar =
                    ProgressBar::new(invocation.progress_width(), invocation.prompt.clone());
                let calling = host.call_with(&context, call);
                tokio::pin!(calling);
                loop {
                    tokio::select! {
                        outcome = &mut calling => break Some(outcome),
                        Some(notification) = progress.recv() => bar.update(&notification),
                        () = bar.wait_until_due() => bar.draw(),
                        // Dropping the call cancels it at the server.
                        () = interrupts.next() => break None,
                    }
                }
            };
            if outcome.is_none() {
                let server = tool.map(|tool| tool.server.clone());
                wait_for_cancellation(host, server, interrupts).await;
            }
            context.audit.flush().await;
            call_context::warn_about_lost_records(invocation, &context.audit);
            match outcome {
                Some(Ok(output)) => Ok(output),
                Some(Err(error)) => {
                    let pool = host.pool();
                    let connected = (&*snapshot, &*pool);
                    let failure =
                        server_failure::explain(invocation, &configuration, &error, connected)
                            .unwrap_or_else(|| {
                                let failure = tool_output::call_failure(&error, &snapshot);
                                unusable_files::or_not_found(&configuration, failure)
                            });
                    Err(login::with_scope_hint(failure, host, &arguments.tool).await)
                }
                None => Err(Failure::new(Exit::Interrupted, "the call was cancelled")),
            }
        },
    )?;
    Ok(match invocation.wants_json() {
        true => tool_output::json(&output),
        false => tool_output::text(&output),
    })
}

/// Fails if a name that no server owns is not that of a built-in tool, so that no server is started for it.
pub(super) fn expect_built_in(
    invocation: &Invocation,
    configuration: &Configuration,
    tool: &str,
) -> Result<(), Failure> {
    if pool_from_catalogues(&[], &configuration.rules).find(tool).is_some() {
        return Ok(());
    }
    if let Some(server) = lookup::unselected_server_of_tool(configuration, tool) {
        return Err(servers::not_startable(invocation, server));
    }
    let failure = Failure::new(Exit::NotFound, &format!("there is no tool `{}`", printable(tool)));
    let known = servers::remembered_pool(invocation, configuration);
    let failure = match known.nearest(tool, 1).first() {
        Some(nearest) => {
            failure.hint(&format!("did you mean `{}`?", printable(&nearest.exposed_name)))
        }
        None => failure.hint("`swb tools` lists all tools"),
    };
    Err(unusable_files::or_not_found(configuration, failure))
}

/// Pings the server after a cancellation, so that it has read the cancellation before the connection closes. Ends at
/// a timeout or at a second interrupt.
async fn wait_for_cancellation(host: &Host, server: Option<String>, interrupts: &mut Interrupts) {
    let Some(server) = server else { return };
    tokio::select! {
        _heard_or_not = host.ping(&server, CANCEL_TIMEOUT) => {}
        () = interrupts.next() => {}
    }
}

impl CallArgs {
    fn parse(&self, invocation: &Invocation) -> Result<CallArguments, Failure> {
        let folder = &invocation.env.working_folder;
        match &self.args_file {
            Some(file) => call_args::parse_with_file(file, &self.arguments, folder),
            None => call_args::parse(&self.arguments, folder),
        }
    }

    /// The servers of the tool and the required ones; empty for all servers.
    fn started_servers(&self, of_tool: Vec<String>) -> Vec<String> {
        match of_tool.is_empty() {
            true => of_tool,
            false => of_tool.into_iter().chain(self.ready.require.iter().cloned()).collect(),
        }
    }
}

/// The arguments as the tool's schema types them. Warns of those that the schema does not name.
fn typed_arguments(tool: Option<&Tool>, arguments: CallArguments) -> Json {
    let Some(tool) = tool else { return arguments.into_json() };
    let name = printable(&tool.exposed_name);
    for UnknownArgument { name: argument, nearest } in arguments.unknown_to(tool) {
        let suggestion = match nearest {
            Some(nearest) => format!("; did you mean `{}`?", printable(&nearest)),
            None => format!("; `swb describe {name}` shows its arguments"),
        };
        let warning = paint(TextStyle::Warning, "warning:");
        let argument = printable(&argument);
        report::print_stderr(&format!(
            "{warning} `{name}` has no argument `{argument}`{suggestion}\n"
        ));
    }
    arguments.typed_for(tool)
}

/// Waits until the tool is available and the required servers are settled, or until all started servers are settled or
/// the time is over.
pub(super) async fn wait_for_tool(
    invocation: &Invocation,
    host: &Host,
    tool: &str,
    ready: &ReadyOptions,
) -> Arc<Snapshot> {
    let is_there = || tool_named(&host.pool(), tool).is_some_and(|it| !it.is_built_in());
    let deadline = ready.deadline();
    let snapshot = servers::wait_until_settled(invocation, host, deadline, |snapshot| {
        let are_required_settled = || servers::are_settled(snapshot, &ready.require);
        snapshot.is_settled() || (is_there() && are_required_settled())
    })
    .await;
    host.settled_pool().await;
    snapshot
}

/// The tool with this exposed name, or the one that `server/tool` or `server.tool` names.
pub(super) fn tool_named<'p>(pool: &'p Pool, name: &str) -> Option<&'p Arc<Tool>> {
    let by_server = || {
        let separators = name.match_indices(['/', '.']);
        separators
            .filter_map(|(at, it)| pool.find_by_server(&name[..at], &name[at + it.len()..]))
            .next()
    };
    pool.find(name).or_else(by_server)
}

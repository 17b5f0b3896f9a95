//! `swb call`: calls a tool and prints its output.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use switchboard::audit::log::AuditLog;
use switchboard::call::pipeline::ToolCall;
use switchboard::config::display::printable;
use switchboard::config::permission::PermissionMode;
use switchboard::connection::state::RetryPolicy;
use switchboard::host::{Host, Snapshot};
use switchboard::request::send::RequestOptions;
use tokio::sync::mpsc;

use crate::call_args;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::invocation::options::parse_mode;
use crate::outcome::{CommandOutput, Failure};
use crate::output::report;
use crate::output::style::{TextStyle, paint};
use crate::output::tool_output;
use crate::prompt::progress_bar::ProgressBar;
use crate::runtime::call_context;
use crate::runtime::host;
use crate::runtime::interrupts::Interrupts;
use crate::runtime::login;
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
    /// The tool's name, as shown by `swb tools`
    pub tool: String,
    /// Arguments: key=value, key:=json, key=@file, one JSON object, or - for standard input
    pub arguments: Vec<String>,
    /// The permission mode: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub mode: Option<PermissionMode>,
}

/// Runs the command.
pub fn run(arguments: &CallArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = invocation.load()?;
    let call_arguments = call_args::parse(&arguments.arguments, &invocation.env.working_folder)?;
    let timeout = variables::duration_variable(invocation, "MCP_TOOL_TIMEOUT", TOOL_TIMEOUT)?;
    let output = host::with_host_and_interrupts(
        invocation,
        RetryPolicy::NoRetry,
        async |host, interrupts| {
            servers::apply_configuration(host, &configuration, &[]).await;
            let snapshot = tokio::select! {
                snapshot = wait_for_tool(invocation, host, &arguments.tool) => snapshot,
                () = interrupts.next() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
            };
            let context =
                call_context::call_context(invocation, &configuration, host, arguments.mode)?;
            let (progress_sender, mut progress) = mpsc::channel(PROGRESS_BUFFER);
            let call = ToolCall {
                caller: "cli".to_owned(),
                exposed_name: arguments.tool.clone(),
                arguments: call_arguments,
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
                let server = host.pool().find(&arguments.tool).map(|tool| tool.server.clone());
                wait_for_cancellation(host, server, interrupts).await;
            }
            context.audit.flush().await;
            warn_if_unrecorded(invocation, &context.audit);
            match outcome {
                Some(Ok(output)) => Ok(output),
                Some(Err(error)) => {
                    let failure = tool_output::call_failure(&error, &snapshot);
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

/// Warns if the call could not be written to the audit log.
fn warn_if_unrecorded(invocation: &Invocation, audit: &AuditLog) {
    if let Some(error) = audit.lost_records().error {
        let path = invocation.display_path(&invocation.env.paths.audit());
        report::print_stderr(&format!(
            "{} this call is not in the audit log: {path} cannot be written: {}\n",
            paint(TextStyle::Warning, "warning:"),
            printable(&error.to_string())
        ));
    }
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

/// Waits until the tool is available, or until all servers are settled.
async fn wait_for_tool(invocation: &Invocation, host: &Host, tool: &str) -> Arc<Snapshot> {
    let is_there = || host.pool().find(tool).is_some_and(|it| !it.is_built_in());
    let snapshot = servers::wait_until_settled(invocation, host, None, |snapshot| {
        snapshot.is_settled() || is_there()
    })
    .await;
    host.settled_pool().await;
    snapshot
}

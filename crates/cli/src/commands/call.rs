//! `swb call`: calls a tool, under the rules, and shows what comes back.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::audit::log::AuditLog;
use switchboard::call::pipeline::{ToolCall, ToolCallError};
use switchboard::config::display::printable;
use switchboard::config::permission::PermissionMode;
use switchboard::connection::state::RetryPolicy;
use switchboard::host::{Host, Snapshot};
use switchboard::request::send::{RequestError, RequestOptions};
use switchboard::tool_result::{ContentBlock, ToolOutput};
use tokio::sync::mpsc;

use crate::call_args;
use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::connection_text;
use crate::output::report;
use crate::output::style::{TextStyle, paint};
use crate::prompt::progress_bar::ProgressBar;
use crate::runtime::call_context;
use crate::runtime::host;
use crate::runtime::host::Interrupts;

/// How long a tool may be silent, unless told otherwise.
const TOOL_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a server may take to hear that its call was cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// How many signs of progress may wait to be shown.
const PROGRESS_BUFFER: usize = 16;

/// Arguments of `swb call`.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// The tool, by the name that `swb tools` shows
    pub tool: String,
    /// Its arguments: key=value, key:=json, key=@file, one JSON object, or - for standard input
    pub arguments: Vec<String>,
    /// How much is asked: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long, value_name = "MODE", value_parser = super::permissions::parse_mode)]
    pub mode: Option<PermissionMode>,
}

/// Runs the command.
pub fn run(arguments: &CallArgs, session: &Invocation) -> Result<CommandOutput, Failure> {
    let configuration = session.load()?;
    let call_arguments = call_args::parse(&arguments.arguments, &session.env.working_folder)?;
    let timeout = host::duration_variable(session, "MCP_TOOL_TIMEOUT", TOOL_TIMEOUT)?;
    let output = host::with_host_and_interrupts(
        session,
        RetryPolicy::NoRetry,
        async |host, interrupts| {
            host::apply_configuration(host, &configuration, &[]).await;
            let snapshot = tokio::select! {
                snapshot = wait_for_tool(session, host, &arguments.tool) => snapshot,
                () = interrupts.next() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
            };
            let context =
                call_context::call_context(session, &configuration, host, arguments.mode)?;
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
                let mut bar = ProgressBar::new(session);
                let calling = host.call_with(&context, call);
                tokio::pin!(calling);
                loop {
                    tokio::select! {
                        outcome = &mut calling => break Some(outcome),
                        Some(notification) = progress.recv() => bar.update(&notification),
                        () = bar.wait_until_due() => bar.draw(),
                        // Whoever drops the call has the server told.
                        () = interrupts.next() => break None,
                    }
                }
            };
            if outcome.is_none() {
                let server = host.pool().find(&arguments.tool).map(|tool| tool.server.clone());
                wait_for_cancellation(host, server, interrupts).await;
            }
            context.audit.flush().await;
            warn_if_unrecorded(session, &context.audit);
            match outcome {
                Some(Ok(output)) => Ok(output),
                Some(Err(error)) => {
                    let failure = call_failure(&error, &snapshot);
                    Err(with_scope_hint(failure, host, &arguments.tool).await)
                }
                None => Err(Failure::new(Exit::Interrupted, "the call was cancelled")),
            }
        },
    )?;
    Ok(tool_output(session, &output))
}

/// A call that left no trace is one that somebody should know of.
fn warn_if_unrecorded(session: &Invocation, audit: &AuditLog) {
    if let Some(error) = audit.lost_records().error {
        let path = session.display_path(&session.env.paths.audit());
        report::print_stderr(&format!(
            "{} this call is not in the audit log: {path} cannot be written: {}\n",
            paint(TextStyle::Warning, "warning:"),
            printable(&error.to_string())
        ));
    }
}

/// Waits until a server has surely heard that a call was cancelled: it answers what is asked behind that. Not for
/// long, and not where somebody is in a hurry.
async fn wait_for_cancellation(host: &Host, server: Option<String>, interrupts: &mut Interrupts) {
    let Some(server) = server else { return };
    tokio::select! {
        _heard_or_not = host.ping(&server, CANCEL_TIMEOUT) => {}
        () = interrupts.next() => {}
    }
}

/// Waits for the server whose tool is wanted, where the name tells which; else for all.
async fn wait_for_tool(session: &Invocation, host: &Host, tool: &str) -> Arc<Snapshot> {
    let is_there = || host.pool().find(tool).is_some_and(|it| !it.is_built_in());
    let snapshot = host::wait_until_settled(session, host, None, |snapshot| {
        snapshot.is_settled() || is_there()
    })
    .await;
    host.settled_pool().await;
    snapshot
}

/// A call that has no result, and what helps.
pub(crate) fn call_failure(error: &ToolCallError, snapshot: &Snapshot) -> Failure {
    match error {
        ToolCallError::UnknownTool { nearest, .. } => {
            let failure = Failure::new(Exit::NotFound, &error.to_string());
            let problems: String =
                snapshot.servers.values().map(|it| connection_text::problem_text(it)).collect();
            let failure = failure.detail(problems);
            match nearest.first() {
                Some(nearest) => failure.hint(&format!("did you mean `{nearest}`?")),
                None => failure.hint("`swb tools` lists what there is"),
            }
        }
        ToolCallError::InvalidArguments { faults, tool } => {
            let lines = faults.iter().map(|fault| format!("  {}\n", printable(&fault.to_string())));
            Failure::new(Exit::Usage, &error.to_string())
                .detail(lines.collect())
                .hint(&format!("`swb search {tool} --json` shows what it takes"))
        }
        ToolCallError::Denied { tool, .. } => Failure::new(Exit::Policy, &error.to_string())
            .hint(&format!("`swb permissions explain {tool}` says what decided")),
        ToolCallError::Request(RequestError::NotConnected(view)) => {
            super::ping::not_connected(view)
        }
        ToolCallError::Request(error) => {
            Failure::new(Exit::Connection, "the call failed").caused_by(error)
        }
    }
}

/// A failure that a login for more would mend says so.
pub(crate) async fn with_scope_hint(failure: Failure, host: &Host, tool: &str) -> Failure {
    let pool = host.pool();
    let Some(tool) = pool.find(tool).filter(|_| failure.exit == Exit::Connection) else {
        return failure;
    };
    match host.required_scopes(&tool.server).await {
        None => failure,
        Some(scopes) => {
            let hint = format!("`swb login {} --scopes {}`", tool.server, scopes.join(","));
            let causes = vec!["the login is not for this: the server wants more scopes".to_owned()];
            Failure { exit: Exit::LoginRequired, causes, ..failure }.hint(&hint)
        }
    }
}

/// What comes back, for people or programs.
pub(crate) fn tool_output(session: &Invocation, output: &ToolOutput) -> CommandOutput {
    let exit = output.is_error.then_some(Exit::ToolFailed);
    if session.wants_json() {
        let done = super::json_output(&tool_output_json(output));
        return CommandOutput { exit, ..done };
    }
    let mut text = String::new();
    for part in &output.blocks {
        text.push_str(&block_text(part));
    }
    let remarks = output.notes.iter().map(|it| format!("note: {}\n", printable(&it.to_string())));
    CommandOutput { exit, ..CommandOutput::text(text).note(remarks.collect::<String>()) }
}

fn block_text(part: &ContentBlock) -> String {
    match part {
        ContentBlock::Text { text, .. } => {
            text.lines().map(|line| printable_with_tabs(line) + "\n").collect()
        }
        ContentBlock::Image { mime, width, height, .. } => format!("[{mime}, {width}×{height}]\n"),
        ContentBlock::Saved { path, mime, bytes, .. } => {
            let mime = mime.as_deref().unwrap_or("data");
            format!(
                "[{}, {bytes} bytes: {}]\n",
                printable(mime),
                printable(&path.display().to_string())
            )
        }
        ContentBlock::NotSaved { mime, .. } => {
            format!("[{}, not saved]\n", printable(mime.as_deref().unwrap_or("data")))
        }
        ContentBlock::Link { uri, .. } => format!("[resource {}]\n", printable(uri)),
        ContentBlock::Unknown { kind, .. } => format!("[{}]\n", printable(kind)),
    }
}

pub(super) fn tool_output_json(output: &ToolOutput) -> Json {
    let part = |part: &ContentBlock| match part {
        ContentBlock::Text { text, from_uri } => {
            json!({"type": "text", "text": text, "uri": from_uri})
        }
        ContentBlock::Image { mime, base64, width, height } => {
            json!({"type": "image", "mimeType": mime, "data": base64, "width": width, "height": height})
        }
        ContentBlock::Saved { path, mime, bytes, from_uri } => {
            json!({"type": "saved", "path": path, "mimeType": mime, "bytes": bytes, "uri": from_uri})
        }
        ContentBlock::NotSaved { mime, from_uri } => {
            json!({"type": "unsaved", "mimeType": mime, "uri": from_uri})
        }
        ContentBlock::Link { raw, .. } | ContentBlock::Unknown { raw, .. } => {
            raw.decode().unwrap_or_default()
        }
    };
    json!({
        "isError": output.is_error,
        "content": output.blocks.iter().map(part).collect::<Vec<_>>(),
        "structuredContent": output.structured.as_ref().and_then(|it| it.decode::<Json>().ok()),
        "notes": output.notes.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// A line made harmless; tabs stay, for they move nothing but what follows them.
pub(super) fn printable_with_tabs(line: &str) -> String {
    line.split('\t').map(printable).collect::<Vec<_>>().join("\t")
}

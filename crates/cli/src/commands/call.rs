//! `swb call`: calls a tool, under the rules, and shows what comes back.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::ask::AskError;
use switchboard::audit::Audit;
use switchboard::calling::{CallFailure, ToolCall};
use switchboard::config::permission::Mode;
use switchboard::config::shown::printable;
use switchboard::connection::state::Persistence;
use switchboard::engine::{Host, Snapshot};
use switchboard::yielded::{Part, Yield};
use tokio::sync::mpsc;

use crate::connected;
use crate::desk;
use crate::exit::Exit;
use crate::given;
use crate::live::{self, Interrupts};
use crate::outcome::{Done, Failure};
use crate::progress::ProgressBar;
use crate::report;
use crate::session::Session;
use crate::style::{Meaning, paint};

/// How long a tool may be silent, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a server may take to hear that its call was cancelled.
const FAREWELL: Duration = Duration::from_secs(1);
/// How many signs of progress may wait to be shown.
const SIGNS: usize = 16;

/// Arguments of `swb call`.
#[derive(Debug, Args)]
pub struct Call {
    /// The tool, by the name that `swb tools` shows
    pub tool: String,
    /// Its arguments: key=value, key:=json, key=@file, one JSON object, or - for standard input
    pub arguments: Vec<String>,
    /// How much is asked: plan, dontAsk, default, acceptEdits, bypass
    #[arg(long, value_name = "MODE", value_parser = super::permissions::parse_mode)]
    pub mode: Option<Mode>,
}

/// Runs the command.
pub fn run(arguments: &Call, session: &Session) -> Result<Done, Failure> {
    let configuration = session.load()?;
    let given = given::arguments(&arguments.arguments, &session.machine.working_folder)?;
    let patience = live::milliseconds(session, "MCP_TOOL_TIMEOUT", PATIENCE)?;
    let yielded = live::attended(session, Persistence::Once, async |host, interrupts| {
        live::apply(host, &configuration, &[]).await;
        let snapshot = tokio::select! {
            snapshot = settled(session, host, &arguments.tool) => snapshot,
            () = interrupts.next() => return Err(Failure::new(Exit::Interrupted, "interrupted")),
        };
        let desk = desk::desk(session, &configuration, host, arguments.mode)?;
        let (signs, mut progress) = mpsc::channel(SIGNS);
        let call = ToolCall {
            caller: "cli".to_owned(),
            exposed: arguments.tool.clone(),
            arguments: given,
            patience,
            progress: Some(signs),
        };
        let outcome = {
            let mut bar = ProgressBar::new(session);
            let calling = host.call(&desk, call);
            tokio::pin!(calling);
            loop {
                tokio::select! {
                    outcome = &mut calling => break Some(outcome),
                    Some(sign) = progress.recv() => bar.show(&sign),
                    () = bar.due() => bar.draw(),
                    // Whoever drops the call has the server told.
                    () = interrupts.next() => break None,
                }
            }
        };
        if outcome.is_none() {
            let server = host.pool().find(&arguments.tool).map(|tool| tool.server.clone());
            farewell(host, server, interrupts).await;
        }
        desk.audit.settle().await;
        say_what_was_not_recorded(session, &desk.audit);
        match outcome {
            Some(Ok(yielded)) => Ok(yielded),
            Some(Err(error)) => {
                let failure = failure(&error, &snapshot);
                Err(with_scopes(failure, host, &arguments.tool).await)
            }
            None => Err(Failure::new(Exit::Interrupted, "the call was cancelled")),
        }
    })?;
    Ok(show(session, &yielded))
}

/// A call that left no trace is one that somebody should know of.
fn say_what_was_not_recorded(session: &Session, audit: &Audit) {
    if let Some(error) = audit.refused().error {
        let path = session.shown_path(&session.machine.places.audit());
        report::aside(&format!(
            "{} this call is not in the audit log: {path} cannot be written: {}\n",
            paint(Meaning::Doubtful, "warning:"),
            printable(&error.to_string())
        ));
    }
}

/// Waits until a server has surely heard that a call was cancelled: it answers what is asked behind that. Not for
/// long, and not where somebody is in a hurry.
async fn farewell(host: &Host, server: Option<String>, interrupts: &mut Interrupts) {
    let Some(server) = server else { return };
    tokio::select! {
        _heard_or_not = host.ping(&server, FAREWELL) => {}
        () = interrupts.next() => {}
    }
}

/// Waits for the server whose tool is wanted, where the name tells which; else for all.
async fn settled(session: &Session, host: &Host, tool: &str) -> Arc<Snapshot> {
    let is_there = || host.pool().find(tool).is_some_and(|it| !it.is_built_in());
    let snapshot =
        live::settle(session, host, None, |snapshot| snapshot.is_settled() || is_there()).await;
    host.settled_pool().await;
    snapshot
}

/// A call that has no result, and what helps.
pub(crate) fn failure(error: &CallFailure, snapshot: &Snapshot) -> Failure {
    match error {
        CallFailure::NoTool { nearest, .. } => {
            let failure = Failure::new(Exit::NotFound, &error.to_string());
            let troubles: String =
                snapshot.servers.values().map(|it| connected::trouble(it)).collect();
            let failure = failure.detail(troubles);
            match nearest.first() {
                Some(nearest) => failure.hint(&format!("did you mean `{nearest}`?")),
                None => failure.hint("`swb tools` lists what there is"),
            }
        }
        CallFailure::Arguments { faults, tool } => {
            let lines = faults.iter().map(|fault| format!("  {}\n", printable(&fault.to_string())));
            Failure::new(Exit::Usage, &error.to_string())
                .detail(lines.collect())
                .hint(&format!("`swb search {tool} --json` shows what it takes"))
        }
        CallFailure::Denied { tool, .. } => Failure::new(Exit::Policy, &error.to_string())
            .hint(&format!("`swb permissions explain {tool}` says what decided")),
        CallFailure::Ask(AskError::NotConnected(view)) => super::ping::not_connected(view),
        CallFailure::Ask(error) => Failure::new(Exit::Connection, "the call failed").because(error),
    }
}

/// A failure that a login for more would mend says so.
pub(crate) async fn with_scopes(failure: Failure, host: &Host, tool: &str) -> Failure {
    let pool = host.pool();
    let Some(tool) = pool.find(tool).filter(|_| failure.exit == Exit::Connection) else {
        return failure;
    };
    match host.scopes_wanted(&tool.server).await {
        None => failure,
        Some(scopes) => {
            let hint = format!("`swb login {} --scopes {}`", tool.server, scopes.join(","));
            let causes = vec!["the login is not for this: the server wants more scopes".to_owned()];
            Failure { exit: Exit::Login, causes, ..failure }.hint(&hint)
        }
    }
}

/// What comes back, for people or programs.
pub(crate) fn show(session: &Session, yielded: &Yield) -> Done {
    let exit = yielded.is_error.then_some(Exit::Tool);
    if session.wants_json() {
        let done = super::json(&as_json(yielded));
        return Done { exit, ..done };
    }
    let mut text = String::new();
    for part in &yielded.parts {
        text.push_str(&part_text(part));
    }
    let remarks =
        yielded.remarks.iter().map(|it| format!("note: {}\n", printable(&it.to_string())));
    Done { exit, ..Done::text(text).note(remarks.collect::<String>()) }
}

fn part_text(part: &Part) -> String {
    match part {
        Part::Text { text, .. } => text.lines().map(|line| tabbed(line) + "\n").collect(),
        Part::Image { mime, width, height, .. } => format!("[{mime}, {width}×{height}]\n"),
        Part::Saved { path, mime, bytes, .. } => {
            let mime = mime.as_deref().unwrap_or("data");
            format!(
                "[{}, {bytes} bytes: {}]\n",
                printable(mime),
                printable(&path.display().to_string())
            )
        }
        Part::Unsaved { mime, .. } => {
            format!("[{}, not saved]\n", printable(mime.as_deref().unwrap_or("data")))
        }
        Part::Link { uri, .. } => format!("[resource {}]\n", printable(uri)),
        Part::Unknown { kind, .. } => format!("[{}]\n", printable(kind)),
    }
}

pub(super) fn as_json(yielded: &Yield) -> Json {
    let part = |part: &Part| match part {
        Part::Text { text, from_uri } => json!({"type": "text", "text": text, "uri": from_uri}),
        Part::Image { mime, base64, width, height } => {
            json!({"type": "image", "mimeType": mime, "data": base64, "width": width, "height": height})
        }
        Part::Saved { path, mime, bytes, from_uri } => {
            json!({"type": "saved", "path": path, "mimeType": mime, "bytes": bytes, "uri": from_uri})
        }
        Part::Unsaved { mime, from_uri } => {
            json!({"type": "unsaved", "mimeType": mime, "uri": from_uri})
        }
        Part::Link { raw, .. } | Part::Unknown { raw, .. } => raw.decode().unwrap_or_default(),
    };
    json!({
        "isError": yielded.is_error,
        "content": yielded.parts.iter().map(part).collect::<Vec<_>>(),
        "structuredContent": yielded.structured.as_ref().and_then(|it| it.decode::<Json>().ok()),
        "notes": yielded.remarks.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// A line made harmless; tabs stay, for they move nothing but what follows them.
pub(super) fn tabbed(line: &str) -> String {
    line.split('\t').map(printable).collect::<Vec<_>>().join("\t")
}

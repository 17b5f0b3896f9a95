//! `swb approvals`: lists and decides calls of gateway clients that wait for approval.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use switchboard::config::display::printable;
use switchboard::permission::{GrantScope, PermissionDecision};
use switchboard_gateway::PendingApproval;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::json::json_line;
use crate::output::json::json_output;
use crate::output::report;
use crate::output::report::StdoutState;
use crate::output::table;
use crate::output::table::{Cell, Truncate};
use crate::prompt::permission::ProposedCall;
use crate::runtime::control;
use crate::runtime::control::approvals;
use crate::runtime::interrupts::{self, Interrupts};

/// How often running gateways are polled while watching.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Arguments of `swb approvals`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ApprovalsArgs {
    /// The decision; without one, waiting calls are listed.
    #[command(subcommand)]
    pub action: Option<ApprovalsAction>,
    /// Keep running and prompt for each call as it arrives
    #[arg(long, short)]
    pub watch: bool,
}

/// The decision about a call.
#[derive(Debug, Subcommand)]
pub enum ApprovalsAction {
    /// Allow a call
    Allow(AllowArgs),
    /// Deny a call
    Deny(DenyArgs),
}

/// Arguments of `swb approvals allow`.
#[derive(Debug, Args)]
pub struct AllowArgs {
    /// The call's number from the list
    #[arg(value_parser = CallNumber::parse)]
    pub number: CallNumber,
    /// Also allow this tool for this client until the gateway stops
    #[arg(long)]
    pub session: bool,
    /// Also allow this tool for every client, as a rule in the local settings of the gateway's project
    #[arg(long, conflicts_with = "session")]
    pub always: bool,
}

/// Arguments of `swb approvals deny`.
#[derive(Debug, Args)]
pub struct DenyArgs {
    /// The call's number from the list
    #[arg(value_parser = CallNumber::parse)]
    pub number: CallNumber,
    /// The reason to give to the caller
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// The number of a call: `3`, or `4711.3` if several gateways run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallNumber {
    process: Option<u32>,
    number: u64,
}

impl CallNumber {
    fn parse(text: &str) -> Result<CallNumber, String> {
        let invalid = || "expected a number from the list".to_owned();
        let (process, number) = match text.split_once('.') {
            Some((process, number)) => (Some(process.parse().map_err(|_| invalid())?), number),
            None => (None, text),
        };
        Ok(CallNumber { process, number: number.parse().map_err(|_| invalid())? })
    }
}

/// A waiting call, and the process it waits in.
#[derive(Debug)]
struct WaitingCall {
    process: u32,
    call: PendingApproval,
}

/// Runs the command.
pub fn run(arguments: &ApprovalsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    match (&arguments.action, arguments.watch) {
        (Some(ApprovalsAction::Allow(allow)), _) => allow_call(allow, invocation),
        (Some(ApprovalsAction::Deny(deny)), _) => {
            let entry = find_call(&waiting_calls(invocation)?, deny.number)?;
            let request = match &deny.reason {
                Some(reason) => approvals::decision_request(
                    &entry.call,
                    &PermissionDecision::Deny(reason.clone()),
                ),
                None => Some(json!({"approvals": "deny", "number": entry.call.id})),
            };
            send_decision(invocation, &entry, request, "denied")
        }
        (None, true) => watch(invocation),
        (None, false) => Ok(list_output(invocation, &waiting_calls(invocation)?)),
    }
}

fn control_failure(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failure, "other swb processes cannot be reached").caused_by(error)
}

/// Every waiting call, the oldest first.
fn waiting_calls(invocation: &Invocation) -> Result<Vec<WaitingCall>, Failure> {
    let folder = invocation.env.paths.control_sockets();
    let responses =
        control::request_all(&folder, &approvals::list_request()).map_err(control_failure)?;
    let mut entries: Vec<WaitingCall> = responses
        .iter()
        .flat_map(|response| {
            let calls = response.body["waiting"].as_array().map(Vec::as_slice).unwrap_or_default();
            calls.iter().filter_map(approvals::from_json).map(|waiting| (response.process, waiting))
        })
        .map(|(process, waiting)| WaitingCall { process, call: waiting })
        .collect();
    entries.sort_by_key(|it| (it.call.requested_at, it.process, it.call.id));
    Ok(entries)
}

fn list_output(invocation: &Invocation, entries: &[WaitingCall]) -> CommandOutput {
    if invocation.wants_json() {
        let calls: Vec<Json> = entries.iter().map(WaitingCall::json).collect();
        return json_output(&json!({"waiting": calls}));
    }
    if entries.is_empty() {
        return CommandOutput::text("No calls are waiting.\n");
    }
    let is_alone = entries.iter().all(|it| it.process == entries[0].process);
    let header = ["NUMBER", "CLIENT", "SERVER", "TOOL", "ARGUMENTS", "WAITS", "WHY"];
    let row = |entry: &WaitingCall| {
        let WaitingCall { process, call: waiting } = entry;
        let number = match is_alone {
            true => waiting.id.to_string(),
            false => format!("{process}.{}", waiting.id),
        };
        let waits = waiting.requested_at.elapsed().unwrap_or_default().as_secs();
        vec![
            Cell::plain(number),
            Cell::plain(printable(&waiting.caller)),
            Cell::plain(printable(&waiting.server)),
            Cell::plain(printable(&waiting.tool)),
            Cell::plain(printable(&waiting.arguments.to_string())),
            Cell::plain(format!("{waits} s")),
            Cell::plain(printable(&waiting.reason)),
        ]
    };
    let rows: Vec<Vec<Cell>> = entries.iter().map(row).collect();
    let truncated_columns = [Truncate::End(4), Truncate::End(6), Truncate::End(3)];
    CommandOutput::text(table::render(
        &header,
        &rows,
        invocation.env.terminal.width,
        &truncated_columns,
    ))
}

impl WaitingCall {
    fn json(&self) -> Json {
        let mut json = approvals::to_json(&self.call);
        json["process"] = self.process.into();
        json
    }
}

fn find_call(entries: &[WaitingCall], number: CallNumber) -> Result<WaitingCall, Failure> {
    let is_meant = |it: &&WaitingCall| {
        it.call.id == number.number && number.process.is_none_or(|process| it.process == process)
    };
    let mut meant = entries.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(entry), None) => Ok(WaitingCall { process: entry.process, call: entry.call.clone() }),
        (Some(one), Some(other)) => {
            let number = number.number;
            let message = format!("several gateways have a call {number}");
            let hint = format!("`{}.{number}` or `{}.{number}`", one.process, other.process);
            Err(Failure::new(Exit::Conflict, &message).hint(&hint))
        }
        (None, _) => Err(no_such_call(number.number)),
    }
}

fn no_such_call(number: u64) -> Failure {
    Failure::new(Exit::NotFound, &format!("no call {number} is waiting"))
        .hint("`swb approvals` lists the waiting calls")
}

fn allow_call(allow: &AllowArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let entry = find_call(&waiting_calls(invocation)?, allow.number)?;
    let decided_by = String::new();
    let scope = match (
        allow.session || allow.always,
        ProposedCall::from_pending(&entry.call).tool_rule(),
    ) {
        (false, _) => GrantScope::Once,
        (true, Some(suggestion)) if allow.session => GrantScope::Session(suggestion.rule.clone()),
        (true, Some(suggestion)) => GrantScope::Always(suggestion.rule.clone()),
        (true, None) => {
            let message = "no rule can allow this call: an `ask` rule applies to it";
            let hint = format!("`swb approvals allow {}` allows it once", entry.call.id);
            return Err(Failure::new(Exit::Usage, message).hint(&hint));
        }
    };
    let request =
        approvals::decision_request(&entry.call, &PermissionDecision::Allow { decided_by, scope });
    send_decision(invocation, &entry, request, "allowed")
}

fn send_decision(
    invocation: &Invocation,
    entry: &WaitingCall,
    request: Option<Json>,
    word: &str,
) -> Result<CommandOutput, Failure> {
    let number = entry.call.id;
    if !deliver(invocation, entry, request)? {
        return Err(no_such_call(number));
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({word: entry.json()})));
    }
    let (server, tool) = (printable(&entry.call.server), printable(&entry.call.tool));
    let caller = printable(&entry.call.caller);
    Ok(CommandOutput::text(format!("`{tool}` of `{server}` is {word} for {caller}.\n")))
}

/// Sends the decision. Returns false if the call no longer waits.
fn deliver(
    invocation: &Invocation,
    entry: &WaitingCall,
    request: Option<Json>,
) -> Result<bool, Failure> {
    let Some(request) = request else { return Ok(false) };
    let folder = invocation.env.paths.control_sockets();
    let response =
        control::request_one(&folder, entry.process, &request).map_err(control_failure)?;
    Ok(response.is_some_and(|it| it["decided"].is_object()))
}

/// Prompts for one call after another until it is interrupted.
fn watch(invocation: &Invocation) -> Result<CommandOutput, Failure> {
    if !invocation.prompt.is_interactive() && !invocation.wants_json() {
        let message = "--watch needs a terminal";
        return Err(Failure::new(Exit::Usage, message)
            .hint("`swb approvals --watch --json` prints every waiting call as JSON"));
    }
    let runtime = interrupts::tokio_runtime()?;
    let watched = runtime.block_on(async {
        let mut interrupts = Interrupts::listen();
        tokio::select! {
            watched = watch_calls(invocation) => watched,
            () = interrupts.next() => Ok(()),
        }
    });
    // The keyboard thread may still wait for a line.
    runtime.shutdown_background();
    watched.map(|()| CommandOutput::default())
}

async fn watch_calls(invocation: &Invocation) -> Result<(), Failure> {
    let mut seen: Vec<(u32, u64)> = Vec::new();
    if !invocation.wants_json() {
        report::print_stderr("Waiting for calls that need a decision. Press Ctrl-C to stop.\n");
    }
    loop {
        let entries = waiting_calls(invocation)?;
        seen.retain(|it| entries.iter().any(|entry| entry.key() == *it));
        let new = entries.into_iter().find(|it| !seen.contains(&it.key()));
        let Some(entry) = new else {
            tokio::time::sleep(POLL_INTERVAL).await;
            continue;
        };
        seen.push(entry.key());
        match invocation.wants_json() {
            true => {
                if report::print_stdout(&json_line(&entry.json())) == StdoutState::Closed {
                    return Ok(());
                }
            }
            false => {
                if prompt_for(invocation, &entry).await? == UserPresence::Left {
                    return Ok(());
                }
            }
        }
    }
}

impl WaitingCall {
    fn key(&self) -> (u32, u64) {
        (self.process, self.call.id)
    }
}

/// Can the user still be prompted?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UserPresence {
    Present,
    Left,
}

/// Prompts for one call, until it is decided or withdrawn.
async fn prompt_for(invocation: &Invocation, entry: &WaitingCall) -> Result<UserPresence, Failure> {
    let proposed = ProposedCall::from_pending(&entry.call);
    let decision = tokio::select! {
        decision = invocation.prompt.ask_permission(&proposed) => decision,
        withdrawn = wait_until_withdrawn(invocation, entry) => {
            report::print_stderr("\n(the call ended)\n");
            return withdrawn.map(|()| UserPresence::Present);
        }
    };
    let request = match decision {
        // The input ended: the call keeps waiting for another decision.
        PermissionDecision::NoAnswer => return Ok(UserPresence::Left),
        decision @ (PermissionDecision::Allow { .. }
        | PermissionDecision::AllowChanged { .. }
        | PermissionDecision::Deny(_)
        | PermissionDecision::DeniedByUser) => approvals::decision_request(&entry.call, &decision),
    };
    if !deliver(invocation, entry, request)? {
        report::print_stderr("(too late: the call ended)\n");
    }
    Ok(UserPresence::Present)
}

async fn wait_until_withdrawn(invocation: &Invocation, entry: &WaitingCall) -> Result<(), Failure> {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if !waiting_calls(invocation)?.iter().any(|it| it.key() == entry.key()) {
            return Ok(());
        }
    }
}

//! `swb host`: shows and stops the shared host, the process that keeps servers which several sessions use.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::json;
use switchboard::config::display::{format_bytes, pluralize};
use switchboard::sharing::share::client::{ClientError, SharedHostClient};
use switchboard::sharing::share::protocol::{Build, HostStatus};
use switchboard::wire::process::memory_use;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::age::short_age;
use crate::output::json::json_output;
use crate::runtime::interrupts::tokio_runtime;
use crate::runtime::server_log;
use crate::runtime::sharing;

/// How long the host may take to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Arguments of `swb host`.
#[derive(Debug, Args)]
pub struct HostArgs {
    /// What to do; the status by default.
    #[command(subcommand)]
    pub command: Option<HostCommand>,
}

/// The subcommands of `swb host`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Show the shared host: its build, its age and what it runs
    Status,
    /// Stop the shared host and its servers; sessions that use them start them again
    Stop,
    /// Show the log of the shared host
    Logs {
        /// Show the last N lines; 0 shows all
        #[arg(long, short = 'n', default_value_t = 200)]
        lines: usize,
    },
}

/// Runs the command.
pub fn run(arguments: &HostArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let client = sharing::client(invocation);
    match arguments.command {
        None | Some(HostCommand::Status) => status(invocation, &client),
        Some(HostCommand::Stop) => stop(invocation, &client),
        Some(HostCommand::Logs { lines }) => logs(invocation, lines),
    }
}

fn failed(error: ClientError) -> Failure {
    Failure::new(Exit::Failure, "the shared host cannot be used").caused_by(error)
}

fn status(invocation: &Invocation, client: &SharedHostClient) -> Result<CommandOutput, Failure> {
    let status = match tokio_runtime()?.block_on(client.status()) {
        Ok(status) => Some(status),
        Err(ClientError::NotRunning) => None,
        Err(error) => return Err(failed(error)),
    };
    if invocation.wants_json() {
        return Ok(json_output(&status_json(client, status.as_ref())));
    }
    let Some((build, status)) = status else {
        return Ok(CommandOutput::text(
            "No shared host runs. A session at a terminal starts one; `swb ps` lists servers.\n",
        ));
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let age = short_age(Duration::from_secs(now.saturating_sub(status.since)));
    let clients: BTreeSet<u32> =
        status.programs.iter().flat_map(|it| &it.clients).map(|it| it.pid).collect();
    let memory = memory_use::resident_bytes(&[status.pid]).get(&status.pid).copied();
    let mut text =
        format!("Shared host: process {}, running for {age}\nBuild:       {build}\n", status.pid);
    if build != *client.build() {
        text.push_str(&format!("This build:  {}\n", client.build()));
    }
    if status.is_retiring {
        text.push_str("State:       it takes no more clients and ends with the last one\n");
    }
    text.push_str(&format!(
        "Runs:        {} for {}\n",
        pluralize(status.programs.len(), "server", "servers"),
        pluralize(clients.len(), "client", "clients"),
    ));
    if let Some(memory) = memory {
        text.push_str(&format!("Memory:      {} with its servers\n", format_bytes(memory)));
    }
    let socket = invocation.display_path(&client.socket());
    text.push_str(&format!("Socket:      {socket}\n"));
    Ok(CommandOutput::text(text))
}

fn status_json(
    client: &SharedHostClient,
    status: Option<&(Build, HostStatus)>,
) -> serde_json::Value {
    let build = |it: &Build| json!({"version": it.version, "written": it.written});
    json!({
        "running": status.is_some(),
        "pid": status.map(|it| it.1.pid),
        "since": status.map(|it| it.1.since),
        "build": status.map(|it| build(&it.0)),
        "ownBuild": build(client.build()),
        "retiring": status.map(|it| it.1.is_retiring),
        "servers": status.map(|it| it.1.programs.len()),
        "folder": client.folder(),
    })
}

fn stop(invocation: &Invocation, client: &SharedHostClient) -> Result<CommandOutput, Failure> {
    let runtime = tokio_runtime()?;
    let before = match runtime.block_on(client.status()) {
        Ok((_, status)) => status,
        Err(ClientError::NotRunning) => {
            return Ok(CommandOutput::text(match invocation.wants_json() {
                true => "{\"stopped\":false}\n",
                false => "No shared host runs.\n",
            }));
        }
        Err(error) => return Err(failed(error)),
    };
    if !runtime.block_on(client.stop(before.pid, STOP_TIMEOUT)).map_err(failed)? {
        let message = format!("the shared host (process {}) does not end", before.pid);
        return Err(
            Failure::new(Exit::Failure, &message).hint(&format!("`kill {}` ends it", before.pid))
        );
    }
    if invocation.wants_json() {
        return Ok(json_output(&json!({"stopped": true, "pid": before.pid})));
    }
    let servers = pluralize(before.programs.len(), "server", "servers");
    Ok(CommandOutput::text(format!("Stopped the shared host and {servers}.\n")))
}

fn logs(invocation: &Invocation, lines: usize) -> Result<CommandOutput, Failure> {
    let path = invocation.env.paths.shared_host_log();
    let text = match std::fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            let message = format!("{} cannot be read", invocation.display_path(&path));
            return Err(Failure::new(Exit::Failure, &message).caused_by(error));
        }
    };
    let all: Vec<&str> = text.lines().collect();
    let first = if lines == 0 { 0 } else { all.len().saturating_sub(lines) };
    let shown = &all[first..];
    if invocation.wants_json() {
        return Ok(json_output(&json!({"lines": shown})));
    }
    let done = CommandOutput::text(server_log::escaped(
        &shown.iter().map(|it| format!("{it}\n")).collect::<String>(),
    ));
    Ok(match all.is_empty() {
        true => done.note("note: the shared host has written no log yet\n"),
        false => done,
    })
}

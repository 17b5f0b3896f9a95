//! `swb ps`: lists the server processes that run, and who uses them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value as Json, json};
use switchboard::config::display::{format_bytes, printable};
use switchboard::sharing::share::client::ClientError;
use switchboard::sharing::share::protocol::{ClientInfo, ProgramStatus};
use switchboard::wire::process::memory_use;

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::{CommandOutput, Failure};
use crate::output::age::short_age;
use crate::output::json::json_output;
use crate::output::table::{self, Cell, Truncate};
use crate::runtime::control;
use crate::runtime::interrupts::tokio_runtime;
use crate::runtime::sharing;

/// Arguments of `swb ps`: none.
#[derive(Debug, Args)]
pub struct PsArgs {}

/// A process of a server.
struct RunningServer {
    server: String,
    pid: Option<u32>,
    memory: Option<u64>,
    since: Option<u64>,
    /// The sharing class; absent if one session runs it for itself.
    class: Option<String>,
    clients: Vec<ClientInfo>,
    calls: Option<u64>,
    idle_seconds: Option<u64>,
}

/// Runs the command.
pub fn run(_: &PsArgs, invocation: &Invocation) -> Result<CommandOutput, Failure> {
    let client = sharing::client(invocation);
    let shared = match tokio_runtime()?.block_on(client.status()) {
        Ok((_, status)) => status.programs,
        Err(ClientError::NotRunning) => Vec::new(),
        Err(error) => {
            return Err(
                Failure::new(Exit::Failure, "the shared host cannot be used").caused_by(error)
            );
        }
    };
    let mut servers: Vec<RunningServer> = shared.into_iter().map(RunningServer::from).collect();
    let own = control::running_servers(&invocation.env.paths.control_sockets());
    let own = own.map_err(|error| {
        Failure::new(Exit::Failure, "running processes cannot be listed").caused_by(error)
    })?;
    servers.extend(own.into_iter().map(RunningServer::from));
    servers.sort_by(|a, b| (&a.server, a.pid).cmp(&(&b.server, b.pid)));
    let pids: Vec<u32> = servers.iter().filter_map(|it| it.pid).collect();
    let memory = memory_use::resident_bytes(&pids);
    for server in &mut servers {
        server.memory = server.pid.and_then(|pid| memory.get(&pid).copied());
    }
    Ok(show(invocation, &servers))
}

impl From<ProgramStatus> for RunningServer {
    fn from(program: ProgramStatus) -> RunningServer {
        RunningServer {
            server: program.server,
            pid: program.pid,
            memory: None,
            since: Some(program.since),
            class: Some(match program.session_bound {
                Some(_) => "session".to_owned(),
                None => program.class,
            }),
            clients: distinct(program.clients),
            calls: Some(program.calls),
            idle_seconds: program.idle_seconds,
        }
    }
}

/// One client for each process: a gateway has several connections.
fn distinct(mut clients: Vec<ClientInfo>) -> Vec<ClientInfo> {
    clients.sort_by_key(|it| it.pid);
    clients.dedup_by_key(|it| it.pid);
    clients
}

impl From<control::OwnServer> for RunningServer {
    fn from(own: control::OwnServer) -> RunningServer {
        let client = ClientInfo { pid: own.process, command: "swb".to_owned(), folder: own.folder };
        RunningServer {
            server: own.server,
            pid: Some(own.pid),
            memory: None,
            since: None,
            class: None,
            clients: vec![client],
            calls: None,
            idle_seconds: None,
        }
    }
}

fn show(invocation: &Invocation, servers: &[RunningServer]) -> CommandOutput {
    if invocation.wants_json() {
        let servers: Vec<Json> = servers.iter().map(as_json).collect();
        return json_output(&json!({"servers": servers}));
    }
    if servers.is_empty() {
        return CommandOutput::text("No server runs.\n");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let absent = || "-".to_owned();
    let row = |server: &RunningServer| {
        let since = server.since.map(|it| Duration::from_secs(now.saturating_sub(it)));
        let idle = server.idle_seconds.map(Duration::from_secs);
        let clients = match server.clients.len() {
            0 => absent(),
            _ => clients_text(&server.clients),
        };
        vec![
            Cell::plain(printable(&server.server)),
            Cell::plain(server.pid.map_or_else(absent, |it| it.to_string())),
            Cell::plain(server.memory.map_or_else(absent, format_bytes)),
            Cell::plain(since.map_or_else(absent, short_age)),
            Cell::plain(server.class.as_deref().unwrap_or("-")),
            Cell::plain(server.calls.map_or_else(absent, |it| it.to_string())),
            Cell::plain(idle.map_or_else(absent, short_age)),
            Cell::plain(clients),
        ]
    };
    let rows: Vec<Vec<Cell>> = servers.iter().map(row).collect();
    let header = ["SERVER", "PID", "MEMORY", "AGE", "SHARED", "CALLS", "IDLE", "CLIENTS"];
    let width = invocation.env.terminal.width;
    CommandOutput::text(table::render(&header, &rows, width, &[Truncate::End(7)]))
}

/// The clients of a server: `swb serve (4711), swb (4712)`.
fn clients_text(clients: &[ClientInfo]) -> String {
    let client = |it: &ClientInfo| format!("{} ({})", printable(&it.command), it.pid);
    clients.iter().map(client).collect::<Vec<_>>().join(", ")
}

fn as_json(server: &RunningServer) -> Json {
    let client =
        |it: &ClientInfo| json!({"pid": it.pid, "command": it.command, "folder": it.folder});
    json!({
        "name": server.server,
        "pid": server.pid,
        "memoryBytes": server.memory,
        "since": server.since,
        "shared": server.class,
        "clients": server.clients.iter().map(client).collect::<Vec<_>>(),
        "calls": server.calls,
        "idleSeconds": server.idle_seconds,
    })
}

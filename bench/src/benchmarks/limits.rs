//! The latency of well-behaved clients while another client abuses the gateway. The abusing client is a process of its
//! own with a token of its own; `attack` is its code.

pub mod attack;

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at};

use crate::benchmarks::gateway::load::{Era, HttpClient};
use crate::child_server::{ListeningServer, own_program};
use crate::effort;
use crate::failure::Failure;
use crate::machine;
use crate::output::report::{Extent, Report};
use crate::output::table;
use crate::process_stats;
use crate::sandbox::Sandbox;
use crate::workspace::Workspace;
use attack::AttackKind;

const GOOD_CLIENTS: usize = 50;
/// The time between two calls of a good client.
const CALL_INTERVAL: Duration = Duration::from_millis(50);
/// The length of each phase, with and without an attack.
const PHASE_SECONDS: usize = 10;
const RESULT_BYTES: usize = 100;
/// The time after which a good client counts its call as failed.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const TOKEN_FILE: &str = "tokens";

/// What the good clients saw in one phase.
#[derive(Debug, Default)]
struct PhaseResult {
    times: Vec<Duration>,
    failures: usize,
    memory_megabytes: f64,
}

/// Measures the good clients alone, then beside each attack.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let echo = ListeningServer::start_echo("http")?;
    let swb = workspace.swb()?;
    let phases = std::iter::once(None).chain(AttackKind::ALL.map(Some));
    let mut rows = Vec::new();
    for attack in phases {
        eprintln!("measuring {GOOD_CLIENTS} clients, {}", label(attack));
        // A gateway of its own for each, so that no attack profits from the one before.
        let sandbox = sandbox(workspace, &swb, &echo.address)?;
        let gateway = ListeningServer::spawn(serve_command(&sandbox, &swb))?;
        rows.push(row(attack, &phase(&gateway, attack)?));
    }
    let header = ["", "calls", "failed", "p50 ms", "p99 ms", "worst ms", "gateway MB"];
    let text = format!(
        "# One abusive client\n\n\
         Written by `cargo xtask bench limits`. Machine: {}.\n\n\
         {GOOD_CLIENTS} clients with a token each make a call every {} ms over HTTP for {} s; the server behind the gateway is \
         also reached over HTTP. Beside them one more client with a token of its own, or without one, does the following as \
         fast as it can, from another process on the same two cores. Each row has a gateway of its own, with default limits. \
         Only the calls of the {GOOD_CLIENTS} clients are counted.\n\n{}",
        machine::describe(),
        CALL_INTERVAL.as_millis(),
        seconds(),
        table::markdown(&header, &[], &rows),
    );
    Ok(Report {
        name: "limits",
        text,
        pictures: Vec::new(),
        budgets: Vec::new(),
        extent: Extent::Whole,
    })
}

fn seconds() -> usize {
    effort::scaled(PHASE_SECONDS)
}

fn label(attack: Option<AttackKind>) -> &'static str {
    attack.map_or("no other client", AttackKind::label)
}

fn row(attack: Option<AttackKind>, result: &PhaseResult) -> Vec<String> {
    let mut times = result.times.clone();
    times.sort();
    let at = |share: f64| {
        let index = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
        table::milliseconds(times.get(index).copied().unwrap_or_default())
    };
    vec![
        label(attack).to_owned(),
        table::thousands(times.len() as f64),
        result.failures.to_string(),
        at(0.5),
        at(0.99),
        at(1.0),
        format!("{:.0}", result.memory_megabytes),
    ]
}

/// A home with the echo server, and tokens for all clients.
fn sandbox(workspace: &Workspace, swb: &Path, upstream: &str) -> Result<Sandbox, Failure> {
    let entry = json!({"type": "http", "url": upstream, "trust": true});
    let servers: Map<_, _> = [("echo".to_owned(), entry)].into_iter().collect();
    let sandbox = Sandbox::with_servers(swb, &workspace.search_path, servers)?;
    let mut names: Vec<String> = (0..GOOD_CLIENTS).map(good_client).collect();
    names.push(attack::CLIENT.to_owned());
    let lines: Vec<String> = names.iter().map(|it| format!("{it}: {}\n", token(it))).collect();
    sandbox.write_private(TOKEN_FILE, &lines.concat())?;
    Ok(sandbox)
}

fn serve_command(sandbox: &Sandbox, swb: &Path) -> Command {
    let mut command = sandbox.command(swb);
    command.args(["serve", "--pool", "--names", "plain", "--http", "127.0.0.1:0"]);
    command.args(["--token-file", TOKEN_FILE]).stderr(Stdio::null());
    command
}

fn good_client(index: usize) -> String {
    format!("client-{index}")
}

fn token(client: &str) -> String {
    format!("token-of-{client}-0123456789abcdef")
}

/// The header line with which a client authenticates.
fn authorization(client: &str) -> String {
    format!("Authorization: Bearer {}\r\n", token(client))
}

fn phase(gateway: &ListeningServer, attack: Option<AttackKind>) -> Result<PhaseResult, Failure> {
    let fail = |error| Failure::client("load", error);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(fail)?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for index in 0..GOOD_CLIENTS {
            clients.push(connect(&gateway.address, &good_client(index)).await.map_err(fail)?);
        }
        let attacker = attack.map(|kind| start_attack(kind, &gateway.address)).transpose()?;
        let end = Instant::now() + Duration::from_secs(seconds() as u64);
        let mut calls = JoinSet::new();
        for client in clients {
            calls.spawn(call_until(client, end));
        }
        let mut result = PhaseResult::default();
        while let Some(done) = calls.join_next().await {
            let (times, failures) = done.map_err(|error| fail(io::Error::other(error)))?;
            result.times.extend(times);
            result.failures += failures;
        }
        result.memory_megabytes = process_stats::resident_megabytes(gateway.pid())?;
        drop(attacker);
        Ok(result)
    })
}

async fn connect(address: &str, client: &str) -> io::Result<HttpClient> {
    let mut client = HttpClient::connect(address, Era::Legacy, &authorization(client)).await?;
    client.initialize().await?;
    Ok(client)
}

/// Makes a call at each interval. A client that is disconnected fails at all its further calls.
async fn call_until(mut client: HttpClient, end: Instant) -> (Vec<Duration>, usize) {
    let (mut times, mut failures) = (Vec::new(), 0);
    let mut ticks = interval_at(Instant::now().into(), CALL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while Instant::now() < end {
        ticks.tick().await;
        match tokio::time::timeout(CALL_TIMEOUT, client.call(RESULT_BYTES)).await {
            Ok(Ok(time)) => times.push(time),
            Ok(Err(_)) | Err(_) => failures += 1,
        }
    }
    (times, failures)
}

/// The process of the abusive client. Dropping it ends it.
struct Attacker(Child);

impl Drop for Attacker {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _gone_already = self.0.wait();
    }
}

fn start_attack(kind: AttackKind, address: &str) -> Result<Attacker, Failure> {
    let program = own_program()?;
    let mut command = Command::new(&program);
    command.args([attack::SUBCOMMAND, kind.name(), address]);
    // It ends by itself too.
    command.arg((seconds() + 5).to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    let child = command.spawn().map_err(|error| Failure::NotStarted { program, error })?;
    Ok(Attacker(child))
}

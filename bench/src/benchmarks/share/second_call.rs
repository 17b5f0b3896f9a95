//! The wall time of `swb call` while its server runs already: in the shared host, behind mcp-proxy, or over HTTP; and
//! with a server of its own.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::time::{Duration, Instant};

use serde_json::{Map, json};

use super::shared_home::{SharedHome, echo_entry};
use crate::benchmarks::gateway::contender::start_mcp_proxy;
use crate::benchmarks::gateway::third_party;
use crate::child_server::{ListeningServer, StdioServer, echo_command};
use crate::effort;
use crate::failure::Failure;
use crate::process_cost::{self, Measurement};
use crate::sandbox::Sharing;
use crate::workspace::Workspace;

const REPETITIONS: usize = 5;
const RUNS_PER_REPETITION: usize = 20;
const ANSWERS: usize = 200;

/// The result of the measurement.
pub struct SecondCall {
    /// The response time of the server itself.
    pub answer: Duration,
    /// All ways to call it.
    pub rows: Vec<CallCost>,
}

/// One way to call a server, and its cost.
pub struct CallCost {
    /// The way.
    pub label: &'static str,
    /// The cost, or why there is none.
    pub cost: Result<Measurement, String>,
}

/// The label of the way with a budget.
pub const SHARED: &str = "**shared host**";

struct CallKind {
    label: &'static str,
    server: &'static str,
    sharing: Sharing,
}

const KINDS: [CallKind; 6] = [
    CallKind { label: SHARED, server: "echo", sharing: Sharing::On },
    CallKind { label: "shared host, slow server", server: "slow", sharing: Sharing::On },
    CallKind { label: "a process per call", server: "echo", sharing: Sharing::Off },
    CallKind { label: "a process per call, slow server", server: "slow", sharing: Sharing::Off },
    CallKind { label: "mcp-proxy 0.13.0 kept running", server: "proxied", sharing: Sharing::Off },
    CallKind { label: "an HTTP server kept running", server: "http", sharing: Sharing::Off },
];

/// Measures all ways in turn.
pub fn measure(workspace: &Workspace, swb: &std::path::Path) -> Result<SecondCall, Failure> {
    let http = ListeningServer::start_echo("http")?;
    let installed = third_party::prepare_mcp_proxy(workspace)?;
    let proxy = start_mcp_proxy(&installed, &echo_command("stdio")?);
    let mut servers = Map::new();
    servers.insert("echo".to_owned(), echo_entry("stdio")?);
    servers.insert("slow".to_owned(), echo_entry("slow-start")?);
    servers.insert("http".to_owned(), json!({"type": "http", "url": http.address, "trust": true}));
    if let Ok(proxy) = &proxy {
        let entry = json!({"type": "http", "url": proxy.address, "trust": true});
        servers.insert("proxied".to_owned(), entry);
    }
    let mut home = SharedHome::open(workspace, swb, servers)?;
    let mut costs: Vec<CallCost> = Vec::new();
    for kind in &KINDS {
        let missing = proxy.as_ref().err().filter(|_| kind.server == "proxied");
        let cost = match missing {
            Some(failure) => Err(failure.to_string()),
            None => Ok(Measurement::default()),
        };
        costs.push(CallCost { label: kind.label, cost });
    }
    for repetition in 0..=effort::repetitions(REPETITIONS) {
        for (kind, row) in KINDS.iter().zip(&mut costs) {
            let Ok(before) = &mut row.cost else { continue };
            home.sandbox.set_sharing(kind.sharing);
            // The first round starts what is kept running, and fills caches.
            let runs = if repetition == 0 { 1 } else { effort::scaled(RUNS_PER_REPETITION) };
            let call = format!("{}/echo", kind.server);
            let command: [OsString; 4] =
                [swb.into(), "call".into(), call.into(), "size:=100".into()];
            let more = process_cost::measure_runs(&home.sandbox, &command, runs)?;
            if repetition > 0 {
                *before = std::mem::take(before).merge(more);
            }
        }
    }
    home.sandbox.set_sharing(Sharing::On);
    Ok(SecondCall { answer: answer_time()?, rows: costs })
}

/// How long the server takes for a call over its pipes.
fn answer_time() -> Result<Duration, Failure> {
    const CALL: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"size\":100}}}\n";
    let failed = |error| Failure::client("echo", error);
    let mut server = StdioServer::start(&echo_command("stdio")?)?;
    let mut output = BufReader::new(&mut server.output);
    let mut times = Vec::new();
    let mut line = Vec::new();
    for _ in 0..ANSWERS {
        let start = Instant::now();
        server.input.write_all(CALL).map_err(failed)?;
        line.clear();
        output.read_until(b'\n', &mut line).map_err(failed)?;
        times.push(start.elapsed());
    }
    Ok(super::median(times))
}

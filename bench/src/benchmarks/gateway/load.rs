//! Makes calls the way many clients at once would, as cheaply as can be: what it costs is taken from the cores that the
//! gateway needs. How bytes travel is left to `connection` and `lines`; this file counts and times.

mod http_client;
mod stdio_client;

use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::failure::Failure;
use crate::process_cost;
use crate::process_stats;
pub use http_client::{Era, HttpClient};
pub use stdio_client::StdioClient;

/// How long calls are measured. Slow gateways make few calls in this time, so that the run does not take longer.
const MEASURE_TIME: Duration = Duration::from_millis(1500);
/// How long they are made before, to warm up.
const WARM_UP_TIME: Duration = Duration::from_millis(500);

/// When to stop.
#[derive(Debug, Clone, Copy)]
enum StopCondition {
    /// When a client has made so many calls.
    Calls(usize),
    /// When it is this late. Each client makes one call at least.
    Deadline(Instant),
}

impl StopCondition {
    fn is_over(self, made: usize, now: Instant) -> bool {
        match self {
            StopCondition::Calls(calls) => made >= calls,
            StopCondition::Deadline(when) => made > 0 && now >= when,
        }
    }
}

/// What the calls cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GatewayCost {
    /// How long the call in the middle took, in microseconds.
    pub p50: f64,
    /// How many were answered in a second.
    pub calls_per_second: f64,
    /// Processor time of the gateway alone, in microseconds.
    pub cpu_per_call: f64,
    /// What the gateway held in memory after the last call, in megabytes.
    pub memory_megabytes: f64,
}

/// Warms up, then measures. `run` makes calls and says how long each took.
fn measure(
    gateway: u32,
    mut run: impl FnMut(StopCondition) -> Result<Vec<Duration>, Failure>,
) -> Result<GatewayCost, Failure> {
    run(StopCondition::Deadline(Instant::now() + WARM_UP_TIME))?;
    let before = process_stats::cpu_time(gateway)?;
    let start = Instant::now();
    let mut times = run(StopCondition::Deadline(start + MEASURE_TIME))?;
    let wall = start.elapsed();
    let processor = process_stats::cpu_time(gateway)?.saturating_sub(before);
    times.sort();
    let calls = times.len() as f64;
    Ok(GatewayCost {
        p50: times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e6,
        calls_per_second: calls / wall.as_secs_f64(),
        cpu_per_call: processor.as_secs_f64() * 1e6 / calls,
        memory_megabytes: process_stats::resident_megabytes(gateway)?,
    })
}

impl GatewayCost {
    /// Each figure's median. None where there are no costs.
    pub fn median(costs: &[GatewayCost]) -> Option<GatewayCost> {
        let middle = |part: fn(&GatewayCost) -> f64| process_cost::median_of(costs, part);
        Some(GatewayCost {
            p50: middle(|it| it.p50)?,
            calls_per_second: middle(|it| it.calls_per_second)?,
            cpu_per_call: middle(|it| it.cpu_per_call)?,
            memory_megabytes: middle(|it| it.memory_megabytes)?,
        })
    }
}

/// Clients over HTTP. Each has a connection of its own that stays open, and in the legacy era a session.
pub struct HttpClients {
    runtime: Runtime,
    clients: Vec<HttpClient>,
}

fn load_error(error: io::Error) -> Failure {
    Failure::client("load", error)
}

impl HttpClients {
    /// Connects so many clients.
    pub fn connect(address: &str, clients: usize, era: Era) -> Result<HttpClients, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(load_error)?;
        let clients = runtime.block_on(async {
            let mut connected = Vec::new();
            for _ in 0..clients {
                connected.push(HttpClient::open(address, era).await?);
            }
            Ok::<_, io::Error>(connected)
        });
        Ok(HttpClients { clients: clients.map_err(load_error)?, runtime })
    }

    /// Has all clients make calls, each answered with a text of so many bytes, and says what they cost the gateway.
    pub fn measure(&mut self, size: usize, gateway: u32) -> Result<GatewayCost, Failure> {
        measure(gateway, |stop| self.run(size, stop).map_err(load_error))
    }

    /// Has every client make so many calls.
    pub fn make_calls(&mut self, size: usize, calls: usize) -> Result<(), Failure> {
        self.run(size, StopCondition::Calls(calls)).map(drop).map_err(load_error)
    }

    fn run(&mut self, size: usize, stop: StopCondition) -> io::Result<Vec<Duration>> {
        let HttpClients { runtime, clients } = self;
        runtime.block_on(async {
            let mut callers = JoinSet::new();
            for mut client in clients.drain(..) {
                callers.spawn(async move {
                    let times = client.calls(size, stop).await?;
                    Ok::<_, io::Error>((client, times))
                });
            }
            let mut all = Vec::new();
            while let Some(done) = callers.join_next().await {
                let (client, times) = done.map_err(io::Error::other)??;
                clients.push(client);
                all.extend(times);
            }
            Ok(all)
        })
    }

    /// Ends all sessions, so that the gateway does not keep them.
    pub fn end_sessions(mut self) {
        self.runtime.block_on(async {
            for client in &mut self.clients {
                let _gone_already = client.end_session().await;
            }
        });
    }

    /// Opens the stream on which the gateway speaks by itself, on every connection. Nothing else can follow there.
    pub fn open_get_streams(&mut self) -> Result<(), Failure> {
        let HttpClients { runtime, clients } = self;
        let listening = runtime.block_on(async {
            for client in clients {
                client.open_get_stream().await?;
            }
            Ok(())
        });
        listening.map_err(load_error)
    }

    /// Begins so many sessions more, all from the first client's connection.
    pub fn begin_sessions(&mut self, sessions: usize) -> Result<(), Failure> {
        let HttpClients { runtime, clients } = self;
        let Some(client) = clients.first_mut() else { return Ok(()) };
        let begun = runtime.block_on(async {
            for _ in 0..sessions {
                client.initialize().await?;
            }
            Ok(())
        });
        begun.map_err(load_error)
    }
}

/// A call as JSON. A modern one says all about itself.
fn write_call(out: &mut Vec<u8>, id: u64, size: usize, era: Era) -> io::Result<()> {
    use io::Write;
    write!(
        out,
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"size":{size}}}"#
    )?;
    let rest: &[u8] = match era {
        Era::Legacy => b"}}",
        Era::Modern => br#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    };
    out.write_all(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::*;

    #[test]
    fn calls_of_both_eras_are_json() {
        for era in [Era::Legacy, Era::Modern] {
            let mut out = Vec::new();
            write_call(&mut out, 7, 100, era).unwrap();
            let call: Json = serde_json::from_slice(&out).unwrap();
            assert_eq!(call["id"], 7);
            assert_eq!(call["params"]["arguments"]["size"], 100);
            assert_eq!(call["params"].get("_meta").is_some(), era == Era::Modern);
        }
    }

    #[test]
    fn calls_stop_by_their_number_or_by_the_clock() {
        let now = Instant::now();
        assert!(
            !StopCondition::Calls(2).is_over(1, now) && StopCondition::Calls(2).is_over(2, now)
        );
        let late = StopCondition::Deadline(now);
        assert!(!late.is_over(0, now) && late.is_over(1, now));
        assert!(!StopCondition::Deadline(now + WARM_UP_TIME).is_over(1, now));
    }

    #[test]
    fn each_figure_has_a_median_of_its_own() {
        let cost = |p50, calls_per_second| GatewayCost {
            p50,
            calls_per_second,
            cpu_per_call: 0.0,
            memory_megabytes: 0.0,
        };
        let median = GatewayCost::median(&[cost(1.0, 9.0), cost(3.0, 7.0), cost(2.0, 8.0)]);
        assert_eq!(median, Some(cost(2.0, 8.0)));
        assert_eq!(GatewayCost::median(&[]), None);
    }
}

//! Makes calls the way many clients at once would, as cheaply as can be: what it costs is taken from the cores that the
//! gateway needs. How bytes travel is left to `connection` and `lines`; this file counts and times.

mod connection;
mod lines;

use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::needs;
use crate::failure::Failure;
use crate::measure;
use connection::Connection;
pub use connection::Era;
pub use lines::Lines;

/// How long calls are measured. Slow gateways make few of them then, and nobody waits for those.
const MEASURED: Duration = Duration::from_millis(1500);
/// How long they are made before, to warm up.
const WARMING: Duration = Duration::from_millis(500);

/// When to stop.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// When a client has made so many calls.
    Made(usize),
    /// When it is this late. Each client makes one call at least.
    Late(Instant),
}

impl Until {
    fn is_over(self, made: usize, now: Instant) -> bool {
        match self {
            Until::Made(calls) => made >= calls,
            Until::Late(when) => made > 0 && now >= when,
        }
    }
}

/// What the calls cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// How long the call in the middle took, in microseconds.
    pub p50: f64,
    /// How many were answered in a second.
    pub calls_per_second: f64,
    /// Processor time of the gateway alone, in microseconds.
    pub processor_per_call: f64,
    /// What the gateway held in memory after the last call, in megabytes.
    pub resident: f64,
}

/// Warms up, then measures. `run` makes calls and says how long each took.
fn measure(
    gateway: u32,
    mut run: impl FnMut(Until) -> Result<Vec<Duration>, Failure>,
) -> Result<Cost, Failure> {
    run(Until::Late(Instant::now() + WARMING))?;
    let before = needs::processor(gateway)?;
    let start = Instant::now();
    let mut times = run(Until::Late(start + MEASURED))?;
    let wall = start.elapsed();
    let processor = needs::processor(gateway)?.saturating_sub(before);
    times.sort();
    let calls = times.len() as f64;
    Ok(Cost {
        p50: times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e6,
        calls_per_second: calls / wall.as_secs_f64(),
        processor_per_call: processor.as_secs_f64() * 1e6 / calls,
        resident: needs::resident(gateway)?,
    })
}

impl Cost {
    /// Each figure's median. None where there are no costs.
    pub fn median(costs: &[Cost]) -> Option<Cost> {
        let middle = |part: fn(&Cost) -> f64| measure::middle(costs, part);
        Some(Cost {
            p50: middle(|it| it.p50)?,
            calls_per_second: middle(|it| it.calls_per_second)?,
            processor_per_call: middle(|it| it.processor_per_call)?,
            resident: middle(|it| it.resident)?,
        })
    }
}

/// Clients over HTTP. Each has a connection of its own that stays open, and in the legacy era a session.
pub struct Crowd {
    runtime: Runtime,
    clients: Vec<Connection>,
}

fn broke_off(error: io::Error) -> Failure {
    Failure::client("load", error)
}

impl Crowd {
    /// Connects so many clients.
    pub fn connect(address: &str, clients: usize, era: Era) -> Result<Crowd, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(broke_off)?;
        let clients = runtime.block_on(async {
            let mut connected = Vec::new();
            for _ in 0..clients {
                connected.push(Connection::open(address, era).await?);
            }
            Ok::<_, io::Error>(connected)
        });
        Ok(Crowd { clients: clients.map_err(broke_off)?, runtime })
    }

    /// Has all clients make calls, each answered with a text of so many bytes, and says what they cost the gateway.
    pub fn measure(&mut self, size: usize, gateway: u32) -> Result<Cost, Failure> {
        measure(gateway, |until| self.run(size, until).map_err(broke_off))
    }

    /// Has every client make so many calls.
    pub fn make(&mut self, size: usize, calls: usize) -> Result<(), Failure> {
        self.run(size, Until::Made(calls)).map(drop).map_err(broke_off)
    }

    fn run(&mut self, size: usize, until: Until) -> io::Result<Vec<Duration>> {
        let Crowd { runtime, clients } = self;
        runtime.block_on(async {
            let mut callers = JoinSet::new();
            for mut client in clients.drain(..) {
                callers.spawn(async move {
                    let times = client.calls(size, until).await?;
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
    pub fn leave(mut self) {
        self.runtime.block_on(async {
            for client in &mut self.clients {
                let _gone_already = client.end().await;
            }
        });
    }

    /// Opens the stream on which the gateway speaks by itself, on every connection. Nothing else can follow there.
    pub fn listen(&mut self) -> Result<(), Failure> {
        let Crowd { runtime, clients } = self;
        let listening = runtime.block_on(async {
            for client in clients {
                client.listen().await?;
            }
            Ok(())
        });
        listening.map_err(broke_off)
    }

    /// Begins so many sessions more, all from the first client's connection.
    pub fn begin_sessions(&mut self, sessions: usize) -> Result<(), Failure> {
        let Crowd { runtime, clients } = self;
        let Some(client) = clients.first_mut() else { return Ok(()) };
        let begun = runtime.block_on(async {
            for _ in 0..sessions {
                client.begin().await?;
            }
            Ok(())
        });
        begun.map_err(broke_off)
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
        assert!(!Until::Made(2).is_over(1, now) && Until::Made(2).is_over(2, now));
        let late = Until::Late(now);
        assert!(!late.is_over(0, now) && late.is_over(1, now));
        assert!(!Until::Late(now + WARMING).is_over(1, now));
    }

    #[test]
    fn each_figure_has_a_median_of_its_own() {
        let cost = |p50, calls_per_second| Cost {
            p50,
            calls_per_second,
            processor_per_call: 0.0,
            resident: 0.0,
        };
        let median = Cost::median(&[cost(1.0, 9.0), cost(3.0, 7.0), cost(2.0, 8.0)]);
        assert_eq!(median, Some(cost(2.0, 8.0)));
        assert_eq!(Cost::median(&[]), None);
    }
}

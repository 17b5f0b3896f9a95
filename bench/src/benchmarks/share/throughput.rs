//! The calls per second of one session and of ten sessions at once through one shared host.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Map;

use super::shared_home::{SharedHome, echo_entry};
use crate::benchmarks::gateway::load::StdioClient;
use crate::effort;
use crate::failure::Failure;
use crate::process_cost;
use crate::workspace::Workspace;

/// The number of sessions.
pub const SESSIONS: usize = 10;
/// The calls in flight of each session.
pub const IN_FLIGHT: [usize; 2] = [1, 8];
const REPETITIONS: usize = 5;
const RESULT_BYTES: usize = 100;
const MEASURE_TIME: Duration = Duration::from_secs(2);
const WARM_UP_TIME: Duration = Duration::from_millis(300);

/// Calls per second with one number of calls in flight.
pub struct Throughput {
    /// The calls in flight of each session.
    pub in_flight: usize,
    /// One session alone.
    pub one: f64,
    /// All sessions at once.
    pub all: f64,
}

/// Opens all sessions, then lets one or all of them call.
pub fn measure(workspace: &Workspace, swb: &std::path::Path) -> Result<Vec<Throughput>, Failure> {
    let mut servers = Map::new();
    servers.insert("echo".to_owned(), echo_entry("stdio")?);
    let home = SharedHome::open(workspace, swb, servers)?;
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        let mut command = home.sandbox.command(swb);
        command.args(["serve", "--pool", "--names", "plain"]);
        clients.push(StdioClient::start(command)?);
    }
    let mut rows = Vec::new();
    for in_flight in IN_FLIGHT {
        call_at_once(&mut clients, in_flight, WARM_UP_TIME)?;
        let (mut one, mut all) = (Vec::new(), Vec::new());
        for _ in 0..effort::repetitions(REPETITIONS) {
            one.push(call_at_once(&mut clients[..1], in_flight, MEASURE_TIME)?);
            all.push(call_at_once(&mut clients, in_flight, MEASURE_TIME)?);
        }
        let median = |rates: &[f64]| process_cost::median_of(rates, |it| *it).unwrap_or_default();
        rows.push(Throughput { in_flight, one: median(&one), all: median(&all) });
    }
    let servers = home.servers()?.0;
    match servers {
        1 => Ok(rows),
        _ => Err(Failure::client("shared host", format!("{servers} servers run instead of one"))),
    }
}

/// The calls per second of these sessions together.
fn call_at_once(
    clients: &mut [StdioClient],
    in_flight: usize,
    time: Duration,
) -> Result<f64, Failure> {
    let start = Instant::now();
    let calls: Result<Vec<usize>, Failure> = thread::scope(|scope| {
        let callers: Vec<_> = clients
            .iter_mut()
            .map(|client| {
                scope.spawn(move || client.call_until(RESULT_BYTES, in_flight, start + time))
            })
            .collect();
        callers
            .into_iter()
            .map(|it| match it.join() {
                Ok(times) => times.map(|it| it.len()),
                Err(_) => Err(Failure::client("load", "a client panicked")),
            })
            .collect()
    });
    Ok(calls?.iter().sum::<usize>() as f64 / start.elapsed().as_secs_f64())
}

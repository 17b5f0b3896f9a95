//! Makes calls with the official Rust SDK and prints what they cost, as every rival does:
//! `rival-rmcp stdio|http SIZE CALLS IN-FLIGHT COMMAND…|URL`.

use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{Peer, RoleClient, ServiceExt};
use serde_json::json;
use tokio::process::Command;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [transport, size, calls, in_flight, target @ ..] = words.as_slice() else {
        return Err("expected: stdio|http SIZE CALLS IN-FLIGHT COMMAND…|URL".into());
    };
    let (size, calls, in_flight) = (size.parse()?, calls.parse()?, in_flight.parse()?);
    let client = connect(transport, target).await?;
    run(client.peer(), size, calls / 2, in_flight).await?;
    let before = processor()?;
    let start = Instant::now();
    let mut times = run(client.peer(), size, calls, in_flight).await?;
    let wall = start.elapsed();
    let after = processor()?;
    times.sort();
    let report = json!({
        "p50": times[times.len() / 2].as_secs_f64() * 1e6,
        "callsPerSecond": calls as f64 / wall.as_secs_f64(),
        "processorPerCall": (after - before) as f64 / calls as f64,
        "peakKilobytes": getrusage(UsageWho::RUSAGE_SELF)?.max_rss(),
    });
    println!("{report}");
    client.cancel().await?;
    Ok(())
}

async fn connect(
    transport: &str,
    target: &[String],
) -> Result<RunningService<RoleClient, ()>, Failure> {
    let (first, rest) = target.split_first().ok_or("nothing to connect to")?;
    if transport == "http" {
        return Ok(().serve(StreamableHttpClientTransport::from_uri(first.as_str())).await?);
    }
    let mut command = Command::new(first);
    command.args(rest);
    Ok(().serve(TokioChildProcess::new(command)?).await?)
}

/// Makes so many calls, spread over so many callers; says how long each took.
async fn run(
    peer: &Peer<RoleClient>,
    size: usize,
    calls: usize,
    in_flight: usize,
) -> Result<Vec<Duration>, Failure> {
    let callers = (0..in_flight).map(|caller| {
        let share = calls / in_flight + usize::from(caller < calls % in_flight);
        tokio::spawn(some(peer.clone(), size, share))
    });
    let mut times = Vec::with_capacity(calls);
    for caller in callers.collect::<Vec<_>>() {
        times.extend(caller.await??);
    }
    Ok(times)
}

async fn some(peer: Peer<RoleClient>, size: usize, calls: usize) -> Result<Vec<Duration>, Failure> {
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let arguments = json!({"size": size}).as_object().cloned().unwrap_or_default();
        let start = Instant::now();
        let params = CallToolRequestParams::new("echo").with_arguments(arguments);
        let result = peer.call_tool_once(params).await?;
        times.push(start.elapsed());
        std::hint::black_box(result);
    }
    Ok(times)
}

/// Processor time so far, in microseconds.
fn processor() -> Result<i64, Failure> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
}

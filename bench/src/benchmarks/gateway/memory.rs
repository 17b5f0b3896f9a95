//! The memory of a gateway: after few and after many calls, and with idle sessions.

use std::thread;
use std::time::Duration;

use super::SMALL;
use super::contender::{GatewayKind, Gateways};
use super::load::{Era, HttpClients};
use crate::child_server::ListeningServer;
use crate::failure::Failure;
use crate::process_stats;

/// The numbers of calls after which memory is measured.
pub const CALL_COUNTS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// The number of clients that make them.
pub const CALLERS: usize = 8;
/// The number of idle sessions.
pub const SESSIONS: usize = 1_000;
/// The time that a gateway has to settle before memory is measured.
const SETTLING: Duration = Duration::from_secs(2);

/// The memory of one gateway, in megabytes.
pub struct GatewayMemory {
    /// The gateway.
    pub gateway: GatewayKind,
    /// The memory after each of `CALL_COUNTS`, where that was measured.
    pub after_calls: Vec<f64>,
    /// The memory of idle sessions, where that was measured.
    pub idle: Option<IdleMemory>,
}

/// The memory of idle sessions, in megabytes.
pub struct IdleMemory {
    /// The memory with one client, before the idle sessions.
    pub base: f64,
    /// The memory that idle sessions without a stream add.
    pub without_streams: f64,
    /// The memory that idle sessions add when each has an open stream.
    pub with_streams: f64,
}

/// Measures Switchboard after many calls, and every gateway with idle sessions.
pub fn measure(gateways: &Gateways) -> Result<Vec<GatewayMemory>, Failure> {
    let echo = ListeningServer::start_echo("http")?;
    let after_calls = after_calls(gateways, &echo.address)?;
    let ours = GatewayMemory {
        gateway: GatewayKind::Ours,
        after_calls,
        idle: Some(idle(gateways, GatewayKind::Ours, &echo)?),
    };
    let rmcp = idle(gateways, GatewayKind::Rmcp, &echo);
    if let Err(failure) = &rmcp {
        failure.print();
    }
    Ok(vec![
        ours,
        GatewayMemory { gateway: GatewayKind::Rmcp, after_calls: Vec::new(), idle: rmcp.ok() },
    ])
}

fn after_calls(gateways: &Gateways, upstream: &str) -> Result<Vec<f64>, Failure> {
    let running = gateways.start(GatewayKind::Ours, Some(upstream))?;
    let mut crowd = HttpClients::connect(running.address(), CALLERS, Era::Legacy)?;
    let mut made = 0;
    let mut seen = Vec::new();
    for mark in CALL_COUNTS {
        eprintln!("measuring memory, {mark} calls");
        crowd.make_calls(SMALL, (mark - made) / CALLERS)?;
        made = mark;
        thread::sleep(SETTLING); // waits for another process
        seen.push(process_stats::resident_megabytes(running.pid())?);
    }
    Ok(seen)
}

fn idle(
    gateways: &Gateways,
    who: GatewayKind,
    upstream: &ListeningServer,
) -> Result<IdleMemory, Failure> {
    eprintln!("measuring memory, idle sessions of {}", who.label());
    let (base, without) = memory_added(gateways, who, upstream, |crowd, _| {
        crowd.begin_sessions(SESSIONS)?;
        Ok(None)
    })?;
    let (_, with) = memory_added(gateways, who, upstream, |_, address| {
        let mut others = HttpClients::connect(address, SESSIONS, Era::Legacy)?;
        others.open_get_streams()?;
        Ok(Some(others))
    })?;
    Ok(IdleMemory { base, without_streams: without, with_streams: with })
}

/// The memory of a gateway that has answered calls, and the memory that further sessions add while they are open.
fn memory_added(
    gateways: &Gateways,
    who: GatewayKind,
    upstream: &ListeningServer,
    add_clients: impl FnOnce(&mut HttpClients, &str) -> Result<Option<HttpClients>, Failure>,
) -> Result<(f64, f64), Failure> {
    let running = gateways.start(who, Some(&upstream.address))?;
    let mut crowd = HttpClients::connect(running.address(), 1, Era::Legacy)?;
    crowd.make_calls(SMALL, 1_000)?;
    thread::sleep(SETTLING); // waits for another process
    let base = process_stats::resident_megabytes(running.pid())?;
    let _others = add_clients(&mut crowd, running.address())?;
    thread::sleep(SETTLING); // waits for another process
    Ok((base, process_stats::resident_megabytes(running.pid())? - base))
}

//! Calls inside this process: between two peers, and all the way through the host.

use std::path::Path;

use switchboard_wire::peer::{Peer, SpawnedPeer};
use switchboard_wire::transport::in_memory;

use super::runtime;
use crate::benchmarks::call_pipeline::InProcessHost;
use crate::benchmarks::wire;
use crate::failure::Failure;

pub fn in_memory(times: usize) -> Result<(), Failure> {
    let connect = || {
        let (one, other) = in_memory::pair();
        (Peer::spawn(one), Peer::spawn(other))
    };
    between(connect, times)
}

pub fn as_bytes(times: usize) -> Result<(), Failure> {
    let connect = || {
        let (one, other) = tokio::io::duplex(64 * 1024);
        (wire::peer_over_stream(one), wire::peer_over_stream(other))
    };
    between(connect, times)
}

fn between(connect: fn() -> (SpawnedPeer, SpawnedPeer), times: usize) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let (one, other) = connect();
        let listener = tokio::spawn(wire::echo(other.events));
        for _ in 0..times {
            let answer = one.peer.call("tools/call").params(wire::params()).await;
            answer.map_err(|error| Failure::client("the other peer", error))?;
        }
        drop((one, other.peer));
        listener.await.map_err(|error| Failure::client("the other peer", error))
    })
}

/// Resolved, checked, permitted, sent, bounded and recorded.
pub fn host_call(times: usize) -> Result<(), Failure> {
    let fail = |error| Failure::file(Path::new("a home"), error);
    let folder = tempfile::tempdir().map_err(fail)?;
    runtime()?.block_on(async {
        let in_process_host = InProcessHost::open(folder.path(), 2).await.map_err(fail)?;
        for _ in 0..times {
            in_process_host.call().await;
        }
        in_process_host.close().await;
        Ok(())
    })
}

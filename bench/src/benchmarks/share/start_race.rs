//! Many processes at once in a home without a shared host: how many hosts they start.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Map;

use super::shared_home::{SharedHome, echo_entry};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The number of processes.
pub const PROCESSES: usize = 100;

/// The result of the race.
pub struct StartRace {
    /// The hosts that listened.
    pub hosts: usize,
    /// The processes whose call succeeded.
    pub succeeded: usize,
    /// The calls that the shared server answered.
    pub shared_calls: u64,
    /// Until the last process ended.
    pub wall: Duration,
}

/// Starts all processes, then waits for them.
pub fn measure(workspace: &Workspace, swb: &std::path::Path) -> Result<StartRace, Failure> {
    let mut servers = Map::new();
    servers.insert("echo".to_owned(), echo_entry("stdio")?);
    let home = SharedHome::open(workspace, swb, servers)?;
    let failed = |error| Failure::NotStarted { program: swb.to_owned(), error };
    let start = Instant::now();
    let mut children: Vec<Child> = Vec::new();
    for _ in 0..PROCESSES {
        let mut call = home.sandbox.command(swb);
        call.args(["call", "echo/echo", "size:=100"]);
        call.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        children.push(call.spawn().map_err(failed)?);
    }
    let mut succeeded = 0;
    for mut child in children {
        let mut message = String::new();
        if let Some(mut output) = child.stderr.take() {
            output.read_to_string(&mut message).map_err(failed)?;
        }
        match child.wait().map_err(failed)?.success() {
            true => succeeded += 1,
            false => eprint!("{message}"),
        }
    }
    let wall = start.elapsed();
    let (hosts, shared_calls) = (home.hosts_started()?, home.shared_calls()?);
    Ok(StartRace { hosts, succeeded, shared_calls, wall })
}

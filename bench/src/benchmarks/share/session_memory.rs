//! The memory of one and of ten sessions with the same ten servers, shared and not.

use std::thread;
use std::time::Duration;

use super::shared_home::{SharedHome, echo_entry};
use crate::benchmarks::fleet::status_watch::StatusWatch;
use crate::effort::Effort;
use crate::failure::Failure;
use crate::process_stats;
use crate::sandbox::Sharing;
use crate::workspace::Workspace;

/// The number of sessions.
pub const SESSIONS: usize = 10;
/// The number of servers of each.
pub const SERVERS: usize = 10;
/// How many sessions are measured without sharing. Ten would need 4 GB.
pub const UNSHARED_SESSIONS: usize = 2;
const SETTLING: Duration = Duration::from_secs(3);

/// The memory of sessions, in megabytes.
pub struct SessionMemory {
    /// The servers of one session.
    pub one: ServerMemory,
    /// The servers of ten sessions.
    pub ten: ServerMemory,
    /// The servers of two sessions that do not share.
    pub unshared: ServerMemory,
    /// The shared host with ten sessions.
    pub host: f64,
}

/// The servers that run.
pub struct ServerMemory {
    /// How many.
    pub processes: usize,
    /// Their memory in megabytes.
    pub megabytes: f64,
}

/// Opens the sessions one after the other and keeps them open.
pub fn measure(workspace: &Workspace, swb: &std::path::Path) -> Result<SessionMemory, Failure> {
    let entry = echo_entry("large")?;
    let servers = (0..SERVERS).map(|it| (format!("server-{it}"), entry.clone())).collect();
    let mut home = SharedHome::open(workspace, swb, servers)?;
    let mut sessions = open(&home, 1)?;
    let one = servers_of(&home)?;
    sessions.extend(open(&home, SESSIONS - 1)?);
    let ten = servers_of(&home)?;
    let host = process_stats::resident_megabytes(home.host_pid()?)?;
    drop(sessions);
    home.stop_host();
    home.sandbox.set_sharing(Sharing::Off);
    let sessions = open(&home, UNSHARED_SESSIONS)?;
    let unshared = servers_of(&home)?;
    drop(sessions);
    Ok(SessionMemory { one, ten, unshared, host })
}

fn open(home: &SharedHome, count: usize) -> Result<Vec<StatusWatch>, Failure> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = StatusWatch::start(&home.sandbox, &home.swb, None)?;
        session.until_connected(SERVERS)?;
        sessions.push(session);
    }
    Ok(sessions)
}

fn servers_of(home: &SharedHome) -> Result<ServerMemory, Failure> {
    if Effort::chosen() == Effort::Full {
        thread::sleep(SETTLING); // waits for another process
    }
    let (processes, megabytes) = home.servers()?;
    Ok(ServerMemory { processes, megabytes })
}

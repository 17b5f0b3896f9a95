//! What a gateway holds in memory: after few and after very many calls, and for clients that are there and do nothing.

use std::thread;
use std::time::Duration;

use super::contender::{Stable, Who};
use super::load::{Crowd, Era};
use super::{SMALL, needs};
use crate::calls::server::Listening;
use crate::failure::Failure;

/// How many calls have been made when memory is looked at.
pub const MARKS: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// How many clients make them.
pub const CALLERS: usize = 8;
/// How many sessions on which nothing happens.
pub const SESSIONS: usize = 1_000;
/// How long a gateway may take to put everything in its place.
const SETTLING: Duration = Duration::from_secs(2);

/// Megabytes of one gateway.
pub struct Memory {
    /// Whose.
    pub who: Who,
    /// After so many calls as there are marks, where that was measured.
    pub after_calls: Vec<f64>,
    /// Before there was any session but one, and what the others add: without a stream, and with one each.
    pub idle: Option<Idle>,
}

/// What sessions on which nothing happens take, in megabytes.
pub struct Idle {
    /// With one client, and before the others came.
    pub base: f64,
    /// What the others add.
    pub without_streams: f64,
    /// What they add when each holds a stream open.
    pub with_streams: f64,
}

/// Ours after many calls, and everybody's idle sessions.
pub fn measure(stable: &Stable) -> Result<Vec<Memory>, Failure> {
    let echo = Listening::start("http")?;
    let after_calls = after_calls(stable, &echo.address)?;
    let ours = Memory { who: Who::Ours, after_calls, idle: Some(idle(stable, Who::Ours, &echo)?) };
    let rmcp = idle(stable, Who::Rmcp, &echo);
    if let Err(failure) = &rmcp {
        failure.print();
    }
    Ok(vec![ours, Memory { who: Who::Rmcp, after_calls: Vec::new(), idle: rmcp.ok() }])
}

fn after_calls(stable: &Stable, behind: &str) -> Result<Vec<f64>, Failure> {
    let running = stable.start(Who::Ours, Some(behind))?;
    let mut crowd = Crowd::connect(running.address(), CALLERS, Era::Legacy)?;
    let mut made = 0;
    let mut seen = Vec::new();
    for mark in MARKS {
        eprintln!("measuring memory, {mark} calls");
        crowd.make(SMALL, (mark - made) / CALLERS)?;
        made = mark;
        thread::sleep(SETTLING); // waits for another process
        seen.push(needs::resident(running.process())?);
    }
    Ok(seen)
}

fn idle(stable: &Stable, who: Who, behind: &Listening) -> Result<Idle, Failure> {
    eprintln!("measuring memory, idle sessions of {}", who.label());
    let (base, without) = added(stable, who, behind, |crowd, _| {
        crowd.begin_sessions(SESSIONS)?;
        Ok(None)
    })?;
    let (_, with) = added(stable, who, behind, |_, address| {
        let mut others = Crowd::connect(address, SESSIONS, Era::Legacy)?;
        others.listen()?;
        Ok(Some(others))
    })?;
    Ok(Idle { base, without_streams: without, with_streams: with })
}

/// What a gateway that has answered calls holds, and what comes on top when others come; those who do stay meanwhile.
fn added(
    stable: &Stable,
    who: Who,
    behind: &Listening,
    come: impl FnOnce(&mut Crowd, &str) -> Result<Option<Crowd>, Failure>,
) -> Result<(f64, f64), Failure> {
    let running = stable.start(who, Some(&behind.address))?;
    let mut crowd = Crowd::connect(running.address(), 1, Era::Legacy)?;
    crowd.make(SMALL, 1_000)?;
    thread::sleep(SETTLING); // waits for another process
    let base = needs::resident(running.process())?;
    let _others = come(&mut crowd, running.address())?;
    thread::sleep(SETTLING); // waits for another process
    Ok((base, needs::resident(running.process())? - base))
}

//! Which windows are the terminal that this process runs in. Inside a terminal multiplexer that is the terminal of each
//! of its clients, which no line of parents leads to.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use x11rb::protocol::xproto::Window;

use crate::x11::windows::Owner;

/// The names of the programs that show the sessions of multiplexers, as the kernel has them.
const CLIENTS: [&str; 4] = ["tmux: client", "screen", "zellij", "abduco"];
/// How long the list of terminals is used. Clients may attach at any time, from another terminal.
const LIFETIME: Duration = Duration::from_millis(300);
/// How far the line of parents is followed.
const MAX_ANCESTORS: usize = 64;
/// The most processes that are looked at.
const MAX_PROCESSES: usize = 20_000;

/// Whether this process runs inside a terminal multiplexer, whose clients are in other terminals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multiplexer {
    /// It does.
    Present,
    /// It does not.
    Absent,
}

/// Which programs and windows are the terminal that this process runs in.
#[derive(Debug, Clone)]
pub(crate) struct OwnTerminal {
    pids: Vec<u32>,
    window: Option<Window>,
    multiplexer: Multiplexer,
    hosts: Arc<Mutex<Option<TerminalHosts>>>,
}

/// The processes that show a session of a multiplexer, with those that they were started by.
#[derive(Debug)]
struct TerminalHosts {
    found: Instant,
    pids: BTreeSet<u32>,
}

impl OwnTerminal {
    pub(crate) fn new(
        pids: Vec<u32>,
        window: Option<Window>,
        multiplexer: Multiplexer,
    ) -> OwnTerminal {
        OwnTerminal { pids, window, multiplexer, hosts: Arc::default() }
    }

    /// Whether a window belongs to the terminal.
    pub(crate) fn is_owner(&self, owner: &Owner) -> bool {
        let is_host = |pid: u32| match self.multiplexer {
            Multiplexer::Absent => false,
            Multiplexer::Present => self.shows_multiplexer(pid),
        };
        self.window == Some(owner.window)
            || owner.pid.is_some_and(|it| self.pids.contains(&it) || is_host(it))
    }

    fn shows_multiplexer(&self, pid: u32) -> bool {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let known = hosts.take().filter(|it| it.found.elapsed() < LIFETIME);
        let known = known.unwrap_or_else(|| TerminalHosts { found: Instant::now(), pids: find() });
        hosts.insert(known).pids.contains(&pid)
    }
}

/// The clients of multiplexers, and the processes that they were started by.
fn find() -> BTreeSet<u32> {
    let mut pids = BTreeSet::new();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().take(MAX_PROCESSES);
    for entry in entries {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse().ok()) else { continue };
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if CLIENTS.contains(&name.trim()) {
            pids.extend(ancestors_of(pid));
        }
    }
    pids
}

/// A process and those that it was started by.
pub(crate) fn ancestors_of(pid: u32) -> Vec<u32> {
    let mut ancestors = vec![pid];
    while let Some(parent) = ancestors.last().and_then(|it| parent_of(*it)) {
        // The first process started everything.
        if parent <= 1 || ancestors.len() == MAX_ANCESTORS {
            break;
        }
        ancestors.push(parent);
    }
    ancestors
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

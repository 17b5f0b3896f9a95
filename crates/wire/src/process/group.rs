//! Process groups: signals to a whole group, and a guard that kills everything a command started.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::descendants::{self, OWNER_VARIABLE};
use super::program::ProcessSet;
use super::watchdog::Watchdog;

/// A process group. Dropping it kills its members and the descendants that left it.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    leader: Option<Pid>,
    /// The mark of the descendants; taken by the code that searches for them.
    pub(super) mark: Option<String>,
    watchdog: Option<Watchdog>,
}

impl ProcessGroup {
    pub(super) fn new(
        child: &Child,
        mark: String,
        watchdog: Option<Watchdog>,
    ) -> Option<ProcessGroup> {
        let number = child.id().and_then(|id| i32::try_from(id).ok())?;
        let leader = Pid::from_raw(number)?;
        if let Some(watchdog) = &watchdog {
            watchdog.watch(leader);
        }
        Some(ProcessGroup { leader: Some(leader), mark: Some(mark), watchdog })
    }

    pub(super) fn signal_all(&self, signal: Signal) {
        if let Some(group) = self.leader {
            let _group_empty = kill_process_group(group, signal);
        }
    }

    /// Kills the members after the leader has exited. Done once: the system may reuse the group id later.
    /// Returns whether there was anything to do.
    pub(super) fn kill_remaining(&mut self) -> bool {
        self.signal_all(Signal::KILL);
        let Some(leader) = self.leader.take() else { return false };
        if let Some(watchdog) = &self.watchdog {
            watchdog.forget(leader);
        }
        true
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill_remaining();
        if let (Some(mark), Ok(runtime)) = (self.mark.take(), Handle::try_current()) {
            // A destructor cannot wait for the search.
            drop(runtime.spawn_blocking(move || descendants::kill_marked(&mark)));
        }
    }
}

/// Owns a short-lived command and its descendants. Dropping it kills all of them.
#[derive(Debug)]
pub struct ProcessGroupGuard {
    mark: Option<String>,
    group: Option<ProcessGroup>,
}

impl ProcessGroupGuard {
    /// Prepares a command to lead a process group, with a mark for its descendants.
    pub fn prepare(command: &mut Command) -> ProcessGroupGuard {
        let mark = ProcessSet::new().next_program_mark();
        command.env(OWNER_VARIABLE, &mark).process_group(0);
        ProcessGroupGuard { mark: Some(mark), group: None }
    }

    /// Takes ownership of the started command.
    pub fn attach(&mut self, child: &Child) {
        if let Some(mark) = self.mark.take() {
            self.group = ProcessGroup::new(child, mark, None);
        }
    }

    /// Kills the remaining processes. Done once: the system may reuse the group id later.
    pub fn kill(&mut self) {
        self.group = None;
    }
}

//! Process groups: signals to a whole group, and a guard that kills everything a command started.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::descendants::{self, OWNER_VARIABLE};
use super::program::ProcessSet;
use super::watchdog::Watchdog;

/// A process group. Dropping it kills whoever is left in it, and whoever left it.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    leader: Option<Pid>,
    /// What tells those who left it; taken by whoever looks for them.
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
            let _nobody_left = kill_process_group(group, signal);
        }
    }

    /// The leader is gone: kills whom it left behind, once. Later the number may be somebody else's.
    pub(super) fn kill_remaining(&mut self) {
        self.signal_all(Signal::KILL);
        if let (Some(leader), Some(watchdog)) = (self.leader.take(), &self.watchdog) {
            watchdog.forget(leader);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill_remaining();
        if let (Some(mark), Ok(runtime)) = (self.mark.take(), Handle::try_current()) {
            // Nobody can wait for it here.
            drop(runtime.spawn_blocking(move || descendants::kill_marked(&mark)));
        }
    }
}

/// Holds a command that is run for a moment and everything it starts. Dropping it kills them all at once.
#[derive(Debug)]
pub struct ProcessGroupGuard {
    mark: Option<String>,
    group: Option<ProcessGroup>,
}

impl ProcessGroupGuard {
    /// Prepares a command: it will lead a process group, and whatever it starts can be told by its mark.
    pub fn prepare(command: &mut Command) -> ProcessGroupGuard {
        let mark = ProcessSet::new().next_program_mark();
        command.env(OWNER_VARIABLE, &mark).process_group(0);
        ProcessGroupGuard { mark: Some(mark), group: None }
    }

    /// Takes hold of what was started from that command.
    pub fn attach(&mut self, child: &Child) {
        if let Some(mark) = self.mark.take() {
            self.group = ProcessGroup::new(child, mark, None);
        }
    }

    /// Kills whoever is left. Only once: later the group's number may be somebody else's.
    pub fn kill(&mut self) {
        self.group = None;
    }
}

//! Process groups: signals to a whole group, and a guard that kills everything a command started.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::cgroup::{Cgroup, CgroupUse};
use super::descendants::{self, OWNER_VARIABLE};
use super::family::{Family, Recipients};
use super::program::{ProcessOptions, ProcessSet};
use super::running_programs;
use super::watchdog::Watchdog;

/// A process group. Dropping it kills its members and the descendants that left it.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    leader: Option<Pid>,
    /// The descendants; taken by the code that kills them.
    descendants: Option<DescendantSet>,
    watchdog: Option<Watchdog>,
    leader_role: LeaderRole,
}

/// What the leader of a process group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaderRole {
    /// The program.
    Program,
    /// A supervisor. The program is its child, in another group.
    Supervisor,
}

/// Everything that finds the descendants of a program.
#[derive(Debug)]
pub(super) struct DescendantSet {
    mark: String,
    cgroup: Option<Cgroup>,
    /// The descendants at the time when the program was told to stop.
    family: Family,
}

impl DescendantSet {
    /// Prepares for a program with this mark.
    pub(super) fn prepare(mark: String, cgroup_use: CgroupUse) -> DescendantSet {
        let cgroup = Cgroup::create(&mark, cgroup_use);
        DescendantSet { mark, cgroup, family: Family::default() }
    }

    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// Kills the descendants in every way there is. Blocks while it scans the process table.
    pub(super) fn kill(self) {
        self.kill_known();
        descendants::kill_marked(&self.mark);
        if let Some(cgroup) = self.cgroup {
            cgroup.kill_and_remove();
        }
    }

    /// Kills what can be found without a scan for marks.
    fn kill_known(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if self.family != Family::default() {
            self.family.clone().kill(Recipients::All);
        }
    }

    /// As [`DescendantSet::kill`], without the scan for marks, which the caller does once for many programs.
    pub(super) fn kill_without_mark(self) {
        self.kill_known();
        if let Some(cgroup) = self.cgroup {
            cgroup.kill_and_remove();
        }
    }

    /// For a program that could not be started.
    pub(super) fn discard(self) {
        if let Some(cgroup) = self.cgroup {
            cgroup.remove();
        }
    }
}

impl ProcessGroup {
    pub(super) fn new(
        child: &Child,
        descendants: DescendantSet,
        options: &ProcessOptions,
        leader_role: LeaderRole,
    ) -> Option<ProcessGroup> {
        let id = child.id()?;
        let leader = i32::try_from(id).ok().and_then(Pid::from_raw)?;
        if let Some(cgroup) = &descendants.cgroup {
            cgroup.add(id);
        }
        if let Some(watchdog) = &options.watchdog {
            watchdog.watch(leader);
        }
        running_programs::insert(id, options.process_set);
        Some(ProcessGroup {
            leader: Some(leader),
            descendants: Some(descendants),
            watchdog: options.watchdog.clone(),
            leader_role,
        })
    }

    /// The process id of the leader, while it is known to be ours.
    fn leader_id(&self) -> Option<u32> {
        self.leader.and_then(|leader| u32::try_from(leader.as_raw_pid()).ok())
    }

    /// Remembers the descendants. To be called before the program is told to stop: a descendant whose parent exits
    /// loses its link to it.
    pub(super) async fn note_descendants(&mut self) {
        let (Some(leader), Some(descendants)) = (self.leader_id(), &mut self.descendants) else {
            return;
        };
        let finding = tokio::task::spawn_blocking(move || Family::find([leader]));
        descendants.family = finding.await.unwrap_or_default();
    }

    /// Sends a signal to the program and its group. A supervisor gets none: it ends with the program, after the
    /// descendants that [`ProcessGroup::note_descendants`] found.
    pub(super) fn signal_program(&self, signal: Signal) {
        match self.leader_role {
            LeaderRole::Program => self.signal_group(signal),
            LeaderRole::Supervisor => {
                if let Some(descendants) = &self.descendants {
                    descendants.family.signal(signal, Recipients::Descendants);
                }
            }
        }
    }

    /// Kills the program and its group, or everything below the supervisor.
    pub(super) async fn kill_program(&self) {
        match (self.leader_role, self.leader_id()) {
            (LeaderRole::Supervisor, Some(leader)) => {
                let killing = move || Family::find([leader]).kill(Recipients::Descendants);
                let _count = tokio::task::spawn_blocking(killing).await;
            }
            (LeaderRole::Supervisor, None) | (LeaderRole::Program, _) => {
                self.signal_group(Signal::KILL);
            }
        }
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.leader {
            let _group_empty = kill_process_group(group, signal);
        }
    }

    /// Kills the members after the leader has exited. Done once: the system may reuse the group id later.
    /// Returns whether there was anything to do.
    pub(super) fn kill_remaining(&mut self) -> bool {
        self.signal_group(Signal::KILL);
        let Some(leader) = self.leader.take() else { return false };
        if let Some(watchdog) = &self.watchdog {
            watchdog.forget(leader);
        }
        running_programs::remove(leader.as_raw_pid());
        true
    }

    /// Takes the descendants, to kill them.
    pub(super) fn take_descendants(&mut self) -> Option<DescendantSet> {
        self.descendants.take()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let leader = self.leader_id();
        if let Some(descendants) = &mut self.descendants {
            if let Some(cgroup) = &descendants.cgroup {
                cgroup.kill();
            } else if let Some(leader) = leader {
                // After the kill below, the links are gone.
                descendants.family = Family::find([leader]);
            }
        }
        self.kill_remaining();
        if let Some(descendants) = self.descendants.take() {
            match Handle::try_current() {
                // A destructor cannot wait for the search.
                Ok(runtime) => drop(runtime.spawn_blocking(move || descendants.kill())),
                Err(_) => descendants.kill(),
            }
        }
    }
}

/// Owns a short-lived command and its descendants. Dropping it kills all of them.
#[derive(Debug)]
pub struct ProcessGroupGuard {
    descendants: Option<DescendantSet>,
    group: Option<ProcessGroup>,
}

impl ProcessGroupGuard {
    /// Prepares a command to lead a process group, with a mark for its descendants.
    pub fn prepare(command: &mut Command) -> ProcessGroupGuard {
        let mark = ProcessSet::new().next_program_mark();
        command.env(OWNER_VARIABLE, &mark).process_group(0);
        let descendants = DescendantSet::prepare(mark, CgroupUse::default());
        ProcessGroupGuard { descendants: Some(descendants), group: None }
    }

    /// Takes ownership of the started command.
    pub fn attach(&mut self, child: &Child) {
        if let Some(descendants) = self.descendants.take() {
            let options = ProcessOptions::default();
            self.group = ProcessGroup::new(child, descendants, &options, LeaderRole::Program);
        }
    }

    /// Kills the remaining processes. Done once: the system may reuse the group id later.
    pub fn kill(&mut self) {
        self.group = None;
    }
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        // A command that was never started.
        self.descendants.take().into_iter().for_each(DescendantSet::discard);
    }
}

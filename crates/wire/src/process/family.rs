//! The descendants of programs by their links in the process table: parent, process group and session.
//! A process keeps these links whatever it does with its environment, but loses its parent when that exits, so a
//! family is collected while the program still runs.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, Signal};

use super::process_table::{ProcessEntry, read_process_table, wait_until_exited};

/// How many times the process table is read: a process may fork while it is read.
const MAX_SCANS: usize = 10;

/// Programs and their descendants, each by process id and start time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Family {
    members: BTreeMap<u32, Member>,
    /// The programs themselves.
    roots: BTreeSet<u32>,
    /// The sessions that the programs were started in.
    outer_sessions: BTreeSet<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    start_time: u64,
    session: u32,
}

/// Which members get a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recipients {
    /// The programs and their descendants.
    All,
    /// Not the programs themselves.
    Descendants,
}

impl Family {
    /// The programs with these process ids and their descendants. Blocks while it reads the process table.
    pub(super) fn find(programs: impl IntoIterator<Item = u32>) -> Family {
        Family::collect(programs, &read_process_table())
    }

    /// The children of a process and their descendants.
    pub(super) fn find_children(parent: u32) -> Family {
        let table = read_process_table();
        let children = table.iter().filter(|entry| entry.parent == parent).map(|entry| entry.pid);
        Family::collect(children, &table)
    }

    /// The programs with these process ids and their descendants in a table.
    pub(super) fn collect(
        programs: impl IntoIterator<Item = u32>,
        table: &[ProcessEntry],
    ) -> Family {
        let roots: BTreeSet<u32> = programs.into_iter().collect();
        let programs = || table.iter().filter(|entry| roots.contains(&entry.pid));
        let members = programs().map(|entry| (entry.pid, Member::of(entry))).collect();
        // A program that leads its session created it.
        let started_in = programs().filter(|entry| entry.session != entry.pid);
        let outer_sessions = started_in.map(|entry| entry.session).collect();
        let mut family = Family { members, roots, outer_sessions };
        family.extend(table);
        family
    }

    /// Adds the processes that are linked to a member: its children, the process group that it leads, and the session
    /// that a descendant created. Removes the processes that are gone. Returns whether there were new ones.
    pub(super) fn extend(&mut self, table: &[ProcessEntry]) -> bool {
        let known = self.members.len();
        let alive: BTreeMap<u32, u64> =
            table.iter().map(|entry| (entry.pid, entry.start_time)).collect();
        self.members.retain(|pid, member| alive.get(pid) == Some(&member.start_time));
        let gone = known - self.members.len();
        loop {
            let sessions = self.created_sessions();
            let before = self.members.len();
            for entry in table {
                let is_linked = self.members.contains_key(&entry.parent)
                    || self.members.contains_key(&entry.group)
                    || sessions.contains(&entry.session);
                if is_linked {
                    self.members.entry(entry.pid).or_insert_with(|| Member::of(entry));
                }
            }
            if self.members.len() == before {
                return self.members.len() + gone > known;
            }
        }
    }

    /// Adds another family.
    pub(super) fn merge(&mut self, other: Family) {
        self.members.extend(other.members);
        self.roots.extend(other.roots);
        self.outer_sessions.extend(other.outer_sessions);
    }

    /// The sessions that members are in, except those that the programs were started in. A process can leave its
    /// session only for a new one, so all processes of such a session are descendants.
    fn created_sessions(&self) -> BTreeSet<u32> {
        let sessions = self.members.values().map(|member| member.session);
        sessions.filter(|session| !self.outer_sessions.contains(session)).collect()
    }

    /// Sends a signal to the members that still run.
    pub(super) fn signal(&self, signal: Signal, recipients: Recipients) -> usize {
        self.recipients(recipients).filter(|(pid, start)| send(*pid, *start, signal)).count()
    }

    fn recipients(&self, recipients: Recipients) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.members
            .iter()
            .filter(move |(pid, _)| recipients == Recipients::All || !self.roots.contains(pid))
            .map(|(pid, member)| (*pid, member.start_time))
    }

    /// Kills the members and what they have started in the meantime. Stops all of them first, because a process that
    /// is killed while its child is unknown takes the link to it along. Blocks until they are gone. Returns how many it
    /// killed.
    pub(super) fn kill(mut self, recipients: Recipients) -> usize {
        for _ in 0..MAX_SCANS {
            let is_larger = self.extend(&read_process_table());
            self.signal(Signal::STOP, recipients);
            if !is_larger {
                break;
            }
        }
        let killed = self.signal(Signal::KILL, recipients);
        wait_until_exited(self.recipients(recipients));
        killed
    }
}

impl Member {
    fn of(entry: &ProcessEntry) -> Member {
        Member { start_time: entry.start_time, session: entry.session }
    }
}

/// Sends a signal to a process unless its id belongs to another one by now.
#[cfg(target_os = "linux")]
fn send(pid: u32, start_time: u64, signal: Signal) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};
    let Some(process) = to_pid(pid) else { return false };
    let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { return false };
    // The descriptor stays with the process that it was opened for, so comparing afterwards is safe.
    let is_same = ProcessEntry::read(pid).is_some_and(|entry| entry.start_time == start_time);
    is_same && pidfd_send_signal(process, signal).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn send(pid: u32, start_time: u64, signal: Signal) -> bool {
    let is_same = ProcessEntry::read(pid).is_some_and(|entry| entry.start_time == start_time);
    is_same && to_pid(pid).is_some_and(|pid| rustix::process::kill_process(pid, signal).is_ok())
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pid parent group session` of each process; the start time is the pid.
    fn table(lines: &[[u32; 4]]) -> Vec<ProcessEntry> {
        let entry = |&[pid, parent, group, session]: &[u32; 4]| ProcessEntry {
            pid,
            parent,
            group,
            session,
            start_time: u64::from(pid),
        };
        lines.iter().map(entry).collect()
    }

    #[track_caller]
    fn check(lines: &[[u32; 4]], expected: &[u32]) {
        let family = Family::collect([10], &table(lines));
        assert_eq!(family.members.into_keys().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn children_of_children_are_found_in_any_order_of_the_table() {
        check(&[[12, 11, 12, 12], [11, 10, 10, 2], [10, 1, 10, 2]], &[10, 11, 12]);
    }

    #[test]
    fn a_group_whose_leader_is_a_member_belongs_to_it() {
        check(&[[10, 1, 10, 2], [11, 1, 10, 2]], &[10, 11]);
    }

    #[test]
    fn a_session_that_a_descendant_created_belongs_to_it_even_without_its_leader() {
        check(&[[10, 1, 10, 2], [11, 10, 77, 77], [12, 1, 12, 77]], &[10, 11, 12]);
    }

    #[test]
    fn the_session_that_the_program_was_started_in_does_not_belong_to_it() {
        check(&[[10, 1, 10, 2], [2, 1, 2, 2], [3, 2, 3, 2], [11, 10, 3, 2]], &[10, 11]);
    }

    #[test]
    fn a_program_that_is_gone_has_no_family() {
        check(&[[3, 1, 3, 3]], &[]);
    }

    #[test]
    fn a_later_scan_drops_reused_ids_and_adds_new_children() {
        let mut family = Family::collect([10], &table(&[[10, 1, 10, 2], [11, 10, 11, 11]]));
        let mut later = table(&[[11, 1, 11, 11], [12, 11, 12, 12], [10, 1, 10, 2]]);
        later[2].start_time = 99;
        assert!(family.extend(&later));
        assert_eq!(family.members.keys().copied().collect::<Vec<_>>(), [11, 12]);
        assert!(!family.extend(&later));
    }
}

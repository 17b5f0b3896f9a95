//! Finds the descendants of our programs by a mark in their environment.
//! Children inherit the environment, so the mark also finds processes that left the process group.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal, kill_process};

use super::cgroup::kill_in_cgroups;
use super::process_table::{ProcessEntry, list_pids, pid_namespace, wait_until_exited};

/// The environment variable that carries the mark.
pub const OWNER_VARIABLE: &str = "SWITCHBOARD_OWNER";

/// How many times the process table is scanned: a process may fork during a scan.
const MAX_SCANS: usize = 10;

/// The process that started a program, by process id and start time, so that a reused id is not mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    start_time: String,
}

impl Owner {
    /// This process.
    pub fn current() -> Owner {
        let pid = std::process::id();
        Owner { pid, start_time: start_time(pid).unwrap_or_default() }
    }

    /// The mark of a process set.
    pub fn set_mark(&self, process_set: u64) -> String {
        format!("{self}/{process_set}")
    }

    /// The mark of a program in a process set.
    pub fn program_mark(&self, process_set: u64, program: u64) -> String {
        format!("{}/{program}", self.set_mark(process_set))
    }

    fn parse(text: &str) -> Option<Owner> {
        let (pid, start_time) = text.split_once('.')?;
        Some(Owner { pid: pid.parse().ok()?, start_time: start_time.to_owned() })
    }

    fn is_alive(&self) -> bool {
        start_time(self.pid).is_some_and(|start_time| start_time == self.start_time)
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.pid, self.start_time)
    }
}

/// Kills all processes whose mark is the given one or below it: of a program, a process set or an owner. Blocks
/// while it scans the process table and until they are gone. Returns how many it killed.
pub fn kill_marked(mark: &str) -> usize {
    kill_matching(|_, found| has_mark(found, mark))
}

/// Kills the processes whose owner does not run any more, by cgroup and mark. Processes in another PID namespace, such as a container,
/// are left alone: the process id of their owner is not valid here.
pub fn kill_orphans() -> usize {
    let here = pid_namespace("self");
    let has_lost_owner = |mark: &str| {
        let owner = mark.split('/').next().and_then(Owner::parse);
        owner.is_some_and(|owner| !owner.is_alive())
    };
    kill_in_cgroups(has_lost_owner);
    kill_matching(|pid, found| {
        let is_here = here.is_some() && pid_namespace(&pid.to_string()) == here;
        is_here && has_lost_owner(found)
    })
}

pub(super) fn has_mark(found: &str, mark: &str) -> bool {
    found.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn kill_matching(matches_mark: impl Fn(u32, &str) -> bool) -> usize {
    let mut killed = 0;
    for _ in 0..MAX_SCANS {
        let mut found = Vec::new();
        for entry in list_pids().into_iter().filter_map(ProcessEntry::read) {
            let mark = read_mark(entry.pid).ok().flatten();
            if mark.is_some_and(|mark| matches_mark(entry.pid, &mark))
                && let Some(process) = i32::try_from(entry.pid).ok().and_then(Pid::from_raw)
                && kill_process(process, Signal::KILL).is_ok()
            {
                found.push((entry.pid, entry.start_time));
            }
        }
        if found.is_empty() {
            break;
        }
        killed += found.len();
        wait_until_exited(found);
    }
    killed
}

/// The mark in the environment of a process; an error if the environment is not readable or the process is gone. A
/// zombie has no environment.
fn read_mark(pid: u32) -> io::Result<Option<String>> {
    let environment = fs::read(format!("/proc/{pid}/environ"))?;
    let marked = environment.split(|byte| *byte == 0).find_map(|variable| {
        variable.strip_prefix(OWNER_VARIABLE.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec)
    });
    Ok(marked.and_then(|value| String::from_utf8(value).ok()))
}

/// The start time of a process that runs.
fn start_time(pid: u32) -> Option<String> {
    ProcessEntry::read(pid).map(|entry| entry.start_time.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::process::cgroup::put_into_cgroup;
    use crate::process::process_table::children;

    #[test]
    fn a_mark_matches_its_owner_only() {
        assert!(has_mark("12.99/3", "12.99") && has_mark("12.99/3", "12.99/3"));
        assert!(!has_mark("12.99/31", "12.99/3") && !has_mark("12.991/3", "12.99"));
    }

    #[test]
    fn a_reused_pid_is_a_different_owner() {
        let this = Owner::current();
        assert!(this.is_alive());
        assert_eq!(Owner::parse(&this.to_string()), Some(this.clone()));
        let earlier = Owner { start_time: format!("{}0", this.start_time), ..this };
        assert!(!earlier.is_alive());
    }

    /// A sleeping process whose mark names an owner that does not run. The arguments are a command to run it with.
    fn orphan(wrapper: &[&str]) -> Child {
        let start_time = Owner::current().start_time;
        let dead = Owner { start_time: format!("{start_time}0"), ..Owner::current() };
        let sleep = ["sh", "-c", "echo here; exec sleep 600"];
        let line: Vec<&str> = wrapper.iter().copied().chain(sleep).collect();
        let mut command = Command::new(line[0]);
        command
            .args(&line[1..])
            .env(OWNER_VARIABLE, dead.program_mark(1, 1))
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("it can be run");
        let mut output = [0; 4];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut output).expect("it is there");
        child
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn orphans_are_killed_in_this_pid_namespace_only() {
        let mut other_namespace = vec!["unshare", "--pid", "--fork", "--kill-child"];
        if !rustix::process::getuid().is_root() {
            other_namespace.splice(1..1, ["--user", "--map-root-user"]);
        }
        // The wrapper stays in this namespace, so it must not have the mark.
        other_namespace.splice(0..0, ["env", "-u", OWNER_VARIABLE]);
        let marked = format!("{OWNER_VARIABLE}={}.0/1/1", std::process::id());
        other_namespace.extend(["env", &marked]);
        let (mut here, mut there) = (orphan(&[]), orphan(&other_namespace));
        let inner = children(there.id())[0];
        put_into_cgroup(&format!("{}.0/1/1", std::process::id()), inner);
        while kill_orphans() > 0 {}
        let status = here.wait().expect("it ends");
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert!(there.try_wait().expect("its state").is_none(), "it still runs");
        there.kill().expect("it is there");
        there.wait().expect("it ends");
    }
}

//! Finds the descendants of our programs by a mark in their environment.
//! Children inherit the environment, so the mark also finds processes that left the process group.

use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

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
/// while it scans the process table. Returns how many it killed.
pub fn kill_marked(mark: &str) -> usize {
    kill_matching(|_, found| has_mark(found, mark))
}

/// Kills the processes whose owner does not run any more. Processes in another PID namespace, such as a container,
/// are left alone: the process id of their owner is not valid here.
pub fn kill_orphans() -> usize {
    let here = pid_namespace("self");
    kill_matching(|pid, found| {
        let owner = found.split('/').next().and_then(Owner::parse);
        let is_here = here.is_some() && pid_namespace(&pid.to_string()) == here;
        is_here && owner.is_some_and(|owner| !owner.is_alive())
    })
}

/// The PID namespace of a process.
fn pid_namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

fn has_mark(found: &str, mark: &str) -> bool {
    found.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn kill_matching(matches_mark: impl Fn(u32, &str) -> bool) -> usize {
    let mut killed = 0;
    for _ in 0..MAX_SCANS {
        let mut found = 0;
        for pid in list_pids() {
            if read_mark(pid).is_ok_and(|mark| mark.is_some_and(|mark| matches_mark(pid, &mark)))
                && let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw)
                && kill_process(process, Signal::KILL).is_ok()
            {
                found += 1;
            }
        }
        killed += found;
        if found == 0 {
            break;
        }
    }
    killed
}

fn list_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .collect()
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

/// The start time of a process, in kernel clock ticks.
fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; the fields after it do not.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    (state != "Z" && state != "X").then(|| fields.nth(18).map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

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
        while kill_orphans() > 0 {}
        let status = here.wait().expect("it ends");
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
        assert!(there.try_wait().expect("its state").is_none(), "it still runs");
        there.kill().expect("it is there");
        there.wait().expect("it ends");
    }
}

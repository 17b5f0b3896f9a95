//! A process that outlives us by a moment: when we are gone, however we went, it kills what we started.
//! It knows that from the end of a pipe that only we hold.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use super::descendants::{self, Owner};

/// How to start a guard: a program whose `main` hands its standard input to [`stand`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchdogProgram {
    /// The program.
    pub command: OsString,
    /// The arguments that make it a guard; the owner comes after them.
    pub args: Vec<OsString>,
}

/// A running guard. Clones share it. When the last is dropped, or this process dies, it does its work and ends.
#[derive(Debug, Clone)]
pub struct Watchdog(Arc<Mutex<WatchdogPipe>>);

#[derive(Debug)]
struct WatchdogPipe {
    stdin: Option<ChildStdin>,
    child: Child,
}

impl Watchdog {
    /// Starts a guard over this process.
    pub fn start(program: &WatchdogProgram) -> io::Result<Watchdog> {
        let mut child = Command::new(&program.command)
            .args(&program.args)
            .arg(Owner::current().to_string())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let stdin = child.stdin.take();
        Ok(Watchdog(Arc::new(Mutex::new(WatchdogPipe { stdin, child }))))
    }

    /// Tells it of a process group of ours.
    pub(super) fn watch(&self, group: Pid) {
        self.write_line(&format!("+{}\n", group.as_raw_pid()));
    }

    /// Tells it that a group is gone, and its number may be somebody else's from now on.
    pub(super) fn forget(&self, group: Pid) {
        self.write_line(&format!("-{}\n", group.as_raw_pid()));
    }

    /// A few bytes into a pipe whose other end does nothing but read: it takes them at once.
    fn write_line(&self, line: &str) {
        let mut watchdog = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stdin) = &mut watchdog.stdin {
            let _guard_gone = stdin.write_all(line.as_bytes());
        }
    }
}

impl Drop for WatchdogPipe {
    fn drop(&mut self) {
        // Its work begins when the pipe ends. Nobody waits for it, and whoever is our parent collects it, unless
        // it has ended already.
        self.stdin = None;
        let _still_at_work = self.child.try_wait();
    }
}

/// The guard's whole life: listens until the pipe ends, then kills every group it was told of and everybody who
/// carries the owner's mark.
pub fn run_watchdog(input: impl Read, owner: &str) {
    // A session of its own, so that no terminal takes it down with us.
    let _already_leads_one = rustix::process::setsid();
    let mut groups = BTreeSet::new();
    for line in BufReader::new(input).lines() {
        let Ok(line) = line else { break };
        let parsed = line.get(1..).and_then(|number| number.parse().ok()).and_then(Pid::from_raw);
        match (line.as_bytes().first(), parsed) {
            (Some(b'+'), Some(group)) => {
                groups.insert(group.as_raw_pid());
            }
            (Some(b'-'), Some(group)) => {
                groups.remove(&group.as_raw_pid());
            }
            (Some(_) | None, Some(_) | None) => {}
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _nobody_left = kill_process_group(group, Signal::KILL);
    }
    descendants::kill_marked(owner);
}

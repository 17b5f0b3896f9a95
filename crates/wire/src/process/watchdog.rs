//! A helper process that outlives this one: when this process ends for any reason, it kills what this process
//! started.
//! It notices by the end of a pipe that only this process holds.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use super::descendants::{self, Owner};

/// How to start the watchdog: a program whose `main` passes standard input to [`run_watchdog`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchdogProgram {
    /// The program.
    pub command: OsString,
    /// The arguments that start it as a watchdog; the owner follows them.
    pub args: Vec<OsString>,
}

/// A running watchdog. Clones share it. When the last is dropped, or this process dies, it kills and exits.
#[derive(Debug, Clone)]
pub struct Watchdog(Arc<Mutex<WatchdogPipe>>);

#[derive(Debug)]
struct WatchdogPipe {
    stdin: Option<ChildStdin>,
    child: Child,
}

impl Watchdog {
    /// Starts a watchdog for this process.
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

    /// Adds a process group.
    pub(super) fn watch(&self, group: Pid) {
        self.write_line(&format!("+{}\n", group.as_raw_pid()));
    }

    /// Removes a process group that is gone, because the system may reuse its id.
    pub(super) fn forget(&self, group: Pid) {
        self.write_line(&format!("-{}\n", group.as_raw_pid()));
    }

    /// Writes a few bytes to a pipe whose reader does nothing else, so the write does not block.
    fn write_line(&self, line: &str) {
        let mut watchdog = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stdin) = &mut watchdog.stdin {
            let _watchdog_gone = stdin.write_all(line.as_bytes());
        }
    }
}

impl Drop for WatchdogPipe {
    fn drop(&mut self) {
        // The watchdog starts killing when the pipe closes. Nothing waits for it: our parent process reaps it,
        // unless it has exited already.
        self.stdin = None;
        let _still_running = self.child.try_wait();
    }
}

/// The main loop of the watchdog: reads until the pipe closes, then kills every listed group and every process with
/// the owner's mark.
pub fn run_watchdog(input: impl Read, owner: &str) {
    // A session of its own, so that a terminal does not stop it together with us.
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
        let _group_empty = kill_process_group(group, Signal::KILL);
    }
    descendants::kill_marked(owner);
}

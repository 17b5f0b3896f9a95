//! A helper process that outlives this one: when this process ends for any reason, it kills what this process
//! started.
//! It notices by the end of a pipe that only this process holds.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::cgroup::kill_in_cgroups;
use super::descendants::{self, Owner};
use super::family::Recipients;
use super::process_table::read_process_table;
use super::watched_programs::WatchedPrograms;

/// How often the process table is scanned while programs run.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// How many lines of the owner may wait during a scan.
const MAX_UNREAD_LINES: usize = 1024;

/// A program that can be a watchdog, whose `main` passes standard input to [`run_watchdog`], and a supervisor, whose
/// `main` passes its further arguments to [`run_supervisor`](super::run_supervisor).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchdogProgram {
    /// The program.
    pub command: OsString,
    /// The arguments that start it as a watchdog; the owner follows them.
    pub args: Vec<OsString>,
    /// The arguments that start it as the supervisor of a command; the command and its arguments follow them.
    pub supervisor_args: Vec<OsString>,
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

/// The main loop of the watchdog: reads until the pipe closes, then kills every listed group, the descendants of its
/// leader by their links, what is in the owner's cgroups, and every process with the owner's mark.
pub fn run_watchdog(input: impl Read + Send, owner: &str) {
    // A session of its own, so that a terminal does not stop it together with us.
    let _already_leads_one = rustix::process::setsid();
    let mut watched = WatchedPrograms::default();
    thread::scope(|scope| {
        let (sender, lines) = mpsc::sync_channel(MAX_UNREAD_LINES);
        scope.spawn(move || {
            for line in BufReader::new(input).lines().map_while(Result::ok) {
                let _reader_left = sender.send(line);
            }
        });
        watch_until_closed(&lines, &mut watched);
    });
    watched.scan(&read_process_table());
    watched.family().kill(Recipients::All);
    for group in watched.programs().filter_map(Pid::from_raw) {
        let _group_empty = kill_process_group(group, Signal::KILL);
    }
    descendants::kill_marked(owner);
    kill_in_cgroups(|mark| descendants::has_mark(mark, owner));
}

/// Follows the programs of the owner until the pipe closes. Scans the process table from time to time: when the owner
/// is killed, its servers see the end of their input and exit, and with them the links to their descendants.
fn watch_until_closed(lines: &mpsc::Receiver<String>, watched: &mut WatchedPrograms) {
    let mut next_scan = Instant::now() + SCAN_INTERVAL;
    loop {
        let until_scan = next_scan.saturating_duration_since(Instant::now());
        let received = match watched.is_empty() {
            true => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => lines.recv_timeout(until_scan),
        };
        match received {
            Ok(line) => {
                if let Some(ended) = watched.read_line(&line) {
                    ended.kill(Recipients::Descendants);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                watched.scan(&read_process_table());
                next_scan = Instant::now() + SCAN_INTERVAL;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

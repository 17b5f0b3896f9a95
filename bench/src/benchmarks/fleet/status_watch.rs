//! A running `swb status --watch`: when its servers were connected, and what it needs while idle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

use crate::failure::Failure;
use crate::sandbox::Sandbox;

/// The maximum number of unread lines.
const LINE_BUFFER: usize = 1024;
/// The timeout for connecting all servers.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout for the exit of a process after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// A running watch. Dropping it ends the process and its servers.
pub struct StatusWatch {
    child: Child,
    began: Instant,
    lines: Receiver<(Instant, String)>,
    reading: Option<JoinHandle<()>>,
}

/// The resource usage of a process.
#[derive(Debug, Clone, Default)]
pub struct ProcessUsage {
    /// The resident memory in megabytes.
    pub resident: f64,
    /// The peak of the resident memory.
    pub peak: f64,
    /// The number of threads.
    pub threads: usize,
    /// The processor time of each running thread, by thread id.
    cpu_by_thread: BTreeMap<String, Duration>,
}

impl ProcessUsage {
    /// The processor time of all running threads.
    pub fn cpu_time(&self) -> Duration {
        self.cpu_by_thread.values().sum()
    }

    /// The processor time since an earlier sample. Each thread is compared with itself, because a thread that has
    /// ended is missing from the later sum.
    pub fn cpu_since(&self, before: &ProcessUsage) -> Duration {
        let used = |(thread, now): (&String, &Duration)| {
            now.saturating_sub(before.cpu_by_thread.get(thread).copied().unwrap_or_default())
        };
        self.cpu_by_thread.iter().map(used).sum()
    }
}

impl StatusWatch {
    /// Starts a watch. `width` is the number of programs that start at once; None for the default.
    pub fn start(
        sandbox: &Sandbox,
        swb: &Path,
        width: Option<usize>,
    ) -> Result<StatusWatch, Failure> {
        let mut command = sandbox.command(swb);
        command.args(["status", "--watch", "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(width) = width {
            command.env(super::BATCH_SIZE_VARIABLE, width.to_string());
        }
        let began = Instant::now();
        let fail = |error| Failure::NotStarted { program: swb.to_owned(), error };
        let mut child = command.spawn().map_err(fail)?;
        let output = child.stdout.take().ok_or(Failure::InvalidRequest)?;
        let (sender, lines) = mpsc::sync_channel(LINE_BUFFER);
        let reading = thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Ok(StatusWatch { child, began, lines, reading: Some(reading) })
    }

    /// The time from the start until this number of servers was connected.
    pub fn until_connected(&self, count: usize) -> Result<Duration, Failure> {
        let mut connected = BTreeSet::new();
        let deadline = self.began + CONNECT_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((when, line)) = self.lines.recv_timeout(left) else {
                return Err(Failure::NotConnected { connected: connected.len(), of: count });
            };
            let server: Json = serde_json::from_str(&line).map_err(Failure::InvalidJson)?;
            if server["state"] == "connected" {
                connected.insert(server["name"].to_string());
            }
            if connected.len() == count {
                return Ok(when - self.began);
            }
        }
    }

    /// The current resource usage.
    pub fn usage(&self) -> Result<ProcessUsage, Failure> {
        let folder = Path::new("/proc").join(self.child.id().to_string());
        let path = folder.join("status");
        let status = fs::read_to_string(&path).map_err(|error| Failure::file(&path, error))?;
        let megabytes = |key| number(&status, key).unwrap_or_default() as f64 * 1024.0 / 1e6;
        let path = folder.join("task");
        let threads = fs::read_dir(&path).map_err(|error| Failure::file(&path, error))?;
        let used = threads.flatten().filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
            let number = thread.file_name().to_string_lossy().into_owned();
            Some((number, Duration::from_nanos(nanoseconds)))
        });
        Ok(ProcessUsage {
            resident: megabytes("VmRSS:"),
            peak: megabytes("VmHWM:"),
            threads: number(&status, "Threads:").unwrap_or_default(),
            cpu_by_thread: used.collect(),
        })
    }
}

/// The number in the line of `/proc/PID/status` with this key.
fn number(status: &str, key: &str) -> Option<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Drop for StatusWatch {
    /// Sends a signal first, so that the process can end its servers.
    fn drop(&mut self) {
        if let Some(number) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _gone_already = kill_process(number, Signal::TERM);
        }
        // The output ends with the process.
        let signalled_at = Instant::now();
        while signalled_at.elapsed() < EXIT_TIMEOUT && self.lines.recv_timeout(EXIT_TIMEOUT).is_ok()
        {
        }
        let _gone_already = self.child.kill();
        let _gone_already = self.child.wait();
        if let Some(reading) = self.reading.take() {
            let _panicked = reading.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_the_beginning_of_its_line() {
        let status = "Name:\tswb\nVmHWM:\t   17120 kB\nThreads:\t3\n";
        assert_eq!(number(status, "VmHWM:"), Some(17_120));
        assert_eq!(number(status, "Threads:"), Some(3));
        assert_eq!(number(status, "VmRSS:"), None);
    }
    #[test]
    fn a_thread_that_ended_hides_nothing_of_what_others_used() {
        let needs = |threads: &[(&str, u64)]| ProcessUsage {
            cpu_by_thread: threads
                .iter()
                .map(|(number, time)| ((*number).to_owned(), Duration::from_millis(*time)))
                .collect(),
            ..ProcessUsage::default()
        };
        let before = needs(&[("1", 10), ("2", 50)]);
        let after = needs(&[("1", 13), ("3", 2)]);
        assert_eq!(after.cpu_since(&before), Duration::from_millis(5));
    }
}

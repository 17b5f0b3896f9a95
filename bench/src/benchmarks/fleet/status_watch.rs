//! `swb status --watch` at work: when its servers were connected, and what it needs while nothing happens.

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

/// How many lines may wait to be read.
const LINE_BUFFER: usize = 1024;
/// How long servers may take to be connected.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a program that was told to end may take.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);

/// A watch that was started. Dropping it ends it, and its servers with it.
pub struct StatusWatch {
    child: Child,
    began: Instant,
    lines: Receiver<(Instant, String)>,
    reading: Option<JoinHandle<()>>,
}

/// What a process holds and has used.
#[derive(Debug, Clone, Default)]
pub struct ProcessUsage {
    /// Memory that is in use now, in megabytes.
    pub resident: f64,
    /// The most that ever was.
    pub peak: f64,
    /// How many threads it has.
    pub threads: usize,
    /// Time on a processor so far, of each thread that lives, by its number.
    cpu_by_thread: BTreeMap<String, Duration>,
}

impl ProcessUsage {
    /// Time on a processor so far, of the threads that live.
    pub fn cpu_time(&self) -> Duration {
        self.cpu_by_thread.values().sum()
    }

    /// Time on a processor since then. Threads come and go, so each is compared with itself: one that has ended
    /// would take all it ever used out of a difference of sums.
    pub fn cpu_since(&self, before: &ProcessUsage) -> Duration {
        let used = |(thread, now): (&String, &Duration)| {
            now.saturating_sub(before.cpu_by_thread.get(thread).copied().unwrap_or_default())
        };
        self.cpu_by_thread.iter().map(used).sum()
    }
}

impl StatusWatch {
    /// Starts to watch. `width` is how many programs are started at once; none for what is usual.
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

    /// How long it took from the start until so many servers were connected.
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

    /// What it needs by now.
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

/// The number in the line of a status that begins so.
fn number(status: &str, key: &str) -> Option<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

impl Drop for StatusWatch {
    /// Asks first, so that it ends its servers.
    fn drop(&mut self) {
        if let Some(number) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _gone_already = kill_process(number, Signal::TERM);
        }
        // The output ends with the program.
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

//! The program under test: started as users start it, observed from outside, ended with SIGTERM or SIGKILL.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time::sleep;

use crate::environment::sandbox::Sandbox;
use crate::environment::system;
use crate::failure::Failure;
use crate::gateway_client;
use crate::verdict::checker;
use crate::verdict::checker::EXTRA_THREADS;
use crate::verdict::history::{ResourceUsage, Shutdown};

/// The timeout for an orderly exit: ten seconds for calls, then every server.
const EXIT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long its child processes may live after it was killed.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it may take to release resources after the load. Idle connections are kept for a minute.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(90);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `swb serve --pool`, listening.
#[derive(Debug)]
pub struct SwbProcess {
    child: Child,
    /// Whether it was told to exit.
    was_signalled: bool,
    /// The address where it listens.
    pub address: String,
}

impl SwbProcess {
    /// Starts it.
    pub fn start(place: &Sandbox) -> Result<SwbProcess, Failure> {
        let words = File::options().create(true).append(true).open(place.stderr_path());
        let words = words.map_err(|error| {
            Failure::from_io("could not create the file for standard error", error)
        })?;
        let mut command = place.swb_with_clock();
        command
            .args(["serve", "--pool", "--http", "127.0.0.1:0", "--no-auth", "--mode", "bypass"])
            .args(["--max-requests-per-second", "0"])
            .stdout(Stdio::piped())
            .stderr(words);
        let child = command.spawn();
        let mut child =
            child.map_err(|error| Failure::from_io("`swb` could not be started", error))?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let read = output.read_line(&mut line);
        read.map_err(|error| Failure::from_io("`swb` did not print its address", error))?;
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.and_then(|it| it.strip_suffix("/mcp")).map(str::to_owned);
        let address = address.ok_or_else(|| {
            let said = fs::read_to_string(place.stderr_path()).unwrap_or_default();
            Failure::new(format!("`swb` did not print its address: {line}{said}"))
        })?;
        Ok(SwbProcess { child, was_signalled: false, address })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The process of a server that it started, by a unique part of its command line.
    pub fn child_pid(&self, words: &str) -> Option<u32> {
        let all = system::processes();
        let found =
            all.into_iter().find(|it| it.parent == self.pid() && it.command_line.contains(words));
        found.map(|it| it.pid)
    }

    /// Its current resources.
    pub async fn resource_usage(&self, known: &[u32]) -> Result<ResourceUsage, Failure> {
        let number = self.pid();
        let count = |what: &str| {
            let entries = fs::read_dir(format!("/proc/{number}/{what}"));
            entries.map(Iterator::count).map_err(|error| Failure::from_io("`swb` is gone", error))
        };
        let open = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
        let open: Vec<String> = open
            .filter_map(|it| Some(fs::read_link(it.path()).ok()?.display().to_string()))
            .collect();
        let of_kind = |kind: &str| open.iter().filter(|it| it.starts_with(kind)).count();
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        let memory = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|it| it.split_whitespace().next()?.parse().ok());
        let page = gateway_client::send(&self.address, "GET /metrics", "", "").await;
        let page = page.map_err(|error| Failure::from_io("`swb` shows no metrics", error))?;
        if !page.body.contains("switchboard_tool_calls_in_flight") {
            return Err(Failure::new(format!("metrics lack calls in flight: {}", page.body)));
        }
        let mut processes = BTreeMap::new();
        for process in system::other_processes(known) {
            *processes.entry(process.command_line).or_default() += 1;
        }
        Ok(ResourceUsage {
            files: count("fd")?,
            sockets: of_kind("socket:"),
            pipes: of_kind("pipe:"),
            threads: count("task")?,
            memory: memory.ok_or_else(|| Failure::new("`swb` has no memory"))?,
            processes,
            in_flight: sum_metric(&page.body, "switchboard_tool_calls_in_flight"),
            sessions: sum_metric(&page.body, "switchboard_sessions")
                + sum_metric(&page.body, "switchboard_parked_calls"),
        })
    }

    /// Its resources once it has released those of the load, or after a timeout.
    pub async fn settled_usage(
        &self,
        known: &[u32],
        before: &ResourceUsage,
    ) -> Result<ResourceUsage, Failure> {
        let start = Instant::now();
        loop {
            let now = self.resource_usage(known).await?;
            let is_settled = now.files <= before.files
                && now.threads <= before.threads + EXTRA_THREADS
                && checker::extra_processes(before, &now).is_empty()
                && now.in_flight + now.sessions == 0;
            if is_settled || start.elapsed() > SETTLE_TIMEOUT {
                return Ok(now);
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Ends it with a signal and lists remaining processes.
    pub async fn stop(mut self, signal: Signal, known: &[u32]) -> Result<Shutdown, Failure> {
        system::send_signal(self.pid(), signal)?;
        self.was_signalled = true;
        let start = Instant::now();
        let ended = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if start.elapsed() < EXIT_TIMEOUT => sleep(POLL_INTERVAL).await,
                Ok(None) | Err(_) => break None,
            }
        };
        let (signal_name, problem) = match (signal, ended) {
            (Signal::KILL, Some(_)) => ("SIGKILL", None),
            (_, Some(status)) if status.success() => ("SIGTERM", None),
            (_, Some(status)) => ("SIGTERM", Some(format!("it ended with {status}"))),
            (_, None) => ("SIGTERM", Some(format!("it did not end within {EXIT_TIMEOUT:?}"))),
        };
        let orphan_timeout = if signal == Signal::KILL { ORPHAN_TIMEOUT } else { Duration::ZERO };
        let start = Instant::now();
        let orphans = loop {
            let orphans = system::other_processes(known);
            if orphans.is_empty() || start.elapsed() >= orphan_timeout {
                break orphans;
            }
            sleep(POLL_INTERVAL).await;
        };
        let orphans = orphans.iter().map(|it| format!("{} {}", it.pid, it.command_line)).collect();
        Ok(Shutdown { signal: signal_name, problem, orphans })
    }
}

impl Drop for SwbProcess {
    fn drop(&mut self) {
        if let (false, Ok(Some(status))) = (self.was_signalled, self.child.try_wait()) {
            eprintln!("`swb` ended unexpectedly: {status}");
        }
        let _has_ended = self.child.kill();
        let _has_ended = self.child.wait();
    }
}

/// The sum of a metric over all of its labels.
fn sum_metric(page: &str, metric: &str) -> usize {
    let samples = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest,
        };
        value.trim().parse::<f64>().ok()
    });
    samples.sum::<f64>() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels_only() {
        let page =
            "# TYPE m gauge\nm{server=\"a\"} 2\nm{server=\"b}\"} 1\nm_more{x=\"y\"} 9\nn 4\n";
        assert_eq!(
            (sum_metric(page, "m"), sum_metric(page, "n"), sum_metric(page, "o")),
            (3, 4, 0)
        );
    }
}

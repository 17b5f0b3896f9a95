//! The program under test: started as people start it, looked at from outside, ended well or badly.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time::sleep;

use crate::exchange;
use crate::failure::Failure;
use crate::history::{Farewell, Vitals};
use crate::judge::{self, MORE_THREADS};
use crate::place::Place;
use crate::system;

/// How long it may take to end after it was told to: ten seconds for calls, then every server.
const ENDING: Duration = Duration::from_secs(20);
/// How long what it started may live on after it was killed.
const AFTERLIFE: Duration = Duration::from_secs(10);
/// How long what was needed for the load may take to be given back. Connections wait a minute for another use.
const SETTLING: Duration = Duration::from_secs(90);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// `swb serve --pool`, listening.
#[derive(Debug)]
pub struct Subject {
    child: Child,
    /// Was it told to end?
    is_told: bool,
    /// Where it listens.
    pub address: String,
}

impl Subject {
    /// Starts it.
    pub fn start(place: &Place) -> Result<Subject, Failure> {
        let words = File::options().create(true).append(true).open(place.words());
        let words = words.map_err(|error| Failure::of("no file for its words", error))?;
        let mut command = place.swb_with_clock();
        command
            .args(["serve", "--pool", "--http", "127.0.0.1:0", "--no-auth", "--mode", "bypass"])
            .stdout(Stdio::piped())
            .stderr(words);
        let child = command.spawn();
        let mut child = child.map_err(|error| Failure::of("`swb` could not be started", error))?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let read = output.read_line(&mut line);
        read.map_err(|error| Failure::of("`swb` does not say where it is", error))?;
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.and_then(|it| it.strip_suffix("/mcp")).map(str::to_owned);
        let address = address.ok_or_else(|| {
            let said = fs::read_to_string(place.words()).unwrap_or_default();
            Failure::because(format!("`swb` does not say where it is: {line}{said}"))
        })?;
        Ok(Subject { child, is_told: false, address })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.child.id()
    }

    /// The process of a server that it started, by words that only that one was started with.
    pub fn program(&self, words: &str) -> Option<u32> {
        let all = system::processes();
        let found =
            all.into_iter().find(|it| it.parent == self.number() && it.line.contains(words));
        found.map(|it| it.number)
    }

    /// What it holds now.
    pub async fn vitals(&self, known: &[u32]) -> Result<Vitals, Failure> {
        let number = self.number();
        let count = |what: &str| {
            let entries = fs::read_dir(format!("/proc/{number}/{what}"));
            entries.map(Iterator::count).map_err(|error| Failure::of("`swb` is gone", error))
        };
        let open = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
        let open: Vec<String> = open
            .filter_map(|it| Some(fs::read_link(it.path()).ok()?.display().to_string()))
            .collect();
        let of_kind = |kind: &str| open.iter().filter(|it| it.starts_with(kind)).count();
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        let memory = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|it| it.split_whitespace().next()?.parse().ok());
        let page = exchange::send(&self.address, "GET /metrics", "", "").await;
        let page = page.map_err(|error| Failure::of("`swb` shows no metrics", error))?;
        if !page.body.contains("switchboard_tool_calls_in_flight") {
            return Err(Failure::because(format!("metrics lack calls in flight: {}", page.body)));
        }
        let mut processes = BTreeMap::new();
        for process in system::strangers(known) {
            *processes.entry(process.line).or_default() += 1;
        }
        Ok(Vitals {
            files: count("fd")?,
            sockets: of_kind("socket:"),
            pipes: of_kind("pipe:"),
            threads: count("task")?,
            memory: memory.ok_or_else(|| Failure::because("`swb` has no memory"))?,
            processes,
            in_flight: sum(&page.body, "switchboard_tool_calls_in_flight"),
            sessions: sum(&page.body, "switchboard_sessions")
                + sum(&page.body, "switchboard_parked_calls"),
        })
    }

    /// What it holds when it has given back what it did not need any more, or has had time enough to.
    pub async fn settled(&self, known: &[u32], before: &Vitals) -> Result<Vitals, Failure> {
        let start = Instant::now();
        loop {
            let now = self.vitals(known).await?;
            let is_settled = now.files <= before.files
                && now.threads <= before.threads + MORE_THREADS
                && judge::surplus(before, &now).is_empty()
                && now.in_flight + now.sessions == 0;
            if is_settled || start.elapsed() > SETTLING {
                return Ok(now);
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends it in some way, and looks at what is left.
    pub async fn end(mut self, signal: Signal, known: &[u32]) -> Result<Farewell, Failure> {
        system::signal(self.number(), signal)?;
        self.is_told = true;
        let start = Instant::now();
        let ended = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if start.elapsed() < ENDING => sleep(LOOK_AGAIN).await,
                Ok(None) | Err(_) => break None,
            }
        };
        let (how, objection) = match (signal, ended) {
            (Signal::KILL, Some(_)) => ("SIGKILL", None),
            (_, Some(status)) if status.success() => ("SIGTERM", None),
            (_, Some(status)) => ("SIGTERM", Some(format!("it ended with {status}"))),
            (_, None) => ("SIGTERM", Some(format!("it did not end within {ENDING:?}"))),
        };
        let afterlife = if signal == Signal::KILL { AFTERLIFE } else { Duration::ZERO };
        let start = Instant::now();
        let left = loop {
            let left = system::strangers(known);
            if left.is_empty() || start.elapsed() >= afterlife {
                break left;
            }
            sleep(LOOK_AGAIN).await;
        };
        let left = left.iter().map(|it| format!("{} {}", it.number, it.line)).collect();
        Ok(Farewell { how, objection, left })
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if let (false, Ok(Some(status))) = (self.is_told, self.child.try_wait()) {
            eprintln!("`swb` has ended by itself: {status}");
        }
        let _has_ended = self.child.kill();
        let _has_ended = self.child.wait();
    }
}

/// The sum of a metric over all of its labels.
fn sum(page: &str, metric: &str) -> usize {
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
    fn a_metric_is_summed_over_its_labels_and_not_over_its_namesakes() {
        let page =
            "# TYPE m gauge\nm{server=\"a\"} 2\nm{server=\"b}\"} 1\nm_more{x=\"y\"} 9\nn 4\n";
        assert_eq!((sum(page, "m"), sum(page, "n"), sum(page, "o")), (3, 4, 0));
    }
}

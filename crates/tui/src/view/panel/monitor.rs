//! Polls memory use and log files while a panel is open, since neither is announced. One task, which ends with the panel;
//! the panel reads its latest measurements.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use switchboard::StderrLog;
use tokio::sync::watch;
use tokio::task::JoinSet;

use switchboard::wire::process::memory_use;

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Memory use is measured on every n-th poll.
const MEMORY_EVERY: u32 = 4;
/// How many bytes of the end of a log are read.
const LOG_TAIL_BYTES: u64 = 64 * 1024;
/// The most lines of a log.
const MAX_LOG_LINES: usize = 500;

/// What is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MonitorTargets {
    /// The processes whose memory use is measured.
    pub processes: Vec<u32>,
    /// The server whose log is read.
    pub log: Option<String>,
}

/// The latest measurements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measurements {
    /// Resident bytes by process.
    pub memory: BTreeMap<u32, u64>,
    /// The server of the log, and its last lines.
    pub log: Option<(String, Vec<String>)>,
}

/// A running monitor. Dropping it stops it.
#[derive(Debug)]
pub struct Monitor {
    targets: watch::Sender<MonitorTargets>,
    measurements: watch::Receiver<Arc<Measurements>>,
    _task: JoinSet<()>,
}

impl Monitor {
    /// Starts it. Must be called inside a runtime.
    pub fn start(stderr_log: StderrLog) -> Monitor {
        let (targets, target_changes) = watch::channel(MonitorTargets::default());
        let (found, measurements) = watch::channel(Arc::default());
        let mut task = JoinSet::new();
        task.spawn(poll(stderr_log, target_changes, found));
        Monitor { targets, measurements, _task: task }
    }

    /// A monitor with fixed measurements, for tests.
    #[cfg(test)]
    pub fn fixed(measurements: Measurements) -> Monitor {
        let (targets, _) = watch::channel(MonitorTargets::default());
        let (_, measurements) = watch::channel(Arc::new(measurements));
        Monitor { targets, measurements, _task: JoinSet::new() }
    }

    /// Changes what is measured.
    pub fn set_targets(&self, targets: MonitorTargets) {
        self.targets.send_if_modified(|before| {
            let is_new = *before != targets;
            *before = targets;
            is_new
        });
    }

    /// The latest measurements, if they changed since the last call.
    pub fn changed(&mut self) -> Option<Arc<Measurements>> {
        match self.measurements.has_changed() {
            Ok(true) => Some(self.measurements.borrow_and_update().clone()),
            Ok(false) | Err(_) => None,
        }
    }

    /// The latest measurements.
    pub fn latest(&self) -> Arc<Measurements> {
        self.measurements.borrow().clone()
    }
}

async fn poll(
    stderr_log: StderrLog,
    mut target_changes: watch::Receiver<MonitorTargets>,
    found: watch::Sender<Arc<Measurements>>,
) {
    let mut before = MonitorTargets::default();
    for turn in 0u32.. {
        let targets = target_changes.borrow_and_update().clone();
        let is_due = turn % MEMORY_EVERY == 0 || targets.processes != before.processes;
        let programs = if is_due { targets.processes.clone() } else { Vec::new() };
        let (stderr_log, log) = (stderr_log.clone(), targets.log.clone());
        let looking = tokio::task::spawn_blocking(move || {
            let memory = memory_use::resident_bytes(&programs);
            let log = log.map(|server| {
                let lines = last_lines(&stderr_log.files(&server));
                (server, lines)
            });
            (memory, log)
        });
        let Ok((memory, log)) = looking.await else { return };
        found.send_if_modified(|seen| {
            let resident = if is_due { memory } else { seen.memory.clone() };
            let now = Measurements { memory: resident, log };
            let is_new = **seen != now;
            *seen = Arc::new(now);
            is_new
        });
        before = targets;
        tokio::select! {
            changed = target_changes.changed() => if changed.is_err() { return },
            () = found.closed() => return,
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

/// The last lines of a log, including the rotated file where the current one is short.
fn last_lines(files: &[std::path::PathBuf; 2]) -> Vec<String> {
    let mut text = read_tail(&files[1]);
    if u64::try_from(text.len()).unwrap_or(u64::MAX) < LOG_TAIL_BYTES / 4 {
        text = read_tail(&files[0]) + &text;
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(MAX_LOG_LINES)..].iter().map(|it| (*it).to_owned()).collect()
}

fn read_tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(LOG_TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        // The first line is probably incomplete.
        Ok::<_, std::io::Error>(match size > LOG_TAIL_BYTES {
            true => text.split_once('\n').map(|it| it.1.to_owned()).unwrap_or_default(),
            false => text,
        })
    };
    // There is no log before the server first starts.
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn logs_and_memory_are_read_while_they_are_targets() {
        let folder = tempfile::tempdir().expect("a folder");
        let stderr_log = StderrLog::open(folder.path()).expect("a logbook");
        stderr_log.note("s", "hello");
        stderr_log.flush().await;
        let mut monitor = Monitor::start(stderr_log);
        let own = std::process::id();
        monitor.set_targets(MonitorTargets { processes: vec![own], log: Some("s".to_owned()) });
        let is_there = |it: &Arc<Measurements>| {
            it.log.as_ref().is_some_and(|it| it.1.iter().any(|line| line.contains("hello")))
        };
        let waiting = monitor.measurements.wait_for(is_there);
        tokio::time::timeout(Duration::from_secs(10), waiting)
            .await
            .expect("in time")
            .expect("seen");
        assert_eq!(monitor.latest().log.as_ref().map(|it| it.0.as_str()), Some("s"));
        #[cfg(target_os = "linux")]
        assert!(monitor.latest().memory.contains_key(&own));
    }

    #[test]
    fn only_the_end_of_a_long_log_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = [folder.path().join("a"), folder.path().join("b")];
        assert!(last_lines(&files).is_empty());
        std::fs::write(&files[0], "old\n").expect("written");
        std::fs::write(&files[1], "new\n").expect("written");
        assert_eq!(last_lines(&files), ["old", "new"]);
        let long: String = (0..100_000).map(|it| format!("line {it}\n")).collect();
        std::fs::write(&files[1], long).expect("written");
        let lines = last_lines(&files);
        assert_eq!(
            (lines.len(), lines.last().map(String::as_str)),
            (MAX_LOG_LINES, Some("line 99999"))
        );
    }
}

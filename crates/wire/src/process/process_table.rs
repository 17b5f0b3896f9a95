//! The process table: which process is the child of which, and in which process group and session it is.
//! Linux only; elsewhere the table is empty.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// One process that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessEntry {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    /// In kernel clock ticks. Together with the id it names a process even after the system has reused the id.
    pub(super) start_time: u64,
}

impl ProcessEntry {
    /// The entry of a process; `None` if it is gone or a zombie.
    pub(super) fn read(pid: u32) -> Option<ProcessEntry> {
        parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }
}

/// The PID namespace of a process, given by its number or as `self`. In another one, process ids mean other processes.
pub(super) fn pid_namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

/// How long killed processes may take to exit. On a busy machine each needs a turn on a processor for it.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Waits until processes that were killed have exited: until then they use files and ports. Blocks, at most for a
/// time limit. Processes are named by id and start time.
pub(super) fn wait_until_exited(killed: impl IntoIterator<Item = (u32, u64)>) {
    let runs = |&(pid, start_time): &(u32, u64)| {
        ProcessEntry::read(pid).is_some_and(|entry| entry.start_time == start_time)
    };
    let mut running: Vec<(u32, u64)> = killed.into_iter().collect();
    let began = Instant::now();
    loop {
        running.retain(runs);
        if running.is_empty() || began.elapsed() > EXIT_TIMEOUT {
            return;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// All processes except this one.
pub(super) fn read_process_table() -> Vec<ProcessEntry> {
    list_pids().into_iter().filter_map(ProcessEntry::read).collect()
}

/// The ids of all processes except this one, with those of zombies.
pub(super) fn list_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .collect()
}

/// The children of a process. Cheaper than the whole table; empty on a system without these files.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let parse = |text: String| text.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    texts.flat_map(|text| -> Vec<u32> { parse(text) }).collect()
}

fn parse_stat(pid: u32, stat: &str) -> Option<ProcessEntry> {
    // The name in parentheses may contain anything; the fields after it do not.
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let field = |index: usize| fields.get(index)?.parse().ok();
    Some(ProcessEntry {
        pid,
        parent: field(1)?,
        group: field(2)?,
        session: field(3)?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (a ) R 1 b) S 3 5 6 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 99 1 2\n";

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let entry = ProcessEntry { pid: 7, parent: 3, group: 5, session: 6, start_time: 12345 };
        assert_eq!(parse_stat(7, STAT), Some(entry));
    }

    #[test]
    fn a_zombie_and_a_truncated_line_have_no_entry() {
        assert_eq!(parse_stat(7, &STAT.replace(" S ", " Z ")), None);
        assert_eq!(parse_stat(7, "7 (a) S 3 5 6"), None);
    }
}

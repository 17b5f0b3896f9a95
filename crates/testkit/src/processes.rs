//! Inspects processes, for tests of what is left running. Also polls for conditions.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Whether a process exists and has not exited.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    // The name is in parentheses and may contain anything; the state follows the last parenthesis.
    stat.is_ok_and(|it| {
        !it.rsplit(')').next().unwrap_or_default().trim_start().starts_with(['Z', 'X'])
    })
}

/// Waits until a process has exited. Panics after `timeout`.
#[track_caller]
pub fn wait_until_exited(pid: u32, timeout: Duration) {
    wait_until(timeout, &format!("process {pid} is gone"), || (!is_alive(pid)).then_some(()));
}

/// All other processes with `marker` in their initial environment. Zombies have none.
pub fn processes_with_environment(marker: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| pid != std::process::id())
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(marker.len().max(1)).any(|it| it == marker.as_bytes())
        })
        .collect();
    found.sort_unstable();
    found
}

/// Polls until there is a value. Panics after `timeout`.
#[track_caller]
pub fn wait_until<T>(timeout: Duration, condition: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(start.elapsed() < timeout, "timed out after {timeout:?} waiting until {condition}");
        thread::sleep(POLL_INTERVAL);
    }
}

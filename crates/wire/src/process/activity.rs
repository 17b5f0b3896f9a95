//! Samples what a program and its descendants do: the processor time that they have used, and whether one of them
//! runs or waits for the processor or a disk. What a sample means is left to the caller.

use std::fs;
use std::time::Duration;

/// The length of a clock tick in the process table. The kernel reports 100 ticks per second on all supported systems.
const TICK: Duration = Duration::from_millis(10);
/// The maximum number of processes and threads that one sample looks at.
const MAX_PROCESSES: usize = 64;
const MAX_THREADS: usize = 64;

/// What a program and its descendants do at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessActivity {
    /// The processor time that they have used so far.
    pub cpu_time: Duration,
    /// Whether a thread runs, or waits for the processor or a disk. Otherwise all wait for a timer, another process
    /// or the network.
    pub is_running: bool,
}

/// A sample of a program; `None` where it has exited or the system has no process table that can be read.
pub fn sample(pid: u32) -> Option<ProcessActivity> {
    let mut total = read_stat(&format!("/proc/{pid}/stat"))?.activity();
    let mut pending = vec![pid];
    let mut seen = 0;
    while let Some(pid) = pending.pop() {
        seen += 1;
        if seen > MAX_PROCESSES {
            break;
        }
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten().take(MAX_THREADS) {
            let folder = thread.path();
            let stat = read_stat(&folder.join("stat").to_string_lossy());
            total.is_running |= stat.is_some_and(|it| it.is_running);
            let children = fs::read_to_string(folder.join("children")).unwrap_or_default();
            for child in children.split_whitespace().filter_map(|it| it.parse().ok()) {
                if let Some(stat) = read_stat(&format!("/proc/{child}/stat")) {
                    total.cpu_time += stat.cpu_time;
                    total.is_running |= stat.is_running;
                }
                pending.push(child);
            }
        }
    }
    Some(total)
}

/// The fields of a `stat` file that matter here.
struct Stat {
    cpu_time: Duration,
    is_running: bool,
}

impl Stat {
    fn activity(self) -> ProcessActivity {
        ProcessActivity { cpu_time: self.cpu_time, is_running: self.is_running }
    }
}

fn read_stat(path: &str) -> Option<Stat> {
    parse_stat(&fs::read_to_string(path).ok()?)
}

/// The state and the processor time of a process, with that of its children that have exited.
fn parse_stat(stat: &str) -> Option<Stat> {
    // The name in parentheses may contain anything; the fields after it do not.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // utime, stime, cutime and cstime follow ten other fields.
    let ticks: u32 = fields.skip(10).take(4).filter_map(|it| it.parse::<u32>().ok()).sum();
    Some(Stat { cpu_time: TICK * ticks, is_running: matches!(state, "R" | "D") })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_stat_line_gives_state_and_processor_time() {
        let line = "7 (a ) b) R 1 7 7 0 -1 4194560 150 0 0 0 12 3 4 1 20 0 1 0 100 0 0";
        let stat = parse_stat(line).expect("it is valid");
        assert!(stat.is_running);
        assert_eq!(stat.cpu_time, Duration::from_millis(200));
        assert!(!parse_stat(&line.replace(" R ", " S ")).expect("it is valid").is_running);
        assert!(parse_stat("7 (cut").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_work_of_a_descendant_counts_and_a_waiting_program_is_not_running() {
        // The outer shell waits for the inner one, which works and then waits for input.
        let work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo worked; read line";
        let mut child = Command::new("sh")
            .args(["-c", &format!("sh -c '{work}'; true")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell can be started");
        let mut output = [0; 7];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut output).expect("it worked");
        // Right after the output it may still be on its way to `read`.
        let mut now = sample(child.id()).expect("it runs");
        while now.is_running {
            now = sample(child.id()).expect("it runs");
        }
        assert!(now.cpu_time >= Duration::from_millis(50), "{now:?}");
        child.stdin.take().expect("a pipe").write_all(b"end\n").expect("it reads");
        child.wait().expect("it ends");
        assert_eq!(sample(child.id()), None);
    }
}

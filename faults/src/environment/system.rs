//! System operations: running a tool, sending a signal, listing processes.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;

/// Runs a tool; its standard error is the reason of a failure.
pub fn run_tool(words: &[&str]) -> Result<(), Failure> {
    let line = words.join(" ");
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| Failure::from_io(format!("could not run `{line}`"), error))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(Failure::new(format!("`{line}` failed ({}): {said}", output.status)))
        }
    }
}

/// Whether a signal reached its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalOutcome {
    /// The process exists.
    Delivered,
    /// The process has ended.
    NoSuchProcess,
}

/// Sends a signal to a process.
pub fn send_signal(process: u32, signal: Signal) -> Result<SignalOutcome, Failure> {
    let number = i32::try_from(process).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| Failure::new(format!("{process} is no process")))?;
    match kill_process(number, signal) {
        Ok(()) => Ok(SignalOutcome::Delivered),
        Err(Errno::SRCH) => Ok(SignalOutcome::NoSuchProcess),
        Err(error) => {
            let what = format!("process {process} could not be sent a signal");
            Err(Failure::from_io(what, error.into()))
        }
    }
}

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// The process id of its parent.
    pub parent: u32,
    /// Its command line.
    pub command_line: String,
}

/// Every process of this process namespace that has not ended.
pub fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|it| read_process(it.file_name().to_str()?.parse().ok()?)).collect()
}

fn read_process(number: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name is in brackets and may contain any character.
    let mut words = stat.rsplit(')').next()?.split_whitespace();
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    let line = fs::read(format!("/proc/{number}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).replace('\0', " ").trim().to_owned();
    (!["Z", "X"].contains(&state)).then_some(Process { pid: number, parent, command_line: line })
}

/// The processes that are neither this program, its ancestors, nor in `known`.
pub fn other_processes(known: &[u32]) -> Vec<Process> {
    let all = processes();
    let own = std::process::id();
    let mut own_processes: BTreeSet<u32> = known.iter().copied().chain([own, 1]).collect();
    // The ancestors of this process also belong to the run.
    let mut ancestor = own;
    while let Some(process) = all.iter().find(|it| it.pid == ancestor) {
        if !own_processes.insert(process.parent) {
            break;
        }
        ancestor = process.parent;
    }
    all.into_iter().filter(|it| !own_processes.contains(&it.pid)).collect()
}

/// The load per processor over the last minute, in hundredths.
pub fn load_percent() -> u32 {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|it| it.parse().ok()).unwrap_or(0.0);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (load * 100.0 / processors as f64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signalling_an_ended_process_is_not_an_error() {
        let mut child = Command::new("true").spawn().expect("it can be run");
        child.wait().expect("it ends");
        assert_eq!(send_signal(child.id(), Signal::CONT).unwrap(), SignalOutcome::NoSuchProcess);
        assert_eq!(
            send_signal(std::process::id(), Signal::CONT).unwrap(),
            SignalOutcome::Delivered
        );
    }
}

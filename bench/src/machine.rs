//! The description of the machine in a report.

use std::fs;
use std::process::Command;
use std::thread;

use crate::failure;

/// The machine in one line, and its current load. Values that the system does not report are left out.
pub fn describe() -> String {
    let cores = thread::available_parallelism().ok().map(|it| format!("{it} cores"));
    let kernel = output("uname", &["-sr"]);
    let facts =
        [cpu_model(), cores, memory(), kernel, output("rustc", &["--version"]), load_average()];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The model name of the processor.
fn cpu_model() -> Option<String> {
    let table = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).trim().to_owned()).filter(|it| !it.is_empty())
}

fn memory() -> Option<String> {
    let table = fs::read_to_string("/proc/meminfo").ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{:.0} GB of memory", kilobytes * 1024.0 / 1e9))
}

/// The load averages of the last minute and the last five, including the measured programs.
fn load_average() -> Option<String> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let mut averages = load.split_whitespace();
    let (minute, five) = (averages.next()?, averages.next()?);
    Some(format!("load average at the end {minute} (one minute) and {five} (five)"))
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let stdout = failure::output(Command::new(program).args(arguments)).ok()?;
    Some(stdout.trim().to_owned()).filter(|stdout| !stdout.is_empty())
}

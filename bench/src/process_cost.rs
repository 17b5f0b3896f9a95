//! Runs a command many times and notes what each run cost: wall time, processor time, peak memory.
//! The runs are children of a copy of this program that does nothing else, because the system adds
//! up the costs of all children a process ever had.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Value as Json, json};

use crate::failure::{self, Failure};
use crate::sandbox::Sandbox;

/// The word that makes this program the parent of the runs.
pub const SUBCOMMAND: &str = "__measure";

/// What a number of runs cost.
#[derive(Debug, Default)]
pub struct Measurement {
    wall: Vec<Duration>,
    cpu: Vec<Duration>,
    peak_kilobytes: u64,
}

impl Measurement {
    /// The runs of both.
    pub fn merge(mut self, other: Measurement) -> Measurement {
        self.wall.extend(other.wall);
        self.cpu.extend(other.cpu);
        self.peak_kilobytes = self.peak_kilobytes.max(other.peak_kilobytes);
        self
    }

    /// How many runs there were.
    pub fn runs(&self) -> usize {
        self.wall.len()
    }

    /// From start to end, in the middle of all runs.
    pub fn median_wall(&self) -> Duration {
        median(&self.wall)
    }

    /// From start to end, the quickest run.
    pub fn shortest_wall(&self) -> Duration {
        self.wall.iter().min().copied().unwrap_or_default()
    }

    /// Processor time, the program's and the system's on its behalf, in the middle of all runs.
    pub fn median_cpu(&self) -> Duration {
        median(&self.cpu)
    }

    /// The most memory that any one process of any run held.
    pub fn peak_megabytes(&self) -> f64 {
        self.peak_kilobytes as f64 * 1024.0 / 1e6
    }

    fn to_json(&self) -> Json {
        let nanoseconds = |times: &[Duration]| -> Vec<u64> {
            times.iter().map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX)).collect()
        };
        json!({
            "wall": nanoseconds(&self.wall),
            "processor": nanoseconds(&self.cpu),
            "peakKilobytes": self.peak_kilobytes,
        })
    }

    fn from_json(json: &Json) -> Measurement {
        let times = |key: &str| -> Vec<Duration> {
            let numbers = json[key].as_array().into_iter().flatten();
            numbers.filter_map(Json::as_u64).map(Duration::from_nanos).collect()
        };
        Measurement {
            wall: times("wall"),
            cpu: times("processor"),
            peak_kilobytes: json["peakKilobytes"].as_u64().unwrap_or_default(),
        }
    }
}

/// The median of one figure of several. None where there are none.
pub fn median_of<T>(several: &[T], part: fn(&T) -> f64) -> Option<f64> {
    let mut parts: Vec<f64> = several.iter().map(part).collect();
    parts.sort_by(f64::total_cmp);
    parts.get(parts.len() / 2).copied()
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    match sorted.len() {
        0 => Duration::ZERO,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2,
    }
}

/// Runs a command in a scene so many times, one after the other.
pub fn measure_runs(
    sandbox: &Sandbox,
    command: &[OsString],
    runs: usize,
) -> Result<Measurement, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::NotStarted { program: SUBCOMMAND.into(), error })?;
    let mut parent = sandbox.command(&own);
    parent.arg(SUBCOMMAND).arg(runs.to_string()).arg("--").args(command);
    let answer = failure::output(&mut parent)?;
    let json: Json = serde_json::from_str(&answer).map_err(Failure::InvalidJson)?;
    Ok(Measurement::from_json(&json))
}

/// The other side of `take`: `N -- COMMAND…`, with the measurement as JSON on the output stream.
pub fn run_as_parent(arguments: &[OsString]) -> Result<(), Failure> {
    let [runs, dashes, program, rest @ ..] = arguments else {
        return Err(Failure::InvalidArguments);
    };
    let runs: Option<usize> = runs.to_str().and_then(|runs| runs.parse().ok());
    let runs = runs.filter(|_| dashes == "--").ok_or(Failure::InvalidArguments)?;
    let mut measurement = Measurement::default();
    for _ in 0..runs {
        let mut command = Command::new(program);
        command.args(rest).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        measurement = measurement.merge(measure_one(&mut command)?);
    }
    println!("{}", measurement.to_json());
    Ok(())
}

fn measure_one(command: &mut Command) -> Result<Measurement, Failure> {
    let program = PathBuf::from(command.get_program());
    let before = cpu_time(&usage()?);
    let start = Instant::now();
    let status = command.status();
    let wall = start.elapsed();
    let after = usage()?;
    let status = status.map_err(|error| Failure::NotStarted { program: program.clone(), error })?;
    if !status.success() {
        return Err(Failure::Failed { program, status, stderr: String::new() });
    }
    Ok(Measurement {
        wall: vec![wall],
        cpu: vec![cpu_time(&after).saturating_sub(before)],
        peak_kilobytes: peak_kilobytes(&after),
    })
}

fn usage() -> Result<Usage, Failure> {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_err(Failure::Usage)
}

/// Processor time, the program's and the system's on its behalf.
pub fn cpu_time(usage: &Usage) -> Duration {
    let microseconds =
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(microseconds).unwrap_or_default())
}

/// The most memory held at once. Linux counts in kilobytes, macOS in bytes.
pub fn peak_kilobytes(usage: &Usage) -> u64 {
    let peak = u64::try_from(usage.max_rss()).unwrap_or_default();
    if cfg!(target_os = "macos") { peak / 1024 } else { peak }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(times: &[u64], expected: u64) {
        let times: Vec<Duration> = times.iter().copied().map(Duration::from_nanos).collect();
        assert_eq!(median(&times), Duration::from_nanos(expected));
    }

    #[test]
    fn the_median_is_the_middle_one_or_between_the_two() {
        check(&[], 0);
        check(&[9, 1, 5], 5);
        check(&[9, 1, 5, 7], 6);
    }

    #[test]
    fn a_measurement_survives_serialization() {
        let sent = Measurement {
            wall: vec![Duration::from_nanos(7)],
            cpu: vec![Duration::from_nanos(5)],
            peak_kilobytes: 3,
        };
        let received = Measurement::from_json(&sent.to_json());
        assert_eq!(received.to_json(), sent.to_json());
    }
}

//! What a client is asked to do and what it answers, the same for ours and for rivals:
//! `stdio|http SIZE CALLS IN-FLIGHT COMMAND…|URL` in, one line of JSON out.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value as Json, json};

use crate::failure::Failure;
use crate::process_cost;

/// How a client reaches the echo server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// It starts the server and talks over its standard streams.
    Stdio,
    /// The server is there already.
    Http,
}

/// So many calls, each answered with a text of so many bytes.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// How to reach the server.
    pub transport: Transport,
    /// Bytes of text in each result.
    pub size: usize,
    /// Calls to measure; half as many come before, to warm up.
    pub calls: usize,
    /// Calls under way at any time.
    pub in_flight: usize,
    /// The server's command, or its address.
    pub target: Vec<OsString>,
}

/// What the calls cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallCost {
    /// How long the call in the middle took, in microseconds.
    pub p50: f64,
    /// How many were answered in a second.
    pub calls_per_second: f64,
    /// Processor time of the client alone, in microseconds.
    pub cpu_per_call: f64,
    /// The most memory that the client held.
    pub peak_kilobytes: f64,
}

impl Transport {
    fn argument(self) -> &'static str {
        match self {
            Transport::Stdio => "stdio",
            Transport::Http => "http",
        }
    }
}

impl LoadRequest {
    /// Reads arguments.
    pub fn parse(words: &[OsString]) -> Result<LoadRequest, Failure> {
        let [transport, size, calls, in_flight, target @ ..] = words else {
            return Err(Failure::InvalidRequest);
        };
        let number = |word: &OsString| -> Result<usize, Failure> {
            word.to_str().and_then(|word| word.parse().ok()).ok_or(Failure::InvalidRequest)
        };
        let transports = [Transport::Stdio, Transport::Http];
        let transport = transports.into_iter().find(|it| transport == it.argument());
        Ok(LoadRequest {
            transport: transport.ok_or(Failure::InvalidRequest)?,
            size: number(size)?,
            calls: number(calls)?.max(1),
            in_flight: number(in_flight)?.max(1),
            target: target.to_vec(),
        })
    }

    /// The question as arguments.
    pub fn to_arguments(&self) -> Vec<OsString> {
        let numbers = [self.size, self.calls, self.in_flight];
        let mut words = vec![self.transport.argument().into()];
        words.extend(numbers.map(|number| OsString::from(number.to_string())));
        words.extend(self.target.iter().cloned());
        words
    }

    /// The address, where there is one.
    pub fn address(&self) -> Result<&str, Failure> {
        self.target.first().and_then(|it| it.to_str()).ok_or(Failure::InvalidRequest)
    }

    /// Warms up, then measures. `run` makes so many calls and says how long each took.
    pub fn measure(
        &self,
        mut run: impl FnMut(usize) -> Result<Vec<Duration>, Failure>,
    ) -> Result<CallCost, Failure> {
        run(self.calls / 2)?;
        let usage = || getrusage(UsageWho::RUSAGE_SELF).map_err(Failure::Usage);
        let before = process_cost::cpu_time(&usage()?);
        let start = Instant::now();
        let mut times = run(self.calls)?;
        let wall = start.elapsed();
        let after = usage()?;
        times.sort();
        let calls = self.calls as f64;
        let processor = process_cost::cpu_time(&after).saturating_sub(before);
        Ok(CallCost {
            p50: times.get(times.len() / 2).copied().unwrap_or_default().as_secs_f64() * 1e6,
            calls_per_second: calls / wall.as_secs_f64(),
            cpu_per_call: processor.as_secs_f64() * 1e6 / calls,
            peak_kilobytes: process_cost::peak_kilobytes(&after) as f64,
        })
    }
}

impl CallCost {
    /// For the way from a client's process to ours.
    pub fn to_json(self) -> Json {
        json!({
            "p50": self.p50,
            "callsPerSecond": self.calls_per_second,
            "processorPerCall": self.cpu_per_call,
            "peakKilobytes": self.peak_kilobytes,
        })
    }

    /// Reads what a client printed.
    pub fn parse(line: &str) -> Result<CallCost, Failure> {
        let json: Json = serde_json::from_str(line).map_err(Failure::InvalidJson)?;
        let number = |key: &str| json[key].as_f64().ok_or(Failure::InvalidRequest);
        Ok(CallCost {
            p50: number("p50")?,
            calls_per_second: number("callsPerSecond")?,
            cpu_per_call: number("processorPerCall")?,
            peak_kilobytes: number("peakKilobytes")?,
        })
    }

    /// Each figure's median. None where there are no costs.
    pub fn median(costs: &[CallCost]) -> Option<CallCost> {
        let median_figure = |part: fn(&CallCost) -> f64| process_cost::median_of(costs, part);
        Some(CallCost {
            p50: median_figure(|it| it.p50)?,
            calls_per_second: median_figure(|it| it.calls_per_second)?,
            cpu_per_call: median_figure(|it| it.cpu_per_call)?,
            peak_kilobytes: median_figure(|it| it.peak_kilobytes)?,
        })
    }
}

/// How many of `calls` the caller with this number makes, where callers share them evenly.
pub fn share(calls: usize, callers: usize, number: usize) -> usize {
    calls / callers + usize::from(number < calls % callers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_request_survives_serialization() {
        let words: Vec<OsString> =
            ["http", "100", "7", "2", "http://127.0.0.1:1/mcp"].map(OsString::from).to_vec();
        assert_eq!(LoadRequest::parse(&words).unwrap().to_arguments(), words);
    }

    #[test]
    fn a_cost_survives_serialization() {
        let cost =
            CallCost { p50: 1.5, calls_per_second: 2.0, cpu_per_call: 3.0, peak_kilobytes: 4.0 };
        assert_eq!(CallCost::parse(&cost.to_json().to_string()).unwrap(), cost);
    }

    #[test]
    fn callers_share_all_calls() {
        let shares: Vec<usize> = (0..4).map(|number| share(10, 4, number)).collect();
        assert_eq!(shares, [3, 3, 2, 2]);
    }

    #[test]
    fn each_figure_has_a_median_of_its_own() {
        let cost = |p50, calls_per_second| CallCost {
            p50,
            calls_per_second,
            cpu_per_call: 0.0,
            peak_kilobytes: 0.0,
        };
        let median = CallCost::median(&[cost(1.0, 9.0), cost(3.0, 7.0), cost(2.0, 8.0)]);
        assert_eq!(median, Some(cost(2.0, 8.0)));
        assert_eq!(CallCost::median(&[]), None);
    }
}

//! The shared host: what a second call, a session and a call cost when all sessions use one copy of each server.
//! Each file in `share/` measures one of them; this one judges and writes the page.

mod call_cost;
mod second_call;
mod session_memory;
mod shared_home;
mod start_race;
mod throughput;

use std::time::Duration;

use crate::benchmarks::calls::placement::Placement;
use crate::echo_server;
use crate::failure::Failure;
use crate::machine;
use crate::output::plot::{Bars, Role, Series};
use crate::output::report::{Extent, Picture, Report};
use crate::output::table;
use crate::output::table::{megabytes, milliseconds, thousands, two_digits};
use crate::workspace::Workspace;
use call_cost::CallTimes;
use second_call::{SHARED, SecondCall};
use session_memory::{SERVERS, SESSIONS, SessionMemory, UNSHARED_SESSIONS};
use start_race::{PROCESSES, StartRace};
use throughput::{IN_FLIGHT, Throughput};

const CALL_BUDGET: Duration = Duration::from_millis(10);
const MEMORY_RATIO: f64 = 1.1;
const HOST_MEGABYTES: f64 = 20.0;
const PIPELINE_MICROSECONDS: f64 = 15.0;
const THROUGHPUT_RATIO: f64 = 0.8;
/// The calls in flight with a budget.
const JUDGED_IN_FLIGHT: usize = IN_FLIGHT[1];

/// All measurements of one run.
struct Measurements {
    second_call: SecondCall,
    memory: SessionMemory,
    call: Vec<CallTimes>,
    race: StartRace,
    throughput: Vec<Throughput>,
    build: String,
}

/// Runs the benchmark.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let swb = workspace.swb()?;
    eprintln!("measuring a second call");
    let second_call = second_call::measure(workspace, &swb)?;
    eprintln!("measuring the memory of {SESSIONS} sessions with {SERVERS} servers");
    let memory = session_memory::measure(workspace, &swb)?;
    eprintln!("measuring a call with and without the shared host");
    let call = call_cost::measure(workspace, &swb)?;
    eprintln!("measuring the start of {PROCESSES} processes at once");
    let race = start_race::measure(workspace, &swb)?;
    eprintln!("measuring {SESSIONS} sessions at once");
    let throughput = throughput::measure(workspace, &swb)?;
    let build = workspace.swb_build();
    let measurements = Measurements { second_call, memory, call, race, throughput, build };
    let pictures = vec![measurements.picture()];
    Ok(Report {
        name: "share",
        text: measurements.page(&pictures),
        pictures,
        budgets: measurements.budgets(),
        extent: Extent::Whole,
    })
}

/// The median of durations.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

impl Measurements {
    fn picture(&self) -> Picture {
        let title =
            "Wall time of `swb call` of a server that runs already, and of one that does not";
        let measured: Vec<_> = self
            .second_call
            .rows
            .iter()
            .filter_map(|it| Some((it.label, it.cost.as_ref().ok()?)))
            .collect();
        let groups = measured.iter().map(|it| it.0.replace("**", "")).collect();
        let times = measured.iter().map(|it| Some(it.1.median_wall().as_secs_f64() * 1e3));
        let series = vec![Series::new("swb call", Role::Ours, times.collect())];
        let bars = Bars { title, x_axis: "milliseconds", groups, series };
        Picture::new("share", title, bars.draw())
    }

    fn budgets(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut row = |what: &str, limit: String, measured: String, is_met: bool| {
            rows.push(vec![what.to_owned(), limit, measured, verdict(is_met)]);
        };
        let shared = self.second_call.rows.iter().find(|it| it.label == SHARED);
        if let Some(Ok(cost)) = shared.map(|it| &it.cost) {
            let beyond = cost.median_wall().saturating_sub(self.second_call.answer);
            row(
                "a second `swb call` of a running server, beyond the server's own response",
                format!("≤ {} ms", milliseconds(CALL_BUDGET)),
                format!("{} ms", milliseconds(beyond)),
                beyond <= CALL_BUDGET,
            );
        }
        let memory = &self.memory;
        let ratio = memory.ten.megabytes / memory.one.megabytes;
        row(
            &format!("memory of the servers of {SESSIONS} sessions, over that of one session"),
            format!("≤ {MEMORY_RATIO} ×"),
            format!("{} ×", two_digits(ratio)),
            ratio <= MEMORY_RATIO,
        );
        row(
            &format!("memory of the shared host with {SESSIONS} sessions × {SERVERS} servers"),
            format!("≤ {} MB", megabytes(HOST_MEGABYTES)),
            format!("{} MB", megabytes(memory.host)),
            memory.host <= HOST_MEGABYTES,
        );
        for it in self.call.iter().filter(|it| it.placement == Placement::OneCore) {
            let more = it.more_microseconds();
            row(
                "a call through the shared host, over a direct one, on one core",
                format!("≤ {PIPELINE_MICROSECONDS} µs"),
                format!("{more:.1} µs"),
                more <= PIPELINE_MICROSECONDS,
            );
        }
        row(
            &format!("hosts after {PROCESSES} processes started at once"),
            "1".to_owned(),
            self.race.hosts.to_string(),
            self.race.hosts == 1,
        );
        for it in self.throughput.iter().filter(|it| it.in_flight == JUDGED_IN_FLIGHT) {
            let ratio = it.all / it.one;
            row(
                &format!("calls/s of {SESSIONS} sessions at once, over one session alone"),
                format!("≥ {THROUGHPUT_RATIO} ×"),
                format!("{} ×", two_digits(ratio)),
                ratio >= THROUGHPUT_RATIO,
            );
        }
        rows
    }

    fn page(&self, pictures: &[Picture]) -> String {
        format!(
            "\
# The shared host

Written by `cargo xtask bench share`. Machine: {machine}. `swb` is {build}.

All figures are medians of interleaved repetitions in one run. The server is the echo server of the other benchmarks, with a result of
100 bytes. Where sharing is on, `SWB_SHARE=on` makes every `swb` use one host, which the first of them starts.

## Budgets

{budgets}
## A second call

`swb call` from the start of the process to its exit. The slow server sleeps for {delay} ms before it reads anything. With sharing off, each call
starts the server. mcp-proxy and the HTTP server run all the time, and `swb call` connects to them over HTTP. The server itself
responds to a call over its pipes after {answer} µs.

{calls}
{picture}
## Memory of {SESSIONS} sessions

Each session is an open `swb status --watch`; all have the same {SERVERS} servers of {size} MB. Resident memory of all server processes.
Without sharing, memory grows with every session.

{memory}
## A call inside a session

The library makes calls one after the other through its whole pipeline (permission, validation, audit), from one process: once with a
server of its own over pipes, once with a server of the shared host. On one core the time is the work of all processes, which the budget
is about. With any core, it also depends on where the scheduler puts the processes, as on the page of [calls](calls.md).

{call}
## {PROCESSES} processes at once

{PROCESSES} `swb call` start in a home where no host runs. All but the one that gets the lock connect to the host that it starts.

{race}
## {SESSIONS} sessions at once

Each session is `swb serve --pool` over stdio with its own client; all of them use one copy of the server.

{throughput}",
            machine = machine::describe(),
            build = self.build,
            budgets = table::markdown(&["budget", "limit", "measured", ""], &[3], &self.budgets()),
            delay = echo_server::START_DELAY.as_millis(),
            answer = microseconds(self.second_call.answer),
            calls = self.call_table(),
            picture = pictures.iter().map(Picture::link).collect::<String>(),
            size = echo_server::LARGE_BYTES / 1_000_000,
            memory = self.memory_table(),
            call = self.pipeline_table(),
            race = self.race_table(),
            throughput = self.throughput_table(),
        )
    }

    fn call_table(&self) -> String {
        let row = |it: &second_call::CallCost| match &it.cost {
            Ok(cost) => vec![
                it.label.to_owned(),
                milliseconds(cost.median_wall()),
                milliseconds(cost.shortest_wall()),
                milliseconds(cost.median_cpu()),
                cost.runs().to_string(),
                String::new(),
            ],
            Err(why) => {
                let mut cells = vec![it.label.to_owned()];
                cells.extend(["–"; 4].map(str::to_owned));
                cells.push(why.clone());
                cells
            }
        };
        let rows: Vec<_> = self.second_call.rows.iter().map(row).collect();
        let header = ["`swb call`", "wall ms, median", "wall ms, min", "CPU ms", "runs", ""];
        table::markdown(&header, &[5], &rows)
    }

    fn memory_table(&self) -> String {
        let SessionMemory { one, ten, unshared, .. } = &self.memory;
        let row = |what: String, it: &session_memory::ServerMemory| {
            vec![what, it.processes.to_string(), megabytes(it.megabytes)]
        };
        let rows = [
            row("1 session, shared".to_owned(), one),
            row(format!("{SESSIONS} sessions, shared"), ten),
            row(format!("{UNSHARED_SESSIONS} sessions, not shared"), unshared),
        ];
        table::markdown(&["sessions", "server processes", "MB"], &[], &rows)
    }

    fn pipeline_table(&self) -> String {
        let row = |it: &CallTimes| {
            let label = match it.placement {
                Placement::OneCore => "one core",
                Placement::AnyCore => "any core",
            };
            let more = format!("{:+.1}", it.more_microseconds());
            vec![label.to_owned(), microseconds(it.direct), microseconds(it.shared), more]
        };
        let rows: Vec<_> = self.call.iter().map(row).collect();
        let header = ["processes on", "direct, µs", "through the shared host, µs", "difference"];
        table::markdown(&header, &[], &rows)
    }

    fn race_table(&self) -> String {
        let StartRace { hosts, succeeded, shared_calls, wall } = &self.race;
        let rows = [
            ("hosts that listened", hosts.to_string()),
            ("calls that succeeded", succeeded.to_string()),
            ("calls that the one shared server answered", shared_calls.to_string()),
            ("until the last process ended", format!("{} ms", milliseconds(*wall))),
        ];
        let rows = rows.map(|(what, measured)| vec![what.to_owned(), measured]);
        table::markdown(&["", "measured"], &[], &rows)
    }

    fn throughput_table(&self) -> String {
        let row = |it: &Throughput| {
            vec![
                it.in_flight.to_string(),
                thousands(it.one),
                thousands(it.all),
                format!("{} ×", two_digits(it.all / it.one)),
            ]
        };
        let rows: Vec<_> = self.throughput.iter().map(row).collect();
        let ten = format!("{SESSIONS} sessions, calls/s");
        let header = ["calls in flight, each session", "one session, calls/s", &ten, "ratio"];
        table::markdown(&header, &[], &rows)
    }
}

fn microseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e6)
}

fn verdict(is_met: bool) -> String {
    if is_met { "met".to_owned() } else { "**missed**".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session_memory::ServerMemory;

    #[test]
    fn each_budget_is_judged_by_itself() {
        let servers = |megabytes| ServerMemory { processes: 10, megabytes };
        let measurements = Measurements {
            second_call: SecondCall { answer: Duration::from_micros(10), rows: Vec::new() },
            memory: SessionMemory {
                one: servers(400.0),
                ten: servers(441.0),
                unshared: servers(800.0),
                host: 20.0,
            },
            call: vec![CallTimes {
                placement: Placement::OneCore,
                direct: Duration::from_micros(30),
                shared: Duration::from_micros(46),
            }],
            race: StartRace {
                hosts: 1,
                succeeded: 100,
                shared_calls: 100,
                wall: Duration::from_secs(1),
            },
            throughput: vec![
                Throughput { in_flight: IN_FLIGHT[0], one: 100.0, all: 10.0 },
                Throughput { in_flight: JUDGED_IN_FLIGHT, one: 100.0, all: 80.0 },
            ],
            build: String::new(),
        };
        let verdicts: Vec<String> =
            measurements.budgets().into_iter().map(|row| row[3].clone()).collect();
        assert_eq!(verdicts, ["**missed**", "met", "**missed**", "met", "met"]);
    }
}

//! What a person at the terminal feels: from a key to the screen while fifty servers change and the transcript is long,
//! the first frame, and what the screen costs while nothing happens. Writes the report page and prints it.

mod pseudo_terminal;

use std::ffi::OsString;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use crate::child_server::echo_command;
use crate::effort;
use crate::failure::Failure;
use crate::machine;
use crate::output::plot::{Bars, Role, Series};
use crate::output::report::{Extent, Picture, Report};
use crate::output::table;
use crate::output::table::milliseconds;
use crate::process_stats;
use crate::sandbox::Sandbox;
use crate::workspace::Workspace;
use pseudo_terminal::PseudoTerminal;

/// How many servers change while keys are typed, and how long the transcript is.
const CHANGING_SERVERS: usize = 50;
const TRANSCRIPT_LINES: usize = 10_000;
const KEYS: usize = 400;
/// A quick typist's time between two keys.
const BETWEEN_KEYS: Duration = Duration::from_millis(25);
/// A sign that is on no screen by itself.
const TYPED_CHARACTER: &str = "Ω";

/// How many servers are configured for the first frame, and how often it is looked at.
const CONFIGURED_SERVERS: usize = 40;
const STARTS: usize = 20;
/// What is on the first frame.
const FIRST_FRAME_TEXT: &[u8] = b"Switchboard";

const IDLE_SERVERS: usize = 10;
const SETTLING: Duration = Duration::from_secs(6);
const IDLE_TIME: Duration = Duration::from_secs(20);

/// What a key, the first frame, and doing nothing may cost.
const KEY_BUDGET: Duration = Duration::from_millis(16);
const FRAME_BUDGET: Duration = Duration::from_millis(50);
const IDLE_CPU_BUDGET: f64 = 0.005;

/// The longest that is waited for anything on the screen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the benchmark.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let place = UiBench { swb: workspace.swb()?, search_path: workspace.search_path.clone() };
    let idle_times = place.key_latencies(IDLE_SERVERS, "stdio", 0)?;
    let busy_times = place.key_latencies(CHANGING_SERVERS, "restless", TRANSCRIPT_LINES)?;
    let starts = place.first_frame_times()?;
    let idle = place.idle_cpu()?;
    let keys = |label: &str, times: &[Duration]| {
        let mut cells = vec![label.to_owned()];
        cells.extend([50, 90, 99, 100].map(|percent| milliseconds(percentile(times, percent))));
        cells
    };
    let header = ["latency from key to screen, ms", "p50", "p90", "p99", "longest"];
    let rows = [
        keys(&format!("{IDLE_SERVERS} idle servers, an empty transcript"), &idle_times),
        keys(
            &format!("{CHANGING_SERVERS} changing servers, {TRANSCRIPT_LINES} lines"),
            &busy_times,
        ),
    ];
    let first = ["the first frame, ms", "p50", "p90", "longest"];
    let mut frames = vec![format!("{CONFIGURED_SERVERS} servers configured, none connected")];
    frames.extend([50, 90, 100].map(|percent| milliseconds(percentile(&starts, percent))));
    let pictures = vec![picture(&idle_times, &busy_times)];
    let budgets = budgets(&busy_times, &starts, idle);
    let text = format!(
        "\
# The screen

Written by `cargo xtask bench ui`. Machine: {}.

The program runs in a pseudo-terminal of 120 × 40. The latency of a key ends when the bytes that draw its character have been written.
{KEYS} keys are typed and deleted again, {} ms apart. A changing server announces ten times per second that its tools have changed, and the
program fetches the list each time.

{}
Limit: 16 ms at p99 with {CHANGING_SERVERS} changing servers and {TRANSCRIPT_LINES} lines: {}.

{}
{}
Limit: 50 ms: {}.

Idle, with {IDLE_SERVERS} servers connected, for {} s: {:.2} % of one processor (limit 0.5 %: {}).
",
        machine::describe(),
        BETWEEN_KEYS.as_millis(),
        table::markdown(&header, &[], &rows),
        verdict(percentile(&busy_times, 99) <= KEY_BUDGET),
        pictures.iter().map(Picture::link).collect::<String>(),
        table::markdown(&first, &[], &[frames]),
        verdict(percentile(&starts, 50) <= FRAME_BUDGET),
        IDLE_TIME.as_secs(),
        idle * 100.0,
        verdict(idle < IDLE_CPU_BUDGET),
    );
    Ok(Report { name: "ui", text, pictures, budgets, extent: Extent::Whole })
}

fn picture(idle_times: &[Duration], busy_times: &[Duration]) -> Picture {
    let title = "Latency from key to screen";
    let parts = [50, 90, 99, 100];
    let groups = ["p50", "p90", "p99", "longest"].map(str::to_owned).to_vec();
    let figures = |times: &[Duration]| {
        parts.map(|percent| Some(percentile(times, percent).as_secs_f64() * 1e3)).to_vec()
    };
    let rest = format!("{IDLE_SERVERS} idle servers, an empty transcript");
    let stir = format!("{CHANGING_SERVERS} changing servers, {TRANSCRIPT_LINES} lines");
    let series = vec![
        Series::new(&rest, Role::Other, figures(idle_times)),
        Series::new(&stir, Role::Ours, figures(busy_times)),
    ];
    Picture::new("ui", title, Bars { title, x_axis: "milliseconds", groups, series }.draw())
}

fn budgets(busy_times: &[Duration], starts: &[Duration], idle: f64) -> Vec<Vec<String>> {
    let time = |what: &str, limit: Duration, measured: Duration| {
        vec![
            what.to_owned(),
            format!("≤ {} ms", limit.as_millis()),
            format!("{} ms", milliseconds(measured)),
            verdict(measured <= limit).to_owned(),
        ]
    };
    vec![
        time("latency from key to screen, p99", KEY_BUDGET, percentile(busy_times, 99)),
        time("the first frame", FRAME_BUDGET, percentile(starts, 50)),
        vec![
            "idle screen, share of one processor".to_owned(),
            format!("< {} %", IDLE_CPU_BUDGET * 100.0),
            format!("{:.2} %", idle * 100.0),
            verdict(idle < IDLE_CPU_BUDGET).to_owned(),
        ],
    ]
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**missed**" }
}

/// The time that so many in a hundred are not longer than.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    let at = (times.len() * percent).div_ceil(100).clamp(1, times.len().max(1)) - 1;
    times.get(at).copied().unwrap_or_default()
}

/// What every part needs.
struct UiBench {
    swb: PathBuf,
    search_path: OsString,
}

impl UiBench {
    /// A home in which this many servers of a kind are configured.
    fn sandbox(&self, servers: usize, kind: &str) -> Result<Sandbox, Failure> {
        let [program, word, kind] = echo_command(kind)?;
        let words = [word, kind].map(|it| it.to_string_lossy().into_owned());
        let program = program.to_string_lossy();
        let entry = json!({"type": "stdio", "command": program, "args": words});
        let servers: Map<String, Json> =
            (0..servers).map(|it| (format!("server-{it:02}"), entry.clone())).collect();
        Sandbox::with_servers(&self.swb, &self.search_path, servers)
    }

    fn open(&self, home: &Sandbox) -> Result<PseudoTerminal, Failure> {
        let mut command = home.command(&self.swb);
        command.env("TERM", "xterm-256color");
        PseudoTerminal::start(&command)
    }

    /// How long each key takes to be seen.
    fn key_latencies(
        &self,
        servers: usize,
        kind: &str,
        lines: usize,
    ) -> Result<Vec<Duration>, Failure> {
        let home = self.sandbox(servers, kind)?;
        let mut terminal = self.open(&home)?;
        let all = format!("{servers}/{servers} servers");
        terminal.wait_until_drawn(all.as_bytes(), TIMEOUT)?;
        if lines > 0 {
            let text: String =
                (0..lines).map(|it| format!("line {it} of a long paste\n")).collect();
            terminal.write(format!("\x1b[200~{text}\x1b[201~").as_bytes())?;
            thread::sleep(Duration::from_secs(1));
            terminal.write(b"\r")?;
            // The sent message is in the transcript, followed by the error that no model is configured.
            terminal.wait_for_text(b"model", TIMEOUT)?;
        }
        terminal.drain_for(Duration::from_millis(500));
        let mut times = Vec::new();
        for _ in 0..effort::scaled(KEYS) {
            let began = Instant::now();
            terminal.write(TYPED_CHARACTER.as_bytes())?;
            terminal.wait_for_text(TYPED_CHARACTER.as_bytes(), TIMEOUT)?;
            times.push(began.elapsed());
            terminal.drain_for(BETWEEN_KEYS);
            // The line stays short, so that the sign is drawn where it is typed.
            terminal.write(b"\x7f")?;
            terminal.drain_for(BETWEEN_KEYS);
        }
        Ok(times)
    }

    /// How long the first frame takes, from before the program is started.
    fn first_frame_times(&self) -> Result<Vec<Duration>, Failure> {
        let home = self.sandbox(CONFIGURED_SERVERS, "mute")?;
        let mut times = Vec::new();
        for _ in 0..effort::scaled(STARTS) {
            let began = Instant::now();
            let mut terminal = self.open(&home)?;
            terminal.wait_for_text(FIRST_FRAME_TEXT, TIMEOUT)?;
            times.push(began.elapsed());
        }
        Ok(times)
    }

    /// The part of a processor that is used while nothing happens.
    fn idle_cpu(&self) -> Result<f64, Failure> {
        let home = self.sandbox(IDLE_SERVERS, "stdio")?;
        let mut terminal = self.open(&home)?;
        terminal.wait_until_drawn(
            format!("{IDLE_SERVERS}/{IDLE_SERVERS} servers").as_bytes(),
            TIMEOUT,
        )?;
        terminal.drain_for(SETTLING);
        let before = process_stats::cpu_time(terminal.process())?;
        terminal.drain_for(IDLE_TIME);
        let used = process_stats::cpu_time(terminal.process())?.saturating_sub(before);
        Ok(used.as_secs_f64() / IDLE_TIME.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_bounds_that_share_of_the_times() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        let at = |percent| percentile(&times, percent).as_millis();
        assert_eq!([at(50), at(90), at(99), at(100)], [100, 180, 198, 200]);
        assert_eq!(percentile(&times[..1], 99).as_millis(), 200);
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}

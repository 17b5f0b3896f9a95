//! Many servers at once: how long until fifty are connected, and what `swb` needs while ten are and nothing happens.
//! Writes the report page and prints it.

mod real_servers;
pub(crate) mod status_watch;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use crate::child_server::ListeningServer;
use crate::effort;
use crate::failure::{self, Failure};
use crate::machine;
use crate::output::plot::{Bars, Lines, Role, Series, Tick};
use crate::output::report::{Extent, Picture, Report};
use crate::output::table;
use crate::output::table::{megabytes, milliseconds};
use crate::sandbox::Sandbox;
use crate::workspace::Workspace;
use real_servers::RealServers;
use status_watch::{ProcessUsage, StatusWatch};

/// The variable that says how many programs are started at once.
const BATCH_SIZE_VARIABLE: &str = "MCP_SERVER_CONNECTION_BATCH_SIZE";
const BATCH_SIZES: [usize; 3] = [3, 10, 25];
const REPETITIONS: usize = 3;

const SERVERS: usize = 50;
const SERVER_DELAY: Duration = Duration::from_millis(300);
/// How much longer than the servers themselves it may take.
const ALLOWANCE: f64 = 1.3;

const IDLE_SERVERS: usize = 10;
const TOOLS_PER_SERVER: usize = 100;
const MEMORY_BUDGET: f64 = 25.0;
/// With how many servers memory is looked at.
const MEMORY_SERVER_COUNTS: [usize; 5] = [1, 5, 10, 20, 50];
const SETTLING: Duration = Duration::from_secs(5);
const IDLE_TIME: Duration = Duration::from_secs(10);

/// The programs of one run, and where to look for others.
struct FleetBench {
    swb: PathBuf,
    scripted: PathBuf,
    search_path: OsString,
}

/// How long fifty servers took with one width: the median of each.
struct ConnectTimes {
    batch_size: usize,
    connected: Duration,
    status_run: Duration,
    with_mute_server: Duration,
}

/// What was needed while nothing happened.
struct Idle {
    label: &'static str,
    usage: ProcessUsage,
    processor: Duration,
}

/// Runs the benchmark.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let tools = FleetBench {
        swb: workspace.swb()?,
        scripted: workspace.scripted()?,
        search_path: workspace.search_path.clone(),
    };
    let mut connect_times = Vec::new();
    for batch_size in BATCH_SIZES {
        eprintln!("measuring {SERVERS} servers, {batch_size} at a time");
        connect_times.push(tools.connect_times(batch_size)?);
    }
    eprintln!("measuring {IDLE_SERVERS} idle servers");
    let idle = [tools.idle_programs()?, tools.idle_remotes()?];
    let mut growth = Vec::new();
    for servers in MEMORY_SERVER_COUNTS {
        eprintln!("measuring memory with {servers} servers");
        growth.push(tools.memory_with(servers)?);
    }
    eprintln!("measuring published servers");
    let real_servers = real_servers::measure(&tools, &workspace.published_servers)?;
    let pictures = vec![picture_of_times(&connect_times), picture_of_memory(&growth)];
    let text = page(&connect_times, &real_servers, &idle, &pictures);
    let rows =
        connect_times.iter().flat_map(ConnectTimes::rows).chain(idle.iter().flat_map(Idle::rows));
    let rows = rows.chain(real_servers.rows());
    // Some rows are only told.
    let budgets = rows.filter(|row| !row[3].is_empty()).collect();
    Ok(Report { name: "fleet", text, pictures, budgets, extent: Extent::Whole })
}

/// What is held while so many servers are connected.
struct MemoryPoint {
    servers: usize,
    resident: f64,
}

fn picture_of_times(connect_times: &[ConnectTimes]) -> Picture {
    let title =
        format!("{SERVERS} servers with a startup delay of {} ms each", SERVER_DELAY.as_millis());
    let groups = connect_times.iter().map(|it| format!("{} at a time", it.batch_size)).collect();
    let figures = |part: fn(&ConnectTimes) -> Duration| {
        connect_times.iter().map(|it| Some(part(it).as_secs_f64() * 1e3)).collect()
    };
    let series = vec![
        Series::new("until all are connected", Role::Ours, figures(|it| it.connected)),
        Series::new("all of swb status", Role::Other, figures(|it| it.status_run)),
        Series::new("next to a mute server", Role::Other, figures(|it| it.with_mute_server)),
        Series::new("limit", Role::Baseline, figures(|it| limit(it.batch_size))),
    ];
    let bars = Bars { title: &title, x_axis: "milliseconds", groups, series };
    Picture::new("fleet", &title, bars.draw())
}

fn picture_of_memory(growth: &[MemoryPoint]) -> Picture {
    let title = format!("Memory by the number of servers, {TOOLS_PER_SERVER} tools each");
    let stops = growth.iter().map(|it| Tick::of(it.servers)).collect();
    let figures = growth.iter().map(|it| Some(it.resident)).collect();
    let series = vec![Series::new("swb status --watch", Role::Ours, figures)];
    let (across, upwards) = ("servers", "megabytes in use");
    let lines = Lines { title: &title, x_axis: across, y_axis: upwards, ticks: stops, series };
    Picture::new("fleet-memory", &title, lines.draw())
}

impl FleetBench {
    fn sandbox(&self, servers: Map<String, Json>) -> Result<Sandbox, Failure> {
        Sandbox::with_servers(&self.swb, &self.search_path, servers)
    }

    fn program(&self, script: &Json) -> Json {
        json!({"command": self.scripted, "args": [script.to_string()]})
    }

    fn slow_servers(&self) -> Map<String, Json> {
        let slow = self.program(&json!({"start_delay_ms": SERVER_DELAY.as_millis() as u64}));
        (0..SERVERS).map(|index| (format!("server-{index}"), slow.clone())).collect()
    }

    /// Every repetition has a home of its own, so that nothing is remembered from the one before.
    fn connect_times(&self, batch_size: usize) -> Result<ConnectTimes, Failure> {
        let (mut connected, mut whole, mut with_mute) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..effort::repetitions(REPETITIONS) {
            let sandbox = self.sandbox(self.slow_servers())?;
            connected.push(
                StatusWatch::start(&sandbox, &self.swb, Some(batch_size))?
                    .until_connected(SERVERS)?,
            );
            whole.push(status(&self.sandbox(self.slow_servers())?, &self.swb, batch_size)?);
            let mut fleet = self.slow_servers();
            // Its name comes first, and so does it.
            fleet.insert("mute".to_owned(), self.program(&json!({"quirks": ["never_answers"]})));
            let sandbox = self.sandbox(fleet)?;
            with_mute.push(
                StatusWatch::start(&sandbox, &self.swb, Some(batch_size))?
                    .until_connected(SERVERS)?,
            );
        }
        Ok(ConnectTimes {
            batch_size,
            connected: median(connected),
            status_run: median(whole),
            with_mute_server: median(with_mute),
        })
    }

    fn with_tools(&self, count: usize) -> Map<String, Json> {
        let entry = self.program(&json!({"tools": TOOLS_PER_SERVER}));
        (0..count).map(|index| (format!("server-{index}"), entry.clone())).collect()
    }

    fn memory_with(&self, servers: usize) -> Result<MemoryPoint, Failure> {
        let sandbox = self.sandbox(self.with_tools(servers))?;
        let watch = StatusWatch::start(&sandbox, &self.swb, None)?;
        watch.until_connected(servers)?;
        thread::sleep(SETTLING); // waits for another process
        Ok(MemoryPoint { servers, resident: watch.usage()?.resident })
    }

    fn idle_programs(&self) -> Result<Idle, Failure> {
        self.idle("programs on standard streams", self.with_tools(IDLE_SERVERS))
    }

    fn idle_remotes(&self) -> Result<Idle, Failure> {
        let script = json!({"tools": TOOLS_PER_SERVER}).to_string();
        let command = [self.scripted.clone().into(), "--http".into(), script.into()];
        let remotes: Vec<ListeningServer> = (0..IDLE_SERVERS)
            .map(|_| ListeningServer::start_command(&command))
            .collect::<Result<_, _>>()?;
        let entry = |remote: &ListeningServer| json!({"type": "http", "url": remote.address});
        let servers = remotes.iter().enumerate();
        let servers =
            servers.map(|(index, remote)| (format!("server-{index}"), entry(remote))).collect();
        self.idle("servers over HTTP", servers)
    }

    fn idle(&self, label: &'static str, servers: Map<String, Json>) -> Result<Idle, Failure> {
        let sandbox = self.sandbox(servers)?;
        let watch = StatusWatch::start(&sandbox, &self.swb, None)?;
        watch.until_connected(IDLE_SERVERS)?;
        thread::sleep(SETTLING); // waits for another process
        let needs = watch.usage()?;
        thread::sleep(IDLE_TIME); // waits for another process
        let processor = watch.usage()?.cpu_since(&needs);
        Ok(Idle { label, usage: needs, processor })
    }
}

/// How long `swb status` takes, from its start to its end.
fn status(sandbox: &Sandbox, swb: &Path, batch_size: usize) -> Result<Duration, Failure> {
    let mut command = sandbox.command(swb);
    command.args(["status", "--json"]).env(BATCH_SIZE_VARIABLE, batch_size.to_string());
    let began = Instant::now();
    let said = failure::output(&mut command)?;
    let wall = began.elapsed();
    let answer: Json = serde_json::from_str(&said).map_err(Failure::InvalidJson)?;
    let servers = answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    match servers.iter().filter(|server| server["state"] == "connected").count() {
        SERVERS => Ok(wall),
        connected => Err(Failure::NotConnected { connected, of: SERVERS }),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How long all may take: as many rounds as it takes, each as long as one server, and a little more.
fn limit(batch_size: usize) -> Duration {
    let rounds = u32::try_from(SERVERS.div_ceil(batch_size)).unwrap_or(u32::MAX);
    (SERVER_DELAY * rounds).mul_f64(ALLOWANCE)
}

fn page(
    connect_times: &[ConnectTimes],
    real_servers: &RealServers,
    idle: &[Idle],
    pictures: &[Picture],
) -> String {
    let at_once: Vec<_> = connect_times.iter().flat_map(ConnectTimes::rows).collect();
    let memory: Vec<_> = idle.iter().flat_map(Idle::rows).collect();
    let header = ["what", "limit", "measured", ""];
    format!(
        "\
# Many servers

Written by `cargo xtask bench fleet`. Machine: {machine}.

## {SERVERS} servers with a startup delay of {delay} ms each

Each server sleeps for {delay} ms before it reads anything. The limit is the sum of these delays for the given number of concurrent
starts, times {ALLOWANCE}. The figures also include the processor time of starting {SERVERS} programs, the handshakes and the lists of tools.
Medians of {REPETITIONS} runs, each with a new home folder, so that nothing is cached. `swb status` also stops all servers before it exits. The mute
server accepts requests and never responds.

{at_once}
{times}
## Published servers with the default settings

`swb status` with {published}; nothing is remembered from an earlier run. All of them share the machine's cores while they start.

{real}
## {IDLE_SERVERS} idle servers with {TOOLS_PER_SERVER} tools each

`swb status --watch`, {settling} s after all were connected; the idle time is the {idling} s after that. The servers' own resources and
the time of threads that have ended are not counted. HTTP is without TLS.
`swb` watches the parents of its working folder for configuration, here including the system's temporary folder, so changes by other
programs there add to the idle time.

{memory}
{growth}",
        machine = machine::describe(),
        delay = SERVER_DELAY.as_millis(),
        settling = SETTLING.as_secs(),
        idling = IDLE_TIME.as_secs(),
        at_once = table::markdown(&header, &[3], &at_once),
        memory = table::markdown(&header, &[3], &memory),
        published = real_servers.description(),
        real = table::markdown(&header, &[3], &real_servers.rows()),
        times = pictures[0].link(),
        growth = pictures[1].link(),
    )
}

impl ConnectTimes {
    fn rows(&self) -> [Vec<String>; 3] {
        let limit = limit(self.batch_size);
        let row = |what: &str, time: Duration| {
            vec![
                format!("{} at a time: {what}", self.batch_size),
                format!("≤ {} ms", milliseconds(limit)),
                format!("{} ms", milliseconds(time)),
                verdict(time <= limit),
            ]
        };
        [
            row("until all are connected", self.connected),
            row("the whole run of `swb status`", self.status_run),
            row("until all are connected, next to a mute server", self.with_mute_server),
        ]
    }
}

impl Idle {
    fn rows(&self) -> [Vec<String>; 5] {
        let judged = |what: &str, megabytes_used: f64| {
            vec![
                format!("{}: {what}", self.label),
                format!("≤ {} MB", megabytes(MEMORY_BUDGET)),
                format!("{} MB", megabytes(megabytes_used)),
                verdict(megabytes_used <= MEMORY_BUDGET),
            ]
        };
        let told = |what: &str, measured: String| {
            vec![format!("{}: {what}", self.label), "–".to_owned(), measured, String::new()]
        };
        let time = |time| format!("{} ms", milliseconds(time));
        [
            judged("memory in use", self.usage.resident),
            judged("peak memory", self.usage.peak),
            told("threads", self.usage.threads.to_string()),
            told("processor time until idle", time(self.usage.cpu_time())),
            told("processor time while idle", time(self.processor)),
        ]
    }
}

fn verdict(is_met: bool) -> String {
    if is_met { "met".to_owned() } else { "**missed**".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_whole_rounds() {
        let limits = BATCH_SIZES.map(|batch_size| limit(batch_size).as_millis());
        assert_eq!(limits, [6630, 1950, 780]);
    }

    #[test]
    fn a_slow_server_is_reported() {
        let time = Duration::from_millis(780);
        let late = time + Duration::from_millis(1);
        let connect_times = ConnectTimes {
            batch_size: 25,
            connected: time,
            status_run: late,
            with_mute_server: time,
        };
        let verdicts = connect_times.rows().map(|row| row[3].clone());
        assert_eq!(verdicts, ["met", "**missed**", "met"]);
    }
}

//! Many servers at once: how long until fifty are connected, and what `swb` needs while ten are and nothing happens.
//! Writes the report page and prints it.

mod watched;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use crate::calls::server::Listening;
use crate::effort;
use crate::facts;
use crate::failure::{self, Failure};
use crate::plot::{Bars, Lines, Role, Series, Stop};
use crate::report::{Extent, Picture, Report};
use crate::scene::Scene;
use crate::table::{self, megabytes, milliseconds};
use crate::workplace::Workplace;
use watched::{Needs, Watched};

/// The variable that says how many programs are started at once.
const WIDTH: &str = "MCP_SERVER_CONNECTION_BATCH_SIZE";
const WIDTHS: [usize; 3] = [3, 10, 25];
const REPETITIONS: usize = 3;

const MANY: usize = 50;
const DELAY: Duration = Duration::from_millis(300);
/// How much longer than the servers themselves it may take.
const ALLOWANCE: f64 = 1.3;

const FEW: usize = 10;
const TOOLS: usize = 100;
const MEMORY: f64 = 25.0;
/// With how many servers memory is looked at.
const COUNTS: [usize; 5] = [1, 5, 10, 20, 50];
const SETTLING: Duration = Duration::from_secs(5);
const IDLING: Duration = Duration::from_secs(10);

/// The programs of one run, and where to look for others.
struct Tools {
    swb: PathBuf,
    scripted: PathBuf,
    search_path: OsString,
}

/// How long fifty servers took with one width: the median of each.
struct Together {
    width: usize,
    connected: Duration,
    whole: Duration,
    beside_a_mute_one: Duration,
}

/// What was needed while nothing happened.
struct Idle {
    label: &'static str,
    needs: Needs,
    processor: Duration,
}

/// Runs the benchmark.
pub fn run(workplace: &Workplace) -> Result<Report, Failure> {
    let tools = Tools {
        swb: workplace.swb()?,
        scripted: workplace.scripted()?,
        search_path: workplace.search_path.clone(),
    };
    let mut together = Vec::new();
    for width in WIDTHS {
        eprintln!("measuring {MANY} servers, {width} at a time");
        together.push(tools.together(width)?);
    }
    eprintln!("measuring {FEW} idle servers");
    let idle = [tools.idle_programs()?, tools.idle_remotes()?];
    let mut growth = Vec::new();
    for servers in COUNTS {
        eprintln!("measuring memory with {servers} servers");
        growth.push(tools.held_by(servers)?);
    }
    let pictures = vec![picture_of_times(&together), picture_of_memory(&growth)];
    let text = page(&together, &idle, &pictures);
    let rows = together.iter().flat_map(Together::rows).chain(idle.iter().flat_map(Idle::rows));
    // Some rows are only told.
    let budgets = rows.filter(|row| !row[3].is_empty()).collect();
    Ok(Report { name: "fleet", text, pictures, budgets, extent: Extent::Whole })
}

/// What is held while so many servers are connected.
struct Held {
    servers: usize,
    resident: f64,
}

fn picture_of_times(together: &[Together]) -> Picture {
    let title = format!("{MANY} servers that take {} ms each", DELAY.as_millis());
    let groups = together.iter().map(|it| format!("{} at a time", it.width)).collect();
    let figures = |part: fn(&Together) -> Duration| {
        together.iter().map(|it| Some(part(it).as_secs_f64() * 1e3)).collect()
    };
    let series = vec![
        Series::new("until all are connected", Role::Ours, figures(|it| it.connected)),
        Series::new("all of swb status", Role::Other, figures(|it| it.whole)),
        Series::new("beside a mute one", Role::Other, figures(|it| it.beside_a_mute_one)),
        Series::new("limit", Role::Floor, figures(|it| limit(it.width))),
    ];
    let bars = Bars { title: &title, across: "milliseconds", groups, series };
    Picture::new("fleet", &title, bars.draw())
}

fn picture_of_memory(growth: &[Held]) -> Picture {
    let title = format!("Memory by the number of servers, {TOOLS} tools each");
    let stops = growth.iter().map(|it| Stop::of(it.servers)).collect();
    let figures = growth.iter().map(|it| Some(it.resident)).collect();
    let series = vec![Series::new("swb status --watch", Role::Ours, figures)];
    let (across, upwards) = ("servers", "megabytes in use");
    let lines = Lines { title: &title, across, upwards, stops, series };
    Picture::new("fleet-memory", &title, lines.draw())
}

impl Tools {
    fn scene(&self, servers: Map<String, Json>) -> Result<Scene, Failure> {
        Scene::with_servers(&self.swb, &self.search_path, servers)
    }

    fn program(&self, script: &Json) -> Json {
        json!({"command": self.scripted, "args": [script.to_string()]})
    }

    fn fleet(&self) -> Map<String, Json> {
        let slow = self.program(&json!({"start_delay_ms": DELAY.as_millis() as u64}));
        (0..MANY).map(|index| (format!("server-{index}"), slow.clone())).collect()
    }

    /// Every repetition has a home of its own, so that nothing is remembered from the one before.
    fn together(&self, width: usize) -> Result<Together, Failure> {
        let (mut connected, mut whole, mut beside) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..effort::repetitions(REPETITIONS) {
            let scene = self.scene(self.fleet())?;
            connected.push(Watched::start(&scene, &self.swb, Some(width))?.until_connected(MANY)?);
            whole.push(status(&self.scene(self.fleet())?, &self.swb, width)?);
            let mut fleet = self.fleet();
            // Its name comes first, and so does it.
            fleet.insert("mute".to_owned(), self.program(&json!({"quirks": ["never_answers"]})));
            let scene = self.scene(fleet)?;
            beside.push(Watched::start(&scene, &self.swb, Some(width))?.until_connected(MANY)?);
        }
        Ok(Together {
            width,
            connected: median(connected),
            whole: median(whole),
            beside_a_mute_one: median(beside),
        })
    }

    fn with_tools(&self, count: usize) -> Map<String, Json> {
        let entry = self.program(&json!({"tools": TOOLS}));
        (0..count).map(|index| (format!("server-{index}"), entry.clone())).collect()
    }

    fn held_by(&self, servers: usize) -> Result<Held, Failure> {
        let scene = self.scene(self.with_tools(servers))?;
        let watched = Watched::start(&scene, &self.swb, None)?;
        watched.until_connected(servers)?;
        thread::sleep(SETTLING); // waits for another process
        Ok(Held { servers, resident: watched.needs()?.resident })
    }

    fn idle_programs(&self) -> Result<Idle, Failure> {
        self.idle("programs on standard streams", self.with_tools(FEW))
    }

    fn idle_remotes(&self) -> Result<Idle, Failure> {
        let script = json!({"tools": TOOLS}).to_string();
        let command = [self.scripted.clone().into(), "--http".into(), script.into()];
        let remotes: Vec<Listening> =
            (0..FEW).map(|_| Listening::of(&command)).collect::<Result<_, _>>()?;
        let entry = |remote: &Listening| json!({"type": "http", "url": remote.address});
        let servers = remotes.iter().enumerate();
        let servers =
            servers.map(|(index, remote)| (format!("server-{index}"), entry(remote))).collect();
        self.idle("servers over HTTP", servers)
    }

    fn idle(&self, label: &'static str, servers: Map<String, Json>) -> Result<Idle, Failure> {
        let scene = self.scene(servers)?;
        let watched = Watched::start(&scene, &self.swb, None)?;
        watched.until_connected(FEW)?;
        thread::sleep(SETTLING); // waits for another process
        let needs = watched.needs()?;
        thread::sleep(IDLING); // waits for another process
        let processor = watched.needs()?.processor_since(&needs);
        Ok(Idle { label, needs, processor })
    }
}

/// How long `swb status` takes, from its start to its end.
fn status(scene: &Scene, swb: &Path, width: usize) -> Result<Duration, Failure> {
    let mut command = scene.command(swb);
    command.args(["status", "--json"]).env(WIDTH, width.to_string());
    let began = Instant::now();
    let said = failure::output(&mut command)?;
    let wall = began.elapsed();
    let answer: Json = serde_json::from_str(&said).map_err(Failure::Answer)?;
    let servers = answer["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    match servers.iter().filter(|server| server["state"] == "connected").count() {
        MANY => Ok(wall),
        connected => Err(Failure::NotConnected { connected, of: MANY }),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// How long all may take: as many rounds as it takes, each as long as one server, and a little more.
fn limit(width: usize) -> Duration {
    let rounds = u32::try_from(MANY.div_ceil(width)).unwrap_or(u32::MAX);
    (DELAY * rounds).mul_f64(ALLOWANCE)
}

fn page(together: &[Together], idle: &[Idle], pictures: &[Picture]) -> String {
    let at_once: Vec<_> = together.iter().flat_map(Together::rows).collect();
    let memory: Vec<_> = idle.iter().flat_map(Idle::rows).collect();
    let header = ["what", "limit", "measured", ""];
    format!(
        "\
# Many servers

Written by `cargo xtask bench fleet`. Machine: {machine}.

## {MANY} servers that take {delay} ms each

Programs that sleep for {delay} ms before they read anything. The limit is what they take if so many are started at a time and nothing
else costs anything, times {ALLOWANCE}. Starting {MANY} programs costs processor time too, more of it at once the more are started at a
time; that, the handshake and listing their tools are in the figures. Medians of {REPETITIONS} runs, each with a home in which nothing
is remembered. `swb status` also ends all of them before it ends. The mute server takes questions and never answers.

{at_once}
{times}
## {FEW} servers with {TOOLS} tools each, and nothing to do

`swb status --watch`, {settling} s after all were connected; idle are the {idling} s after that. The servers' own needs are
not counted, nor is what a thread used that has ended. HTTP is without TLS.
`swb` watches the folders above the one it runs in for configuration, the system's temporary folder among them here: what others do
there is in the time while idle.

{memory}
{growth}",
        machine = facts::line(),
        delay = DELAY.as_millis(),
        settling = SETTLING.as_secs(),
        idling = IDLING.as_secs(),
        at_once = table::markdown(&header, &[3], &at_once),
        memory = table::markdown(&header, &[3], &memory),
        times = pictures[0].link(),
        growth = pictures[1].link(),
    )
}

impl Together {
    fn rows(&self) -> [Vec<String>; 3] {
        let limit = limit(self.width);
        let row = |what: &str, time: Duration| {
            vec![
                format!("{} at a time: {what}", self.width),
                format!("≤ {} ms", milliseconds(limit)),
                format!("{} ms", milliseconds(time)),
                verdict(time <= limit),
            ]
        };
        [
            row("until all are connected", self.connected),
            row("the whole of `swb status`", self.whole),
            row("until all are connected, beside a mute one", self.beside_a_mute_one),
        ]
    }
}

impl Idle {
    fn rows(&self) -> [Vec<String>; 5] {
        let judged = |what: &str, held: f64| {
            vec![
                format!("{}: {what}", self.label),
                format!("≤ {} MB", megabytes(MEMORY)),
                format!("{} MB", megabytes(held)),
                verdict(held <= MEMORY),
            ]
        };
        let told = |what: &str, measured: String| {
            vec![format!("{}: {what}", self.label), "–".to_owned(), measured, String::new()]
        };
        let time = |time| format!("{} ms", milliseconds(time));
        [
            judged("memory in use", self.needs.resident),
            judged("most memory ever in use", self.needs.peak),
            told("threads", self.needs.threads.to_string()),
            told("processor time until then", time(self.needs.processor())),
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
        let limits = WIDTHS.map(|width| limit(width).as_millis());
        assert_eq!(limits, [6630, 1950, 780]);
    }

    #[test]
    fn a_server_that_takes_its_time_is_seen() {
        let time = Duration::from_millis(780);
        let late = time + Duration::from_millis(1);
        let together =
            Together { width: 25, connected: time, whole: late, beside_a_mute_one: time };
        let verdicts = together.rows().map(|row| row[3].clone());
        assert_eq!(verdicts, ["met", "**missed**", "met"]);
    }
}

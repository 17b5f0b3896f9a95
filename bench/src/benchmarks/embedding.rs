//! Measures sessions that a program runs: the time to the first frame with twenty servers, next to another program; a call
//! of a tool that the program hosts, next to a bare pipe; and large calls that overlap.

mod session;

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json, json};

use crate::child_server;
use crate::child_server::StdioServer;
use crate::echo_server::raw_bytes::{MESSAGE_BYTES, SIZE_DIGITS};
use crate::effort;
use crate::failure::Failure;
use crate::machine;
use crate::output::report::{Extent, Report};
use crate::output::table;
use crate::sandbox::Sandbox;
use crate::workspace::Workspace;
use session::Session;

/// The servers in the configuration.
const SERVERS: usize = 20;
const STARTS: usize = 15;
const CALLS: usize = 2_000;
/// The size of the argument of a small call.
const SMALL_BYTES: usize = 100;
/// How many large calls overlap, and the size of their arguments.
const LARGE_CALLS: usize = 20;
const LARGE_BYTES: usize = 200_000;
/// A port on which nothing listens: `init` is printed before the model is asked.
const NO_MODEL: &str = "http://127.0.0.1:9";

const START_BUDGET: Duration = Duration::from_millis(60);
const CALL_BUDGET: Duration = Duration::from_micros(100);
const OPTIONS: &[&str] =
    &["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
/// For calls. The other program refuses it for root, and a start needs no permission.
const ALLOW_CALLS: &[&str] = &["--permission-mode", "bypassPermissions"];

/// What was measured.
struct Figures {
    own_start: Duration,
    other_start: Option<Duration>,
    call: Duration,
    pipe: Duration,
    right: usize,
    large: Duration,
}

/// Runs the benchmark.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let swb = workspace.swb()?;
    let echo = child_server::echo_command("stdio")?;
    let [program, arguments @ ..] = &echo;
    let arguments: Vec<String> =
        arguments.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    let entry = json!({"command": program.to_string_lossy(), "args": arguments});
    let servers: Map<String, Json> =
        (0..SERVERS).map(|at| (format!("server-{at:02}"), entry.clone())).collect();
    let other = workspace.find("claude");

    eprintln!("measuring starts with {SERVERS} servers");
    let configured = Sandbox::with_servers(&swb, &workspace.search_path, servers.clone())?;
    let inline = json!({"mcpServers": servers}).to_string();
    let mut own_starts = Vec::new();
    let mut other_starts = Vec::new();
    for round in 0..effort::repetitions(STARTS) {
        own_starts.push(Session::start(command(&configured, &swb))?.time_to_init()?);
        // It is slow, and its times vary little.
        if let Some(other) = other.as_deref().filter(|_| round % 3 == 0) {
            let mut start = command(&configured, other);
            start.args(["--mcp-config", &inline]);
            other_starts.push(Session::start(start)?.time_to_init()?);
        }
    }

    eprintln!("measuring calls");
    let empty = Sandbox::new(&workspace.search_path)?;
    let mut calling = command(&empty, &swb);
    calling.args(ALLOW_CALLS);
    let mut session = Session::start(calling)?;
    session.wait_until_ready()?;
    let text = ["x".repeat(SMALL_BYTES)];
    let mut calls = Vec::new();
    for _ in 0..effort::scaled(CALLS) {
        let start = Instant::now();
        session.call_all(&text)?;
        calls.push(start.elapsed());
    }
    let texts: Vec<String> = (0..LARGE_CALLS).map(|at| "x".repeat(LARGE_BYTES + at)).collect();
    let start = Instant::now();
    let right = session.call_all(&texts)?;
    let large = start.elapsed();
    drop(session);

    let figures = Figures {
        own_start: median(own_starts),
        other_start: Some(other_starts).filter(|it| !it.is_empty()).map(median),
        call: median(calls),
        pipe: median(pipe_round_trips()?),
        right,
        large,
    };
    let budgets = figures.budgets();
    Ok(Report {
        name: "embedding",
        text: figures.page(&budgets),
        pictures: Vec::new(),
        budgets,
        extent: Extent::Whole,
    })
}

/// A session in a sandbox, without a model.
fn command(sandbox: &Sandbox, program: &Path) -> Command {
    let mut command = sandbox.command(program);
    command
        .args(OPTIONS)
        .env("ANTHROPIC_API_KEY", "none")
        .env("ANTHROPIC_BASE_URL", NO_MODEL)
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    command
}

/// What the same bytes cost over bare pipes: the request and its answer, and the message to the server and its answer.
fn pipe_round_trips() -> Result<Vec<Duration>, Failure> {
    /// The frames around the argument.
    const FRAME_BYTES: usize = 200;
    let total = SMALL_BYTES + FRAME_BYTES;
    // The digits at the start of the first piece say how much to answer.
    let mut frame = vec![b'0'; total.next_multiple_of(MESSAGE_BYTES)];
    let digits = format!("{:0SIZE_DIGITS$}", frame.len());
    frame[..SIZE_DIGITS].copy_from_slice(digits.as_bytes());
    let mut pipe = StdioServer::start(&child_server::echo_command("pipe")?)?;
    let fail = |error| Failure::client("pipe", error);
    let mut answer = vec![0; frame.len()];
    let mut times = Vec::new();
    for _ in 0..effort::scaled(CALLS) {
        let start = Instant::now();
        for _ in 0..2 {
            pipe.input.write_all(&frame).map_err(fail)?;
            pipe.output.read_exact(&mut answer).map_err(fail)?;
        }
        times.push(start.elapsed());
    }
    Ok(times)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn microseconds(time: Duration) -> String {
    format!("{:.0}", time.as_secs_f64() * 1e6)
}

fn verdict(is_met: bool) -> String {
    (if is_met { "met" } else { "**missed**" }).to_owned()
}

impl Figures {
    fn added(&self) -> Duration {
        self.call.saturating_sub(self.pipe)
    }

    fn budgets(&self) -> Vec<Vec<String>> {
        vec![
            vec![
                format!("start to `init` with {SERVERS} servers, ms"),
                format!("≤ {}", table::milliseconds(START_BUDGET)),
                table::milliseconds(self.own_start),
                verdict(self.own_start <= START_BUDGET),
            ],
            vec![
                "a call of a hosted tool, µs added to the pipes".to_owned(),
                format!("≤ {}", microseconds(CALL_BUDGET)),
                microseconds(self.added()),
                verdict(self.added() <= CALL_BUDGET),
            ],
            vec![
                format!(
                    "{LARGE_CALLS} overlapping calls of {} KB, right results",
                    LARGE_BYTES / 1_000
                ),
                format!("= {LARGE_CALLS}"),
                self.right.to_string(),
                verdict(self.right == LARGE_CALLS),
            ],
        ]
    }

    fn page(&self, budgets: &[Vec<String>]) -> String {
        let other = self.other_start.map_or("not installed".to_owned(), table::milliseconds);
        let rows = [
            ["`swb`, ms".to_owned(), table::milliseconds(self.own_start)],
            ["`claude`, ms".to_owned(), other],
        ];
        let calls = [
            ["a call through the session, µs".to_owned(), microseconds(self.call)],
            ["the same bytes over bare pipes, µs".to_owned(), microseconds(self.pipe)],
            [format!("{LARGE_CALLS} large calls at once, ms"), table::milliseconds(self.large)],
        ];
        let table = |rows: &[[String; 2]]| {
            let rows: Vec<Vec<String>> = rows.iter().map(|it| it.to_vec()).collect();
            table::markdown(&["", "median"], &[], &rows)
        };
        format!(
            "\
# Embedding

Written by `cargo xtask bench embedding`. Machine: {machine}.

## Budgets

{budgets}
## From start to `init`

The process starts with {SERVERS} stdio servers, gets the first request and a message, and prints `init` before it asks the model. Both
programs get the same servers; `swb` reads them from the user's settings, the other program from its command line.

{starts}
## Calls of a tool that the program hosts

The program sends `mcp_call`; the session sends the call back as `mcp_message`, gets its answer, and answers the request. The argument has {SMALL_BYTES} B, that of a
large call {large} KB.

{calls}",
            machine = machine::describe(),
            budgets = table::markdown(&["budget", "limit", "measured", ""], &[3], budgets),
            starts = table(&rows),
            large = LARGE_BYTES / 1_000,
            calls = table(&calls),
        )
    }
}

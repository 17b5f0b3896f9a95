//! What a pool of ten thousand tools costs in time and memory, and how quickly things are found in it.
//! What a call costs on its way through the host is `pipeline`'s.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use switchboard::built_in;
use switchboard::catalogue::Item;
use switchboard::config::entry::ToolFilter;
use switchboard::pool::argument_check::check;
use switchboard::pool::naming::Origin;
use switchboard::pool::tool::ToolKind;
use switchboard::pool::{Pool, Rules, Source};
use switchboard_wire::message::Payload;

use crate::facts;
use crate::failure::Failure;
use crate::pipeline;
use crate::table;
use crate::workplace::Workplace;

const SERVERS: usize = 100;
const TOOLS: usize = 100;
const VERBS: [&str; 10] =
    ["read", "write", "list", "create", "delete", "search", "update", "move", "copy", "watch"];
const THINGS: [&str; 10] =
    ["file", "issue", "pullRequest", "branch", "message", "event", "page", "table", "row", "user"];

/// Measures, prints and writes the report.
pub fn run(workplace: &Workplace) -> Result<(), Failure> {
    let (memory, servers) = grown(|| servers(SERVERS));
    let (more, pool) = grown(|| assembled(&Pool::default(), &servers));
    let (index, ready) = grown(|| Row::measured("search made ready", 1, || pool.search("x", 1)));
    let mut rows = rows(&pool, &servers);
    rows.insert(3, ready);
    let pipeline = pipeline::measured(workplace)?;
    let text = report(&rows, [memory, memory + more, memory + more + index], &pipeline);
    println!("{text}");
    let path = workplace.report("pool.md");
    fs::write(&path, text).map_err(|error| Failure::file(&path, error))
}

/// A server's name and its tools.
pub type Server = (String, Vec<Item>);

/// So many servers, each with a hundred tools.
pub fn servers(count: usize) -> Vec<Server> {
    (0..count).map(|it| (format!("server{it}"), tools(it))).collect()
}

fn tools(server: usize) -> Vec<Item> {
    let one = |at: usize| {
        let (verb, thing) = (VERBS[at % 10], THINGS[at / 10 % 10]);
        let name = format!("{verb}_{thing}_{}", at / 100);
        // Written out, because making ten thousand of these must not take longer than what is measured.
        let definition = format!(
            "{{\"name\":\"{name}\",\"title\":\"{verb} a {thing}\",\"description\":\"Lets you {verb} any {thing} of \
             workspace w{server}. Returns what was found as text, one {thing} a line, with its owner and the time of the \
             last change. Fails where the {thing} is locked.\",\"inputSchema\":{{\
             \"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"object\",\"properties\":{{\
             \"{thing}Id\":{{\"type\":\"string\",\"description\":\"which one is meant\"}},\
             \"limit\":{{\"type\":\"integer\",\"minimum\":1,\"maximum\":100,\"description\":\"how many at most\"}},\
             \"order\":{{\"type\":\"string\",\"enum\":[\"up\",\"down\"],\"default\":\"up\"}},\
             \"labels\":{{\"type\":\"array\",\"items\":{{\"type\":\"string\"}}}}}},\
             \"required\":[\"{thing}Id\"],\"additionalProperties\":false}},\
             \"annotations\":{{\"readOnlyHint\":{}}}}}",
            verb == "read",
        );
        Item { name, raw: Payload::from_json(definition.into()) }
    };
    (0..TOOLS).map(one).collect()
}

/// The pool of these servers, made from the one before.
pub fn assembled(before: &Pool, servers: &[Server]) -> Pool {
    let filter = ToolFilter::default();
    let sources = servers.iter().map(|(server, tools)| Source {
        server,
        origin: Origin::Configured,
        tools,
        kind: ToolKind::Served,
        filter: &filter,
    });
    before.next(sources, &Rules { hidden: &|_, _| false, built_in: built_in::all() })
}

/// What something takes, of several times.
struct Row {
    what: String,
    times: Vec<Duration>,
    budget: Option<Duration>,
}

impl Row {
    fn measured<T>(what: &str, rounds: usize, mut act: impl FnMut() -> T) -> Row {
        let one = |_| {
            let start = Instant::now();
            let made = black_box(act());
            let took = start.elapsed();
            drop(made);
            took
        };
        let mut times: Vec<Duration> = (0..rounds).map(one).collect();
        times.sort_unstable();
        Row { what: what.to_owned(), times, budget: None }
    }

    fn within(mut self, milliseconds: u64) -> Row {
        self.budget = Some(Duration::from_millis(milliseconds));
        self
    }

    fn cells(&self) -> Vec<String> {
        let shown = |time: Duration| match time {
            time if time < Duration::from_millis(1) => {
                format!("{:.2} µs", time.as_secs_f64() * 1e6)
            }
            time => format!("{:.2} ms", time.as_secs_f64() * 1e3),
        };
        let at =
            |share: usize| self.times[(self.times.len() * share / 100).min(self.times.len() - 1)];
        let verdict = self.budget.map(|budget| {
            let is_met = if at(50) <= budget { "met" } else { "missed" };
            format!("{} ms: {is_met}", budget.as_millis())
        });
        let verdict = verdict.unwrap_or_else(|| "–".to_owned());
        vec![self.what.clone(), shown(at(50)), shown(at(0)), shown(at(99)), verdict]
    }
}

fn rows(pool: &Pool, servers: &[Server]) -> Vec<Row> {
    let empty = Pool::default();
    let mut rows = vec![
        Row::measured("assembled from nothing", 51, || assembled(&empty, servers)).within(20),
        Row::measured("assembled again, nothing changed", 51, || assembled(pool, servers)),
        Row::measured("nearest three to a misspelt name", 101, || {
            pool.nearest("mcp__server42__reed_file_0", 3).len()
        })
        .within(5),
    ];
    for query in ["read file", "create issue labels", "the of a what was"] {
        let what = format!("search `{query}`");
        rows.push(Row::measured(&what, 1001, || pool.search(query, 10)).within(1));
    }
    let tool = pool.find("mcp__server42__read_file_0").expect("it was made above");
    let arguments = json!({"fileId": "a", "limit": 5, "labels": ["x", "y"]});
    rows.push(Row::measured("first check of a tool's arguments", 1, || check(tool, &arguments)));
    rows.push(Row::measured("every further check", 10_001, || check(tool, &arguments)));
    rows
}

/// By how many bytes the process grew.
fn grown<T>(make: impl FnOnce() -> T) -> (u64, T) {
    let before = resident();
    let made = make();
    (resident().saturating_sub(before), made)
}

/// The memory that the process holds, in bytes.
fn resident() -> u64 {
    const PAGE: u64 = 4096;
    let table = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = table.split(' ').nth(1).and_then(|it| it.parse::<u64>().ok());
    pages.unwrap_or_default() * PAGE
}

fn report(rows: &[Row], [catalogue, with_pool, with_index]: [u64; 3], pipeline: &str) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let verdict = if with_pool <= 40_000_000 { "met" } else { "missed" };
    let memory = [
        vec!["the catalogues alone".to_owned(), megabytes(catalogue)],
        vec!["with the pool".to_owned(), megabytes(with_pool)],
        vec!["with the pool and what search needs".to_owned(), megabytes(with_index)],
    ];
    format!(
        "# Ten thousand tools\n\n\
         Written by `cargo xtask bench pool`. {}\n\
         {SERVERS} servers with {TOOLS} tools each, about 690 bytes a definition.\n\n{}\n\
         What the process grew by, in MB:\n\n{}\n\
         Budget: catalogues and pool in at most 40 MB: {verdict}.\n\n{pipeline}",
        facts::line(),
        table::markdown(&["", "median", "least", "p99", "budget"], &[4], &cells),
        table::markdown(&["", "MB"], &[], &memory),
    )
}

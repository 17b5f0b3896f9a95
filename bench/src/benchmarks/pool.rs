//! What a pool of ten thousand tools costs in time and memory, and how quickly things are found in it.
//! What a call costs on its way through the host is `pipeline`'s.

pub mod growth;

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;
use switchboard::builtin_tool_definitions;
use switchboard::catalogue::ListItem;
use switchboard::config::entry::server::ToolFilter;
use switchboard::pool::naming::NameOrigin;
use switchboard::pool::{Pool, PoolRules, ServerTools, ToolKind};
use switchboard_wire::jsonrpc::message::Payload;

use crate::benchmarks::call_pipeline;
use crate::effort;
use crate::failure::Failure;
use crate::machine;
use crate::output::report::{Extent, Picture, Report};
use crate::output::table;
use crate::workspace::Workspace;
use growth::PoolCost;

const SERVERS: usize = 100;
const TOOLS: usize = 100;
const VERBS: [&str; 10] =
    ["read", "write", "list", "create", "delete", "search", "update", "move", "copy", "watch"];
const THINGS: [&str; 10] =
    ["file", "issue", "pullRequest", "branch", "message", "event", "page", "table", "row", "user"];

/// How many servers there are where growth is looked at.
const SIZES: [usize; 4] = [1, 10, 100, 500];
/// What the catalogues and the pool may hold, in bytes.
const MEMORY: u64 = 40_000_000;

/// Measures.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let (memory, servers) = measure_growth(|| servers(SERVERS));
    let (more, pool) = measure_growth(|| assemble_pool(&Pool::default(), &servers));
    let (index, ready) =
        measure_growth(|| Row::measure("search index built", 1, || pool.search("x", 1)));
    let mut rows = rows(&pool, &servers);
    rows.insert(3, ready);
    let growth = SIZES.map(PoolCost::measure).into_iter().collect::<Result<Vec<_>, _>>()?;
    let pipeline_cost = call_pipeline::measure(workspace)?;
    let memory = [memory, memory + more, memory + more + index];
    let mut pictures = growth::pictures(&growth);
    let text = report(&rows, memory, &pictures, &pipeline_cost.text);
    let mut budgets: Vec<_> = rows.iter().filter_map(Row::budget_row).collect();
    budgets.push(vec![
        "10,000 tools: catalogues and pool".to_owned(),
        format!("≤ {} MB", MEMORY / 1_000_000),
        format!("{:.1} MB", memory[1] as f64 / 1e6),
        verdict(memory[1] <= MEMORY).to_owned(),
    ]);
    budgets.push(pipeline_cost.budget);
    pictures.push(pipeline_cost.picture);
    Ok(Report { name: "pool", text, pictures, budgets, extent: Extent::Whole })
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**missed**" }
}

/// A server's name and its tools.
pub type Server = (String, Vec<ListItem>);

/// So many servers, each with a hundred tools.
pub fn servers(count: usize) -> Vec<Server> {
    (0..count).map(|it| (format!("server{it}"), tools(it))).collect()
}

fn tools(server: usize) -> Vec<ListItem> {
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
        ListItem { name, raw: Payload::from_json(definition.into()) }
    };
    (0..TOOLS).map(one).collect()
}

/// The pool of these servers, made from the one before.
pub fn assemble_pool(before: &Pool, servers: &[Server]) -> Pool {
    let filter = ToolFilter::default();
    let sources = servers.iter().map(|(server, tools)| ServerTools {
        server,
        origin: NameOrigin::Configured,
        tools,
        kind: ToolKind::Server,
        filter: &filter,
    });
    before.next_revision(
        sources,
        &PoolRules { hidden: &|_, _| false, built_in: builtin_tool_definitions() },
    )
}

/// What something takes, of several times.
struct Row {
    what: String,
    times: Vec<Duration>,
    budget: Option<TimeBudget>,
}

/// What something may take.
#[derive(Clone, Copy)]
struct TimeBudget {
    most: Duration,
    /// How many in a hundred may not take longer.
    percentile: usize,
}

impl Row {
    fn measure<T>(what: &str, rounds: usize, mut act: impl FnMut() -> T) -> Row {
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

    /// It may take so long at the median.
    fn median_within(mut self, milliseconds: u64) -> Row {
        self.budget =
            Some(TimeBudget { most: Duration::from_millis(milliseconds), percentile: 50 });
        self
    }

    /// Only one in a hundred may take longer.
    fn p99_within(mut self, milliseconds: u64) -> Row {
        self.budget =
            Some(TimeBudget { most: Duration::from_millis(milliseconds), percentile: 99 });
        self
    }

    fn percentile(&self, share: usize) -> Duration {
        self.times[(self.times.len() * share / 100).min(self.times.len() - 1)]
    }

    fn cells(&self) -> Vec<String> {
        let verdict = self.budget.map(|it| {
            let verdict = verdict(self.percentile(it.percentile) <= it.most);
            format!("{} ms at p{}: {verdict}", it.most.as_millis(), it.percentile)
        });
        let verdict = verdict.unwrap_or_else(|| "–".to_owned());
        let [median, least, slowest] = [50, 0, 99].map(|share| format_time(self.percentile(share)));
        vec![self.what.clone(), median, least, slowest, verdict]
    }

    fn budget_row(&self) -> Option<Vec<String>> {
        let TimeBudget { most, percentile: share } = self.budget?;
        let measured = self.percentile(share);
        Some(vec![
            format!("10,000 tools: {}, p{share}", self.what),
            format!("≤ {} ms", most.as_millis()),
            format_time(measured),
            verdict(measured <= most).to_owned(),
        ])
    }
}

fn format_time(time: Duration) -> String {
    match time {
        time if time < Duration::from_millis(1) => format!("{:.2} µs", time.as_secs_f64() * 1e6),
        time => format!("{:.2} ms", time.as_secs_f64() * 1e3),
    }
}

fn rows(pool: &Pool, servers: &[Server]) -> Vec<Row> {
    let empty = Pool::default();
    let mut rows = vec![
        Row::measure("assembled from nothing", effort::scaled(51), || {
            assemble_pool(&empty, servers)
        })
        .median_within(20),
        Row::measure("assembled again, nothing changed", effort::scaled(51), || {
            assemble_pool(pool, servers)
        }),
        Row::measure("nearest three to a misspelt name", 101, || {
            pool.nearest("mcp__server42__reed_file_0", 3).len()
        })
        .median_within(5),
    ];
    for query in ["read file", "create issue labels", "the of a what was"] {
        let what = format!("search `{query}`");
        let row = Row::measure(&what, effort::scaled(1001), || pool.search(query, 10));
        rows.push(row.p99_within(1));
    }
    let tool = pool.find("mcp__server42__read_file_0").expect("it was made above");
    let arguments = json!({"fileId": "a", "limit": 5, "labels": ["x", "y"]});
    rows.push(Row::measure("first check of a tool's arguments", 1, || {
        tool.check_arguments(&arguments)
    }));
    rows.push(Row::measure("every further check", 10_001, || tool.check_arguments(&arguments)));
    rows
}

/// By how many bytes the process grew.
fn measure_growth<T>(make: impl FnOnce() -> T) -> (u64, T) {
    let before = resident_bytes();
    let made = make();
    (resident_bytes().saturating_sub(before), made)
}

/// The memory that the process holds, in bytes.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let table = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = table.split(' ').nth(1).and_then(|it| it.parse::<u64>().ok());
    pages.unwrap_or_default() * PAGE
}

fn report(rows: &[Row], held: [u64; 3], pictures: &[Picture], pipeline: &str) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
    let names =
        ["the catalogues alone", "with the pool", "with the pool and the search index"].into_iter();
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    let memory: Vec<_> =
        names.zip(held).map(|(name, bytes)| vec![name.to_owned(), megabytes(bytes)]).collect();
    let verdict = verdict(held[1] <= MEMORY);
    format!(
        "# Ten thousand tools\n\n\
         Written by `cargo xtask bench pool`. Machine: {}.\n\
         {SERVERS} servers with {TOOLS} tools each, about 690 bytes a definition.\n\n{}\n\
         Growth of the process, in MB:\n\n{}\n\
         Budget: catalogues and pool in at most 40 MB: {verdict}.\n\n\
         ## More and fewer tools\n\n\
         Each size is measured in a process of its own.\n\n{}\n{pipeline}",
        machine::describe(),
        table::markdown(&["", "median", "least", "p99", "budget"], &[4], &cells),
        table::markdown(&["", "MB"], &[], &memory),
        pictures.iter().map(Picture::link).collect::<Vec<_>>().join("\n"),
    )
}

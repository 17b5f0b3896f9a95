//! Draws the page of a run: the cost of each gateway, and the budgets that are met.

use super::contender::{GatewayKind, Route};
use super::load::{Era, GatewayCost};
use super::memory::{CALL_COUNTS, CALLERS, GatewayMemory, SESSIONS};
use super::{IN_FLIGHT, LARGE, LoadCase, Part, REPETITIONS, Row};
use crate::machine;
use crate::output::plot::{Lines, Role, Series, Tick};
use crate::output::report::{Extent, Picture, Report};
use crate::output::table;
use crate::output::table::{megabytes, thousands, two_digits};

/// How much more memory idle sessions may take, in megabytes.
const IDLE_MEMORY_BUDGET: f64 = 50.0;
/// How much more memory very many calls may leave behind, in megabytes.
const MEMORY_GROWTH_BUDGET: f64 = 5.0;
const HEADER: [&str; 4] = ["budget", "limit", "measured", ""];

/// The whole page, or the part that was measured.
pub fn draw(parts: &[Part], memory: &[GatewayMemory], extent: Extent) -> Report {
    let (mut pictures, mut all_budgets) = (Vec::new(), Vec::new());
    let mut page = format!(
        "\
# Relayed calls

Written by `cargo xtask bench gateway`. Machine: {}.

Each cell has three figures: the median time of a call in µs, measured by the client; calls per second of all clients together; and
processor time of the gateway per call, in µs (of its own process, without the server, the load generator and programs it starts).
All are medians of {REPETITIONS} repetitions, in which the gateways ran in turn: 1.5 s of calls each, after half a second to warm up.

The response to a `tools/call` is a text of 100 B or 1 MB; the server searches for a few bytes instead of parsing. The clients are
hand-written and share one thread; each keeps a connection of its own open and sends its next call after the last response. They accept
both kinds of responses, JSON and event streams. Legacy clients have a session each.
With one client all processes wait most of the time, and the figure is mostly the time to wake up a thread; with many, load,
gateway and server share the cores, so that the load generator and the server limit a gateway's calls per second. The cost of the gateway
itself is the third figure.

`swb` is the release build with its usual work: `Host` and `Origin` are checked, the call is permitted (the server is trusted, so no
user is asked) and recorded in the audit log on disk. The others relay without permissions and records. The bare proxy is hyper's
server and hyper's pooled client, with as many threads as ours, and does not parse the bodies. The gateway on the Rust SDK is its
server in front of its client, with the defaults of both, on a runtime with as many threads as there are cores. The others run as
installed; supergateway runs with sessions and starts a server for each.

The ratios are comparable on this machine; the absolute numbers depend on its other load. There is no TLS, no network, no token to
check, and one tool.
",
        machine::describe(),
    );
    for part in parts {
        let title = match part.route {
            Route::HttpToHttp => "HTTP to HTTP",
            Route::HttpToStdio => "HTTP to a program",
            Route::StdioToStdio => "Standard streams to a program",
        };
        let pair = by_clients(part, title);
        let links: String = pair.iter().map(|it| format!("{}\n", it.link())).collect();
        page.push_str(&format!("\n## {title}\n\n{}\n{links}", costs(part)));
        pictures.extend(pair);
        for row in part.rows.iter().filter(|row| row.failure.is_some()) {
            let why = row.failure.as_deref().unwrap_or_default();
            page.push_str(&format!(
                "{}: could not be measured to the end: {why}.\n\n",
                row.gateway.label()
            ));
        }
        let budgets: Vec<_> = budgets(part.route).iter().map(|it| it.row(part)).collect();
        page.push_str(&table::markdown(&HEADER, &[3], &budgets));
        all_budgets.extend(budgets.into_iter().map(|mut row| {
            row[0] = format!("{title}: {}", row[0]);
            row
        }));
    }
    if !memory.is_empty() {
        let (text, budgets) = memory_section(memory);
        page.push_str(&text);
        all_budgets.extend(budgets);
    }
    Report { name: "gateway", text: page, pictures, budgets: all_budgets, extent }
}

/// The cost of a route by the number of clients, or of calls in flight, with small results.
fn by_clients(part: &Part, over: &str) -> [Picture; 2] {
    let questions = LoadCase::for_route(part.route).into_iter().enumerate();
    let small = questions.filter(|(_, it)| *it == LoadCase::small(it.clients));
    let small: Vec<(usize, usize)> = small.map(|(place, it)| (place, it.clients)).collect();
    let series = |figure: fn(&GatewayCost) -> f64| {
        let of = |row: &Row| {
            let figures = small.iter().map(|(place, _)| row.cost(*place).map(|it| figure(&it)));
            let role = match row.gateway {
                GatewayKind::Ours => Role::Ours,
                GatewayKind::Direct | GatewayKind::BareProxy => Role::Baseline,
                GatewayKind::Rmcp
                | GatewayKind::McpProxy
                | GatewayKind::Supergateway
                | GatewayKind::FastMcpReused
                | GatewayKind::FastMcpDefault => Role::Other,
            };
            Series::new(row.gateway.label(), role, figures.collect())
        };
        part.rows.iter().map(of).collect()
    };
    let (file, across) = match part.route {
        Route::HttpToHttp => ("gateway-http", "clients"),
        Route::HttpToStdio => ("gateway-program", "clients"),
        Route::StdioToStdio => ("gateway-streams", "calls in flight"),
    };
    let stops: Vec<Tick> = small.iter().map(|(_, clients)| Tick::of(*clients)).collect();
    let draw = |file: String, upwards: &str, series: Vec<Series>| {
        let title = format!("{over}: {upwards}, by {across}");
        let lines =
            Lines { title: &title, x_axis: across, y_axis: upwards, ticks: stops.clone(), series };
        Picture::new(&file, &title, lines.draw())
    };
    [
        draw(format!("{file}-rate"), "calls a second", series(|it| it.calls_per_second)),
        draw(file.to_owned(), "µs a call", series(|it| it.p50)),
    ]
}

impl LoadCase {
    fn title(&self, way: Route) -> String {
        let size = if self.size == LARGE { "1 MB" } else { "100 B" };
        let era = match self.era {
            Era::Legacy => "",
            Era::Modern => ", modern",
        };
        match (way, self.clients) {
            (Route::StdioToStdio, in_flight) => format!("{in_flight} in flight"),
            (Route::HttpToHttp | Route::HttpToStdio, 1) => format!("1 client, {size}{era}"),
            (Route::HttpToHttp | Route::HttpToStdio, clients) => {
                format!("{clients} clients, {size}{era}")
            }
        }
    }
}

fn costs(part: &Part) -> String {
    let questions = LoadCase::for_route(part.route);
    let mut header = vec!["gateway".to_owned()];
    header.extend(questions.iter().map(|it| it.title(part.route)));
    header.push("MB in use".to_owned());
    let row = |row: &Row| {
        let mut cells = vec![row.gateway.label().to_owned()];
        cells.extend((0..questions.len()).map(|place| match row.cost(place) {
            Some(cost) => cell(&cost),
            None => "–".to_owned(),
        }));
        let last = (0..questions.len()).rev().find_map(|place| row.cost(place));
        cells.push(last.map_or("–".to_owned(), |it| megabytes(it.memory_megabytes)));
        cells
    };
    let rows: Vec<Vec<String>> = part.rows.iter().map(row).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table::markdown(&header, &[], &rows)
}

fn cell(cost: &GatewayCost) -> String {
    let [p50, rate, processor] =
        [cost.p50, cost.calls_per_second, cost.cpu_per_call].map(thousands);
    format!("{p50} / {rate} / {processor}")
}

/// How many times as many calls per second ours makes as another, at least.
struct Budget {
    other: GatewayKind,
    question: LoadCase,
    least: f64,
}

fn budgets(way: Route) -> Vec<Budget> {
    let budget = |other, question, least| Budget { other, question, least };
    let small = LoadCase::small;
    match way {
        Route::HttpToHttp => {
            let clients = [1, 8, 64];
            let proxy = clients.map(|it| budget(GatewayKind::BareProxy, small(it), 0.8));
            let rmcp = clients.map(|it| budget(GatewayKind::Rmcp, small(it), 5.0));
            proxy.into_iter().chain(rmcp).collect()
        }
        Route::HttpToStdio => {
            let scripts = [
                GatewayKind::McpProxy,
                GatewayKind::Supergateway,
                GatewayKind::FastMcpReused,
                GatewayKind::FastMcpDefault,
            ];
            let others = [(GatewayKind::Rmcp, 3.0)].into_iter().chain(scripts.map(|it| (it, 30.0)));
            let both = others.flat_map(|(other, least)| {
                [1, 8].map(|clients| budget(other, small(clients), least))
            });
            both.collect()
        }
        Route::StdioToStdio => vec![budget(GatewayKind::Rmcp, small(IN_FLIGHT), 3.0)],
    }
}

impl Budget {
    fn row(&self, part: &Part) -> Vec<String> {
        let place = LoadCase::for_route(part.route).iter().position(|it| *it == self.question);
        let of = |who: GatewayKind| part.rows.iter().find(|row| row.gateway == who)?.cost(place?);
        let ratio = of(GatewayKind::Ours)
            .zip(of(self.other))
            .map(|(ours, other)| ours.calls_per_second / other.calls_per_second);
        let what =
            format!("calls/s, next to {}: {}", self.other.label(), self.question.title(part.route));
        let measured = ratio.map_or("–".to_owned(), |it| format!("{}×", two_digits(it)));
        let met = verdict(ratio.map(|it| it >= self.least));
        vec![what, format!("≥ {}×", self.least), measured, met.to_owned()]
    }
}

fn verdict(is_met: Option<bool>) -> &'static str {
    match is_met {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => "unknown: not measured",
    }
}

fn memory_section(memory: &[GatewayMemory]) -> (String, Vec<Vec<String>>) {
    let figure = |it: Option<f64>| it.map_or("–".to_owned(), megabytes);
    let row = |it: &GatewayMemory| {
        let mut cells = vec![it.gateway.label().to_owned()];
        cells
            .extend((0..CALL_COUNTS.len()).map(|place| figure(it.after_calls.get(place).copied())));
        let idle = it.idle.as_ref();
        cells.push(figure(idle.map(|it| it.base)));
        cells.push(figure(idle.map(|it| it.without_streams)));
        cells.push(figure(idle.map(|it| it.with_streams)));
        cells
    };
    let rows: Vec<Vec<String>> = memory.iter().map(row).collect();
    let mut header = vec!["MB in use".to_owned()];
    header.extend(CALL_COUNTS.map(|it| format!("after {} calls", thousands(it as f64))));
    header.push("idle, one session".to_owned());
    header.push(format!("{} more", thousands(SESSIONS as f64)));
    header.push(format!("{} more, each with a stream", thousands(SESSIONS as f64)));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let ours = memory.iter().find(|it| it.gateway == GatewayKind::Ours);
    let calls = ours.map(|it| &it.after_calls);
    let left = calls.and_then(|it| Some(it.last()? - it.first()?));
    let idle = ours.and_then(|it| it.idle.as_ref());
    let budget = |what: String, limit: f64, measured: Option<f64>| {
        let met = verdict(measured.map(|it| it <= limit)).to_owned();
        vec![what, format!("≤ {limit} MB"), figure(measured), met]
    };
    let sessions = thousands(SESSIONS as f64);
    let calls = CALL_COUNTS.map(|it| thousands(it as f64));
    let budgets = vec![
        budget(
            format!("{} calls leave behind, after {}", calls[3], calls[0]),
            MEMORY_GROWTH_BUDGET,
            left,
        ),
        budget(
            format!("{sessions} idle sessions"),
            IDLE_MEMORY_BUDGET,
            idle.map(|it| it.without_streams),
        ),
        budget(
            format!("{sessions} idle sessions, each with a stream"),
            IDLE_MEMORY_BUDGET,
            idle.map(|it| it.with_streams),
        ),
    ];
    let text = format!(
        "
## Memory

Resident memory while idle, HTTP to HTTP. {CALLERS} clients make the calls. The idle sessions are legacy sessions, opened over one
connection, or each over a connection that then keeps the session's stream open; they are added to one client that has made 1,000
calls. Allocators return freed memory to the system at different times, so a gateway may use less than is resident.

{}
{}",
        table::markdown(&header, &[], &rows),
        table::markdown(&HEADER, &[3], &budgets),
    );
    (text, budgets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(who: GatewayKind, way: Route, calls_per_second: f64) -> Row {
        let cost =
            GatewayCost { p50: 1.0, calls_per_second, cpu_per_call: 1.0, memory_megabytes: 1.0 };
        let costs = LoadCase::for_route(way).iter().map(|_| vec![cost]).collect();
        Row { gateway: who, costs, failure: None }
    }

    #[track_caller]
    fn check(ours: f64, expected: [&str; 3]) {
        let way = Route::HttpToHttp;
        let rows = vec![row(GatewayKind::Ours, way, ours), row(GatewayKind::BareProxy, way, 100.0)];
        let budget =
            Budget { other: GatewayKind::BareProxy, question: LoadCase::small(8), least: 0.8 };
        assert_eq!(budget.row(&Part { route: way, rows })[1..], expected);
    }

    #[test]
    fn a_budget_is_met_at_its_limit_and_missed_below() {
        check(80.0, ["≥ 0.8×", "0.80×", "met"]);
        check(79.0, ["≥ 0.8×", "0.79×", "**missed**"]);
    }

    #[test]
    fn a_gateway_that_was_not_measured_meets_no_budget() {
        let way = Route::HttpToStdio;
        let part = Part { route: way, rows: vec![row(GatewayKind::Ours, way, 1.0)] };
        for budget in budgets(way) {
            assert_eq!(budget.row(&part)[2..], ["–", "unknown: not measured"]);
        }
    }

    #[test]
    fn every_budget_refers_to_a_measured_load() {
        for way in [Route::HttpToHttp, Route::HttpToStdio, Route::StdioToStdio] {
            for budget in budgets(way) {
                assert!(LoadCase::for_route(way).contains(&budget.question));
                assert!(GatewayKind::on_route(way).contains(&budget.other));
            }
        }
    }

    #[test]
    fn failed_measurements_are_listed() {
        let way = Route::HttpToStdio;
        let mut silent = Row::new(GatewayKind::McpProxy, LoadCase::for_route(way).len());
        silent.failure = Some("it did not start".to_owned());
        let parts = [Part { route: way, rows: vec![row(GatewayKind::Ours, way, 1.0), silent] }];
        let page = draw(&parts, &[], Extent::Part).text;
        assert!(page.contains("mcp-proxy 0.13.0: could not be measured to the end: it did not"));
    }
}

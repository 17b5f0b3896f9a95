//! The cost of relaying calls: Switchboard next to no gateway, a proxy that only forwards bytes, and third-party
//! gateways. This file selects the requests and collects the costs; `contender` starts the gateways and `load` sends
//! the calls.

pub mod bare_proxy;

pub(crate) mod contender;
pub(crate) mod load;
mod memory;
mod page;
pub(crate) mod third_party;

use std::ffi::OsString;

use crate::child_server::ListeningServer;
use crate::effort;
use crate::failure::Failure;
use crate::output::report::{Extent, Report};
use crate::workspace::Workspace;
use contender::{GatewayKind, Gateways, Route, RunningGateway};
use load::{Era, GatewayCost, HttpClients, StdioClient};
use memory::GatewayMemory;

/// The word that makes this program the load alone.
pub const LOAD_SUBCOMMAND: &str = "__load";

const REPETITIONS: usize = 5;
const SMALL: usize = 100;
const LARGE: usize = 1_000_000;
/// How many calls are under way over standard streams.
const IN_FLIGHT: usize = 64;

/// What everybody on one way is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoadCase {
    clients: usize,
    size: usize,
    era: Era,
}

impl LoadCase {
    const fn small(clients: usize) -> LoadCase {
        LoadCase { clients, size: SMALL, era: Era::Legacy }
    }

    const MODERN: LoadCase = LoadCase { clients: 8, size: SMALL, era: Era::Modern };
    const LARGE: LoadCase = LoadCase { clients: 8, size: LARGE, era: Era::Legacy };

    /// The questions of one way, in the order of its table.
    fn for_route(way: Route) -> Vec<LoadCase> {
        let small = LoadCase::small;
        match way {
            Route::HttpToHttp => {
                vec![small(1), small(8), small(64), LoadCase::MODERN, LoadCase::LARGE]
            }
            Route::HttpToStdio => vec![small(1), small(8), LoadCase::LARGE],
            Route::StdioToStdio => vec![small(1), small(IN_FLIGHT)],
        }
    }
}

/// One contender on one way, and what each question cost it.
struct Row {
    gateway: GatewayKind,
    costs: Vec<Vec<GatewayCost>>,
    /// Why it has no figures, or not all.
    failure: Option<String>,
}

impl Row {
    fn new(gateway: GatewayKind, questions: usize) -> Row {
        Row { gateway, costs: vec![Vec::new(); questions], failure: None }
    }

    /// The median cost of a question, by its place.
    fn cost(&self, question: usize) -> Option<GatewayCost> {
        GatewayCost::median(self.costs.get(question)?)
    }

    /// Keeps a cost. What other people's gateways fail at is told in the table, and stops nothing.
    fn add_cost(
        &mut self,
        question: usize,
        cost: Result<GatewayCost, Failure>,
    ) -> Result<(), Failure> {
        match cost {
            Ok(cost) => self.costs[question].push(cost),
            Err(failure) if self.gateway.is_third_party() => self.record_failure(&failure),
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    fn record_failure(&mut self, failure: &Failure) {
        failure.print();
        self.failure = Some(failure.to_string());
    }
}

/// Everything that was measured on one way.
struct Part {
    route: Route,
    rows: Vec<Row>,
}

/// Measures all of it, or the part that is named.
pub fn run(workspace: &Workspace, words: &[OsString]) -> Result<Report, Failure> {
    let (ways, has_memory): (&[Route], bool) = match words {
        [] => (&[Route::HttpToHttp, Route::HttpToStdio, Route::StdioToStdio], true),
        [one] if one == "http" => (&[Route::HttpToHttp], false),
        [one] if one == "stdio" => (&[Route::HttpToStdio, Route::StdioToStdio], false),
        [one] if one == "memory" => (&[], true),
        [other, ..] => return Err(Failure::UnknownArgument(other.to_string_lossy().into_owned())),
    };
    let gateways = Gateways {
        swb: workspace.swb()?,
        third_party: third_party::prepare(workspace)?,
        search_path: workspace.search_path.clone(),
    };
    let mut parts = Vec::new();
    for way in ways {
        let rows = match way {
            Route::HttpToHttp | Route::HttpToStdio => over_http(&gateways, *way)?,
            Route::StdioToStdio => over_stdio(&gateways)?,
        };
        parts.push(Part { route: *way, rows });
    }
    let memory: Vec<GatewayMemory> =
        if has_memory { memory::measure(&gateways)? } else { Vec::new() };
    let extent = if words.is_empty() { Extent::Whole } else { Extent::Part };
    Ok(page::draw(&parts, &memory, extent))
}

/// Has this number of clients make calls to a running gateway, for profiling it meanwhile: `URL PROCESS CLIENTS
/// SECONDS`.
pub fn load_only(words: &[OsString]) -> Result<(), Failure> {
    let words: Vec<_> = words.iter().map(|it| it.to_string_lossy()).collect();
    let [address, process, clients, seconds] = words.as_slice() else {
        return Err(Failure::InvalidArguments);
    };
    let number = |word: &str| word.parse::<u32>().map_err(|_| Failure::InvalidArguments);
    let (process, clients, seconds) = (number(process)?, number(clients)?, number(seconds)?);
    let mut http_clients = HttpClients::connect(address, clients as usize, Era::Legacy)?;
    // Each measurement takes two seconds.
    for _ in 0..seconds.div_ceil(2) {
        println!("{:?}", http_clients.measure(SMALL, process)?);
    }
    http_clients.end_sessions();
    Ok(())
}

/// Asks all by turns, so that a noisy minute is noisy for all of them.
fn over_http(gateways: &Gateways, way: Route) -> Result<Vec<Row>, Failure> {
    let questions = LoadCase::for_route(way);
    let echo = match way {
        Route::HttpToHttp => Some(ListeningServer::start_echo("http")?),
        Route::HttpToStdio | Route::StdioToStdio => None,
    };
    let upstream_url = echo.as_ref().map(|it| it.address.as_str());
    let mut rows: Vec<(Row, Option<RunningGateway>)> = Vec::new();
    for who in GatewayKind::on_route(way) {
        let mut row = Row::new(*who, questions.len());
        let running = match gateways.start(*who, upstream_url) {
            Ok(running) => Some(running),
            Err(failure) if who.is_third_party() => {
                row.record_failure(&failure);
                None
            }
            Err(failure) => return Err(failure),
        };
        rows.push((row, running));
    }
    for repetition in 1..=effort::repetitions(REPETITIONS) {
        eprintln!("measuring {way:?}, repetition {repetition} of {REPETITIONS}");
        for (place, question) in questions.iter().enumerate() {
            for (row, running) in &mut rows {
                let Some(running) = running.as_ref().filter(|_| row.failure.is_none()) else {
                    continue;
                };
                let cost = measure_case(running, question);
                row.add_cost(place, cost)?;
            }
        }
    }
    Ok(rows.into_iter().map(|(row, _)| row).collect())
}

fn measure_case(running: &RunningGateway, question: &LoadCase) -> Result<GatewayCost, Failure> {
    let mut http_clients = HttpClients::connect(running.address(), question.clients, question.era)?;
    let cost = http_clients.measure(question.size, running.pid());
    http_clients.end_sessions();
    cost
}

/// Each contender is started anew for each repetition, as its client starts it.
fn over_stdio(gateways: &Gateways) -> Result<Vec<Row>, Failure> {
    let questions = LoadCase::for_route(Route::StdioToStdio);
    let gateway_kinds = GatewayKind::on_route(Route::StdioToStdio).iter();
    let mut rows: Vec<Row> = gateway_kinds.map(|who| Row::new(*who, questions.len())).collect();
    for repetition in 1..=effort::repetitions(REPETITIONS) {
        eprintln!("measuring {:?}, repetition {repetition} of {REPETITIONS}", Route::StdioToStdio);
        for (place, question) in questions.iter().enumerate() {
            for row in rows.iter_mut().filter(|row| row.failure.is_none()) {
                let cost = gateways.stdio_command(row.gateway).and_then(|(command, _home)| {
                    StdioClient::start(command)?.measure(question.size, question.clients)
                });
                row.add_cost(place, cost)?;
            }
        }
    }
    Ok(rows)
}

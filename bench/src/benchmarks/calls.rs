//! What one `tools/call` costs: ours next to floors, to what one would write by hand, and to the official SDKs.
//! Every client is a process of its own and is asked the same; this file decides what, and draws the page.

pub mod client;
pub mod sdk_clients;

pub(crate) mod baseline;
mod hand_written;
mod load_request;
mod page;
pub(crate) mod placement;
mod switchboard_client;

use std::ffi::OsString;
use std::process::Command;

use crate::child_server::ListeningServer;
use crate::effort;
use crate::failure::{self, Failure};
use crate::output::report::{Extent, Report};
use crate::workspace::Workspace;
use client::{Client, Pace};
use load_request::{CallCost, LoadRequest, Transport};
use placement::Placement;

const REPETITIONS: usize = 5;
const SIZES: [usize; 3] = [SMALL, MEDIUM, LARGE];
const SMALL: usize = 100;
const MEDIUM: usize = 10_000;
const LARGE: usize = 1_000_000;
const MAX_IN_FLIGHT: usize = 64;

/// How calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallMode {
    /// One after the other, client and server on one core.
    OneCore,
    /// One after the other, client and server wherever they happen to run.
    AnyCore,
    /// Many at a time, client and server wherever they happen to run.
    InFlight,
}

const CALL_MODES: [CallMode; 3] = [CallMode::OneCore, CallMode::AnyCore, CallMode::InFlight];

impl CallMode {
    fn in_flight(self) -> usize {
        match self {
            CallMode::OneCore | CallMode::AnyCore => 1,
            CallMode::InFlight => MAX_IN_FLIGHT,
        }
    }

    fn placement(self) -> Placement {
        match self {
            CallMode::OneCore => Placement::OneCore,
            CallMode::AnyCore | CallMode::InFlight => Placement::AnyCore,
        }
    }
}

/// One client over one transport, and what each of its questions cost, by size and by way.
struct Row {
    client: Client,
    costs: [[Vec<CallCost>; CALL_MODES.len()]; SIZES.len()],
}

/// Measures both transports, or the one that is named.
pub fn run(workspace: &Workspace, words: &[OsString]) -> Result<Report, Failure> {
    let wanted: Vec<Transport> = match words {
        [] => vec![Transport::Stdio, Transport::Http],
        [one] if one == "stdio" => vec![Transport::Stdio],
        [one] if one == "http" => vec![Transport::Http],
        [other, ..] => return Err(Failure::UnknownArgument(other.to_string_lossy().into_owned())),
    };
    let extent = if words.is_empty() { Extent::Whole } else { Extent::Part };
    let rivals = sdk_clients::prepare(workspace)?;
    let mut parts = Vec::new();
    for transport in wanted {
        let clients = client::all(&rivals)?;
        parts.push((transport, measure(clients, transport)?));
    }
    Ok(page::draw(&parts, extent))
}

/// Asks all clients by turns, so that a noisy minute is noisy for all of them.
fn measure(clients: Vec<Client>, transport: Transport) -> Result<Vec<Row>, Failure> {
    let on_one_core = Placement::OneCore.during(|| Targets::start(transport))?;
    let anywhere = Targets::start(transport)?;
    let mut rows: Vec<Row> =
        clients.into_iter().map(|client| Row { client, costs: Default::default() }).collect();
    let repetitions = effort::repetitions(REPETITIONS);
    for repetition in 1..=repetitions {
        eprintln!("measuring {transport:?}, repetition {repetition} of {repetitions}");
        for (size, size_index) in SIZES.into_iter().zip(0..) {
            for (mode, way_index) in CALL_MODES.into_iter().zip(0..) {
                let targets = match mode.placement() {
                    Placement::OneCore => &on_one_core,
                    Placement::AnyCore => &anywhere,
                };
                for row in &mut rows {
                    let calls =
                        effort::scaled(row.client.pace.calls(size, transport)).max(MAX_IN_FLIGHT);
                    let (target, in_flight) = (targets.for_client(&row.client), mode.in_flight());
                    let question = LoadRequest { transport, size, calls, in_flight, target };
                    let cost = mode.placement().during(|| run_client(&row.client, &question))?;
                    row.costs[size_index][way_index].push(cost);
                }
            }
        }
    }
    Ok(rows)
}

fn run_client(client: &Client, question: &LoadRequest) -> Result<CallCost, Failure> {
    let (program, words) = client.command.split_first().ok_or(Failure::InvalidRequest)?;
    let mut command = Command::new(program);
    let stdout = failure::output(command.args(words).args(question.to_arguments()))?;
    CallCost::parse(stdout.trim())
}

impl Row {
    /// The median cost of this question.
    fn cost(&self, size: usize, mode: CallMode) -> Option<CallCost> {
        let size = SIZES.iter().position(|it| *it == size)?;
        let mode = CALL_MODES.iter().position(|it| *it == mode)?;
        CallCost::median(&self.costs[size][mode])
    }
}

/// What clients are pointed at: a command to start, or servers that listen.
enum Targets {
    Commands { bare: Vec<OsString>, echo: Vec<OsString> },
    Listening { bare: ListeningServer, echo: ListeningServer },
}

impl Targets {
    fn start(transport: Transport) -> Result<Targets, Failure> {
        Ok(match transport {
            Transport::Stdio => Targets::Commands {
                bare: crate::child_server::echo_command("pipe")?.to_vec(),
                echo: crate::child_server::echo_command("stdio")?.to_vec(),
            },
            Transport::Http => Targets::Listening {
                bare: ListeningServer::start_echo("tcp")?,
                echo: ListeningServer::start_echo("http")?,
            },
        })
    }

    /// The floor talks to a server without a protocol.
    fn for_client(&self, client: &Client) -> Vec<OsString> {
        let is_bare = client.kind == client::ClientKind::Baseline;
        match self {
            Targets::Commands { bare, echo } => if is_bare { bare } else { echo }.clone(),
            Targets::Listening { bare, echo } => {
                vec![OsString::from(&if is_bare { bare } else { echo }.address)]
            }
        }
    }
}

impl Pace {
    /// How many calls give a steady figure without a long wait.
    fn calls(self, size: usize, transport: Transport) -> usize {
        let calls = match (self, size) {
            (Pace::Native, SMALL) => 20_000,
            (Pace::Native, MEDIUM) => 10_000,
            (Pace::Native, _) => 300,
            (Pace::Sdk, SMALL) => 6_000,
            (Pace::Sdk, MEDIUM) => 4_000,
            (Pace::Sdk, _) => 128,
            (Pace::Script, SMALL) => 2_500,
            (Pace::Script, MEDIUM) => 2_000,
            (Pace::Script, _) => 64,
        };
        match transport {
            Transport::Stdio => calls,
            Transport::Http => (calls / 2).max(MAX_IN_FLIGHT),
        }
    }
}

//! What one call costs through our own peer, inside one process: no program on the other side to hide behind.

use std::time::{Duration, Instant};

use bytes::Bytes;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{Peer, PeerEvent, SpawnedPeer};
use switchboard_wire::transport::in_memory;
use switchboard_wire::transport::stdio::{DEFAULT_MAX_MESSAGE_SIZE, StdioTransport};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use crate::effort;
use crate::failure::Failure;
use crate::machine;
use crate::output::plot::{Bars, Role, Series};
use crate::output::report::{Extent, Picture, Report};
use crate::output::table;
use crate::workspace::Workspace;

const REPETITIONS: usize = 7;
const CALLS: u32 = 50_000;
const IN_FLIGHT: u32 = 64;
const BUDGET: Duration = Duration::from_nanos(1500);

/// Measures.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::file(&workspace.report_path("wire.md"), error))?;
    let mut floor = Vec::new();
    let mut in_memory = Vec::new();
    let mut over_bytes = Vec::new();
    for _ in 0..effort::repetitions(REPETITIONS) {
        floor.push(measure_channels(&runtime));
        in_memory.push(measure_peers(&runtime, || {
            let (one, other) = in_memory::pair();
            (Peer::spawn(one), Peer::spawn(other))
        }));
        over_bytes.push(measure_peers(&runtime, || {
            let (one, other) = tokio::io::duplex(64 * 1024);
            (peer_over_stream(one), peer_over_stream(other))
        }));
    }
    Ok(report([median(floor), median(in_memory), median(over_bytes)]))
}

/// What one repetition took a call: one after the other, and with many in flight.
#[derive(Debug, Clone, Copy)]
struct RoundTripCost {
    alone: Duration,
    in_flight: Duration,
}

/// A peer over a stream of bytes.
pub fn peer_over_stream(stream: tokio::io::DuplexStream) -> SpawnedPeer {
    let (reader, writer) = tokio::io::split(stream);
    Peer::spawn(StdioTransport::new(reader, writer, DEFAULT_MAX_MESSAGE_SIZE))
}

/// About a hundred bytes of parameters.
pub fn params() -> Payload {
    let text = format!("{{\"name\":\"echo\",\"arguments\":{{\"x\":\"{}\"}}}}", "x".repeat(60));
    Payload::from_json(Bytes::from(text))
}

/// Two peers, one of which answers with what it was asked.
fn measure_peers(
    runtime: &Runtime,
    connect: impl Fn() -> (SpawnedPeer, SpawnedPeer),
) -> RoundTripCost {
    runtime.block_on(async {
        let (one, other) = connect();
        let listener = tokio::spawn(echo(other.events));
        let peer = one.peer;
        let start = Instant::now();
        for _ in 0..CALLS {
            let answer = peer.call("tools/call").params(params()).await;
            answer.expect("the other peer answers everything");
        }
        let alone = start.elapsed() / CALLS;
        let start = Instant::now();
        let callers = (0..IN_FLIGHT).map(|_| {
            let peer = peer.clone();
            tokio::spawn(async move {
                for _ in 0..CALLS / IN_FLIGHT {
                    let answer = peer.call("tools/call").params(params()).await;
                    answer.expect("the other peer answers everything");
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("a caller does not panic");
        }
        let in_flight = start.elapsed() / (CALLS / IN_FLIGHT * IN_FLIGHT);
        drop((peer, other.peer));
        listener.await.expect("the listener ends with its connection");
        RoundTripCost { alone, in_flight }
    })
}

/// Answers every request with what was asked.
pub async fn echo(mut events: mpsc::Receiver<PeerEvent>) {
    while let Some(PeerEvent::Request(request)) = events.recv().await {
        let answer = request.params.clone().unwrap_or_else(params);
        request.respond(answer).await;
    }
}

type ChannelRequest = (Payload, oneshot::Sender<Payload>);

/// Asks over a bare channel and waits for the answer.
async fn round_trip(ask: &mpsc::Sender<ChannelRequest>) {
    let (answer, answered) = oneshot::channel();
    ask.send((params(), answer)).await.expect("the listener listens");
    answered.await.expect("the listener answers");
}

/// The floor: a question and an answer over bare channels, with nothing in between.
fn measure_channels(runtime: &Runtime) -> RoundTripCost {
    runtime.block_on(async {
        let (ask, mut asked) = mpsc::channel::<ChannelRequest>(256);
        let listener = tokio::spawn(async move {
            while let Some((question, answer)) = asked.recv().await {
                let _caller_left = answer.send(question);
            }
        });
        let start = Instant::now();
        for _ in 0..CALLS {
            round_trip(&ask).await;
        }
        let alone = start.elapsed() / CALLS;
        let start = Instant::now();
        let callers = (0..IN_FLIGHT).map(|_| {
            let ask = ask.clone();
            tokio::spawn(async move {
                for _ in 0..CALLS / IN_FLIGHT {
                    round_trip(&ask).await;
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("a caller does not panic");
        }
        let in_flight = start.elapsed() / (CALLS / IN_FLIGHT * IN_FLIGHT);
        drop(ask);
        listener.await.expect("the listener ends with its channel");
        RoundTripCost { alone, in_flight }
    })
}

fn median(mut costs: Vec<RoundTripCost>) -> RoundTripCost {
    let mut median_part = |part: fn(&RoundTripCost) -> Duration| {
        costs.sort_by_key(part);
        part(&costs[costs.len() / 2])
    };
    RoundTripCost {
        alone: median_part(|cost| cost.alone),
        in_flight: median_part(|cost| cost.in_flight),
    }
}

const NAMES: [&str; 3] = [
    "floor: two bare channels",
    "two peers, messages passed as values",
    "two peers, messages as bytes",
];

fn report(costs: [RoundTripCost; 3]) -> Report {
    let [floor, in_memory, _] = &costs;
    let row = |(name, cost): (&str, &RoundTripCost)| {
        vec![
            name.to_owned(),
            format!("{:.2}", cost.alone.as_secs_f64() * 1e6),
            format!("{:.0}", 1.0 / cost.in_flight.as_secs_f64()),
            format!("{:.1}", cost.alone.as_secs_f64() / floor.alone.as_secs_f64()),
        ]
    };
    let rows: Vec<_> = NAMES.into_iter().zip(&costs).map(row).collect();
    let header = ["", "µs a call", "calls/s, 64 in flight", "× floor"];
    let verdict = if in_memory.alone <= BUDGET { "met" } else { "**missed**" };
    let picture = picture(&costs);
    let text = format!(
        "# A call inside one process\n\n\
         Written by `cargo xtask bench wire`. Machine: {}.\n\
         Medians of {REPETITIONS} interleaved repetitions of {CALLS} calls with 100 bytes of parameters, on one thread; the\n\
         other peer returns its parameters.\n\n{}\n{}\n\
         Budget: a call in one process, payload raw, in at most 1.5 µs: {verdict}.\n",
        machine::describe(),
        table::markdown(&header, &[], &rows),
        picture.link(),
    );
    let budget = vec![
        "a call in one process, payload raw".to_owned(),
        format!("≤ {:.1} µs", BUDGET.as_secs_f64() * 1e6),
        format!("{:.2} µs", in_memory.alone.as_secs_f64() * 1e6),
        verdict.to_owned(),
    ];
    let (pictures, budgets) = (vec![picture], vec![budget]);
    Report { name: "wire", text, pictures, budgets, extent: Extent::Whole }
}

fn picture(costs: &[RoundTripCost; 3]) -> Picture {
    let title = "A call inside one process";
    let figures = |part: fn(&RoundTripCost) -> Duration| {
        costs.iter().map(|it| Some(part(it).as_secs_f64() * 1e6)).collect()
    };
    let series = vec![
        Series::new("one after the other", Role::Ours, figures(|it| it.alone)),
        Series::new("64 in flight", Role::Other, figures(|it| it.in_flight)),
    ];
    let groups = NAMES.map(str::to_owned).to_vec();
    Picture::new("wire", title, Bars { title, x_axis: "µs a call", groups, series }.draw())
}

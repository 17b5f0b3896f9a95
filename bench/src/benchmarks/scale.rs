//! Replicas of the gateway behind HAProxy, with a store, next to one replica without: what sharing costs, what happens to
//! calls when the store or a replica is killed, and the size of a fleet that these figures give. `fleet` starts the
//! programs, `page` writes the page.

mod fleet;
mod page;

use std::io;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::benchmarks::gateway::load::{Era, HttpClient};
use crate::effort;
use crate::failure::Failure;
use crate::output::report::Report;
use crate::process_cost;
use crate::workspace::Workspace;
use fleet::{Fleet, Setup};

const CLIENTS: usize = 16;
const SIZE: usize = 100;
const REPETITIONS: usize = 3;
const MEASURE_TIME: Duration = Duration::from_secs(3);
const WARM_UP_TIME: Duration = Duration::from_secs(1);
/// The length of each part of the run in which the store is killed.
const STORE_PHASE: Duration = Duration::from_secs(2);
const KILLED_REPLICAS: usize = 5;
/// Idle sessions whose memory is measured.
const IDLE_SESSIONS: usize = 2000;
/// A client that has lost its connection tries again after this.
const RETRY_DELAY: Duration = Duration::from_millis(10);

/// The calls of one setup and era.
#[derive(Debug, Clone, Copy)]
struct Rate {
    calls_per_second: f64,
    p50: f64,
    p99: f64,
    /// Processor time of all replicas, in microseconds.
    cpu_per_call: f64,
}

/// What became of calls while the store was killed and restarted.
#[derive(Debug, Clone, Copy, Default)]
struct StoreKilled {
    answered: usize,
    failed: usize,
    /// As the replicas count them.
    executed: f64,
    worst: f64,
}

/// The memory of a session.
#[derive(Debug, Clone, Copy)]
struct SessionMemory {
    replica_bytes: f64,
    store_bytes: f64,
}

/// All figures of the page.
struct Figures {
    /// By setup and era.
    rates: Vec<(Setup, Era, Option<Rate>)>,
    store_killed: StoreKilled,
    /// In milliseconds, sorted.
    resumed: Vec<f64>,
    memory: SessionMemory,
}

fn load_error(error: io::Error) -> Failure {
    Failure::client("load", error)
}

/// Measures all of it.
pub fn run(workspace: &Workspace) -> Result<Report, Failure> {
    let mut all: Vec<(Setup, Era, Vec<Rate>)> = Vec::new();
    for repetition in 0..effort::repetitions(REPETITIONS) {
        for setup in Setup::ALL {
            for era in [Era::Legacy, Era::Modern] {
                eprintln!("measuring {}, {era:?}, run {}", setup.label(), repetition + 1);
                let fleet = Fleet::start(workspace, setup)?;
                let rate = rate(&fleet, era)?;
                match all.iter_mut().find(|it| it.0 == setup && it.1 == era) {
                    Some(known) => known.2.push(rate),
                    None => all.push((setup, era, vec![rate])),
                }
            }
        }
    }
    let rates = all.into_iter().map(|(setup, era, rates)| (setup, era, Rate::median(&rates)));
    eprintln!("killing the store");
    let store_killed = kill_store(&mut Fleet::start(workspace, Setup::TwoWithStore)?)?;
    eprintln!("killing replicas");
    let mut resumed = Vec::new();
    for _ in 0..effort::repetitions(KILLED_REPLICAS) {
        resumed.push(kill_replica(&mut Fleet::start(workspace, Setup::TwoWithStore)?)?);
    }
    resumed.sort_by(f64::total_cmp);
    eprintln!("beginning {IDLE_SESSIONS} sessions");
    let memory = session_memory(&Fleet::start(workspace, Setup::TwoWithStore)?)?;
    let figures = Figures { rates: rates.collect(), store_killed, resumed, memory };
    Ok(page::draw(&figures))
}

impl Rate {
    fn median(rates: &[Rate]) -> Option<Rate> {
        let middle = |part: fn(&Rate) -> f64| process_cost::median_of(rates, part);
        Some(Rate {
            calls_per_second: middle(|it| it.calls_per_second)?,
            p50: middle(|it| it.p50)?,
            p99: middle(|it| it.p99)?,
            cpu_per_call: middle(|it| it.cpu_per_call)?,
        })
    }
}

/// Has clients make calls for a time, and says how long each took, in microseconds.
async fn calls(address: &str, era: Era, duration: Duration) -> io::Result<Vec<f64>> {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let mut client = HttpClient::open(address, era).await?;
        clients.spawn(async move {
            let end = Instant::now() + duration;
            let mut times = Vec::new();
            while Instant::now() < end {
                times.push(client.call(SIZE).await?.as_secs_f64() * 1e6);
            }
            let _gone_already = client.end_session().await;
            Ok::<_, io::Error>(times)
        });
    }
    let mut all = Vec::new();
    while let Some(times) = clients.join_next().await {
        all.extend(times.map_err(io::Error::other)??);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

fn rate(fleet: &Fleet, era: Era) -> Result<Rate, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(load_error)?;
    runtime.block_on(calls(&fleet.address, era, WARM_UP_TIME)).map_err(load_error)?;
    let before = fleet.cpu_time()?;
    let start = Instant::now();
    let times = runtime.block_on(calls(&fleet.address, era, MEASURE_TIME)).map_err(load_error)?;
    let (wall, cpu) = (start.elapsed(), fleet.cpu_time()?.saturating_sub(before));
    let at =
        |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    Ok(Rate {
        calls_per_second: times.len() as f64 / wall.as_secs_f64(),
        p50: at(0.5),
        p99: at(0.99),
        cpu_per_call: cpu.as_secs_f64() * 1e6 / times.len().max(1) as f64,
    })
}

/// Makes calls in both eras while the store is killed and restarted.
fn kill_store(fleet: &mut Fleet) -> Result<StoreKilled, Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(load_error)?;
    let address = fleet.address.clone();
    let before = fleet.executed_calls()?;
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (address, stopped) = (address.clone(), stopped.clone());
        let era = if number % 2 == 0 { Era::Legacy } else { Era::Modern };
        let mut client = runtime.block_on(HttpClient::open(&address, era)).map_err(load_error)?;
        // Both replicas have seen each session.
        for _ in 0..4 {
            runtime.block_on(client.call(SIZE)).map_err(load_error)?;
        }
        clients.spawn_on(
            async move {
                let mut result = StoreKilled { answered: 4, ..StoreKilled::default() };
                while !*stopped.borrow() {
                    match client.call(SIZE).await {
                        Ok(time) => {
                            result.answered += 1;
                            result.worst = result.worst.max(time.as_secs_f64() * 1e3);
                        }
                        Err(_) => {
                            result.failed += 1;
                            sleep(RETRY_DELAY).await;
                            let _fails_again = client.reconnect(&address).await;
                        }
                    }
                }
                result
            },
            runtime.handle(),
        );
    }
    std::thread::sleep(STORE_PHASE);
    fleet.store.kill();
    std::thread::sleep(STORE_PHASE);
    fleet.store.start()?;
    std::thread::sleep(STORE_PHASE);
    let _all_watch = stop.send(true);
    let mut total = StoreKilled::default();
    while let Some(result) = runtime.block_on(clients.join_next()) {
        let result = result.map_err(|error| load_error(io::Error::other(error)))?;
        total.answered += result.answered;
        total.failed += result.failed;
        total.worst = total.worst.max(result.worst);
    }
    total.executed = fleet.executed_calls()? - before;
    Ok(total)
}

/// Kills the owner of a session, and says after how many milliseconds the next call in it succeeds.
fn kill_replica(fleet: &mut Fleet) -> Result<f64, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(load_error)?;
    let (owner, balancer) = (fleet.replicas[0].address.clone(), fleet.address.clone());
    let mut client = runtime.block_on(HttpClient::open(&owner, Era::Legacy)).map_err(load_error)?;
    runtime.block_on(client.reconnect(&balancer)).map_err(load_error)?;
    for _ in 0..4 {
        runtime.block_on(client.call(SIZE)).map_err(load_error)?;
    }
    fleet.replicas.remove(0);
    let start = Instant::now();
    runtime.block_on(async {
        while client.call(SIZE).await.is_err() {
            sleep(RETRY_DELAY).await;
            let _fails_again = client.reconnect(&balancer).await;
        }
    });
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// What idle sessions hold in memory, in their replica and in the store.
fn session_memory(fleet: &Fleet) -> Result<SessionMemory, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build().map_err(load_error)?;
    let sessions = effort::scaled(IDLE_SESSIONS);
    let address = &fleet.replicas[0].address;
    let mut client =
        runtime.block_on(HttpClient::open(address, Era::Legacy)).map_err(load_error)?;
    let (replica, store) = (fleet.replica_megabytes()?, fleet.store.used_bytes()?);
    runtime.block_on(async {
        for _ in 0..sessions {
            client.initialize().await.map_err(load_error)?;
        }
        Ok::<_, Failure>(())
    })?;
    let each = |bytes: f64| bytes / sessions as f64;
    Ok(SessionMemory {
        replica_bytes: each((fleet.replica_megabytes()? - replica) * 1e6),
        store_bytes: each(fleet.store.used_bytes()? - store),
    })
}

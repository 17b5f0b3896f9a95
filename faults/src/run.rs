//! One complete run: sets everything up, injects faults while clients make calls, and returns the history.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Map, Value as Json};
use testkit::authorization_server::AuthorizationConfig;
use testkit::{AuthorizationServer, Script};
use tokio::time::{Instant, sleep, timeout};

use crate::environment::audit_log::AuditLog;
use crate::environment::remote_network::RemoteNetwork;
use crate::environment::sandbox::Sandbox;
use crate::environment::shared_home::SharedHome;
use crate::failure::Failure;
use crate::fault::{ENVIRONMENT_FAULTS, FaultPlan, HOST_FAULTS, PROGRAM_FAULTS};
use crate::gateway_client;
use crate::gateway_client::ClientEra;
use crate::injector::FaultInjector;
use crate::load::{CallLog, Load};
use crate::random::SeededRandom;
use crate::servers;
use crate::servers::{FORGETFUL, Placement, SIGNED_IN, TRANSIENT, TestServer};
use crate::shared_host_injector::SharedHostInjector;
use crate::stdio_session::StdioSession;
use crate::swb_process::SwbProcess;
use crate::verdict::history::{Expectation, History, Outcome, Shutdown};

/// The lifetime of a token. Some expire during a run.
const TOKEN_LIFETIME_SECONDS: u64 = 40;
/// The number of calls before measurements start.
const WARM_UP: Duration = Duration::from_secs(8);
/// The timeout until every server responds at the start.
const START_TIMEOUT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The number of sessions that use the shared host.
const SHARED_SESSIONS: usize = 2;

/// The parameters of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// The duration of faults and calls, in seconds.
    pub seconds: u64,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// Everything that a run needs besides the program.
struct RunSetup {
    sandbox: Sandbox,
    network: RemoteNetwork,
    authorization_server: AuthorizationServer,
    servers: Vec<TestServer>,
    /// The servers of the sessions that use the shared host.
    shared_servers: Vec<TestServer>,
    entries: Map<String, Json>,
}

impl RunSetup {
    fn build() -> Result<RunSetup, Failure> {
        let place = Sandbox::prepare()?;
        let mut network = RemoteNetwork::open()?;
        let script = Script::both().name(SIGNED_IN).journal(place.journals().join(SIGNED_IN));
        let charter = AuthorizationConfig {
            token_lifetime: TOKEN_LIFETIME_SECONDS,
            script,
            ..AuthorizationConfig::compliant()
        };
        let authorization_server = AuthorizationServer::start(charter);
        let servers = servers::all_servers(&place.journals());
        let mut entries = Map::new();
        for member in &servers {
            let url = match member.placement {
                Placement::Remote(_) => network.serve(member)?,
                Placement::BehindLogin => authorization_server.url(),
                Placement::LocalProgram | Placement::RealProgram => String::new(),
            };
            entries.insert(member.name.to_owned(), servers::config_entry(member, &url, ""));
        }
        place.write_settings(&servers::settings(&entries))?;
        let login = place.swb().args(["login", SIGNED_IN]).output();
        let login =
            login.map_err(|error| Failure::from_io("`swb login` could not be run", error))?;
        if !login.status.success() {
            let said = String::from_utf8_lossy(&login.stderr).into_owned();
            return Err(Failure::new(format!("`swb login` failed: {said}")));
        }
        let shared_servers = servers::shared_servers(&place.journals());
        Ok(RunSetup {
            sandbox: place,
            network,
            authorization_server,
            servers,
            shared_servers,
            entries,
        })
    }
}

/// Executes a run. The history has its findings; an error means that the run could not be completed.
pub async fn run(options: RunOptions) -> Result<History, Failure> {
    let mut setup = RunSetup::build()?;
    let all_servers = setup.servers.iter().chain(&setup.shared_servers);
    let mut manners: BTreeMap<String, Expectation> =
        all_servers.map(|it| (it.name.to_owned(), it.expectation)).collect();
    // This server is also called before it is added and after it is removed.
    manners.insert(TRANSIENT.to_owned(), Expectation::Unreliable);
    let mut history = History { expectations: manners, ..History::default() };
    let outcome = run_with_faults(&mut setup, options, &mut history).await;
    if outcome.is_err() {
        let said = fs::read_to_string(setup.sandbox.stderr_path()).unwrap_or_default();
        eprintln!("what `swb` said:\n{said}");
    }
    outcome?;
    history.executions = count_executions(&setup)?;
    history.shutdowns.push(run_and_kill(&setup).await?);
    Ok(history)
}

/// The run with faults, up to an orderly exit.
async fn run_with_faults(
    setup: &mut RunSetup,
    options: RunOptions,
    history: &mut History,
) -> Result<(), Failure> {
    let RunSetup {
        sandbox: place,
        network,
        authorization_server,
        servers,
        shared_servers,
        entries,
    } = setup;
    let swb_process = SwbProcess::start(place)?;
    let call_log = CallLog::new(&swb_process.address);
    wait_until_all_answer(&call_log, servers).await?;
    let records = AuditLog::find(&place.disk())?;
    let home = SharedHome::create(place, shared_servers)?;
    let sessions = open_sessions(&home, place, &call_log).await?;
    let host_injector = SharedHostInjector {
        home: &home,
        call_log: &call_log,
        sessions: &sessions,
        servers: shared_servers,
    };
    let answered = timeout(START_TIMEOUT, host_injector.wait_for_answers()).await;
    answered.map_err(|_| Failure::new("the shared servers do not answer at the start"))?;
    let mut load = Load::begin(&call_log, servers, options.seed);
    load.add_sessions(&call_log, &sessions, shared_servers, options.seed);
    sleep(WARM_UP).await;
    load.end().await?;
    sleep(Duration::from_secs(1)).await;
    history.usage[0] = swb_process.resource_usage(&network.pids()).await?;
    println!(
        "{:7.1} s  warm; {} seconds of faults begin",
        call_log.now().as_secs_f64(),
        options.seconds
    );

    let seed = options.seed.wrapping_add(1);
    let mut load = Load::begin(&call_log, servers, seed);
    load.add_sessions(&call_log, &sessions, shared_servers, seed);
    let until = Instant::now() + Duration::from_secs(options.seconds);
    let injector = |entries: Map<String, Json>| FaultInjector {
        sandbox: place,
        swb: &swb_process,
        authorization_server,
        audit_log: &records,
        call_log: &call_log,
        servers,
        entries,
    };
    let (programs, mut environment_injector) = (injector(Map::new()), injector(entries.clone()));
    let programs = programs.inject_program_faults(
        FaultPlan::new(&PROGRAM_FAULTS, SeededRandom::new(options.seed, 1)),
        until,
    );
    let plan = FaultPlan::new(&ENVIRONMENT_FAULTS, SeededRandom::new(options.seed, 2));
    let environment_faults = environment_injector.inject_environment_faults(network, plan, until);
    let host_plan = FaultPlan::new(&HOST_FAULTS, SeededRandom::new(options.seed, 3));
    let host_faults = host_injector.inject_faults(host_plan, until);
    let (programs, environment_faults, host_faults) =
        tokio::try_join!(programs, environment_faults, host_faults)?;
    load.end().await?;
    history.faults = programs.into_iter().chain(environment_faults).chain(host_faults).collect();
    history.faults.sort_by_key(|it| it.began);

    println!("{:7.1} s  calm; settling", call_log.now().as_secs_f64());
    history.usage[1] = swb_process.settled_usage(&network.pids(), &history.usage[0]).await?;
    history.unresponsive = unresponsive_servers(&call_log, servers).await;
    let mut dice = SeededRandom::new(0, 2);
    for (session, member) in
        sessions.iter().flat_map(|it| shared_servers.iter().map(move |member| (it, member)))
    {
        let outcome = call_log.call_in_session(session, member, &mut dice).await;
        if outcome != Outcome::Answered {
            history.unresponsive.push(format!("`{}`: {outcome:?}", member.name));
        }
    }
    history.calls = call_log.calls();
    for session in &sessions {
        history.shutdowns.push(session.end().await);
    }
    history.shutdowns.push(home.stop_host().await?);
    history.stderr = fs::read_to_string(place.stderr_path()).unwrap_or_default();
    history.shutdowns.push(swb_process.stop(Signal::TERM, &network.pids()).await?);
    Ok(())
}

/// Starts the sessions that use the shared host.
async fn open_sessions(
    home: &SharedHome<'_>,
    place: &Sandbox,
    call_log: &CallLog,
) -> Result<Vec<Arc<StdioSession>>, Failure> {
    let mut sessions = Vec::new();
    for _ in 0..SHARED_SESSIONS {
        let stderr = fs::File::options().create(true).append(true).open(place.stderr_path());
        let stderr = stderr.map_err(|error| {
            Failure::from_io("could not create the file for standard error", error)
        })?;
        let log = call_log.clone();
        let on_stray_answer = move |line: &str| log.count_stray_answers(line);
        sessions.push(Arc::new(StdioSession::start(home, on_stray_answer, stderr).await?));
    }
    Ok(sessions)
}

/// Waits until every server was called, and every good one has responded once.
async fn wait_until_all_answer(call_log: &CallLog, servers: &[TestServer]) -> Result<(), Failure> {
    let ready = async {
        loop {
            let said = gateway_client::send(call_log.address(), "GET /readyz", "", "").await;
            if said.is_ok_and(|it| it.status == 200) {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    let ready = timeout(START_TIMEOUT, ready).await;
    ready.map_err(|_| Failure::new(format!("`swb` is not ready within {START_TIMEOUT:?}")))?;
    let mut dice = SeededRandom::new(0, 0);
    for member in servers.iter().filter(|it| it.expectation == Expectation::Reliable) {
        let mut last = Outcome::TimedOut;
        let answers = async {
            loop {
                last = call_log.call(member, &ClientEra::Modern, &mut dice).await;
                if last == Outcome::Answered {
                    break;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        if timeout(START_TIMEOUT, answers).await.is_err() {
            let what =
                format!("`{}` does not answer before anything was done: {last:?}", member.name);
            return Err(Failure::new(what));
        }
    }
    Ok(())
}

/// The good servers that do not respond at the end, after all faults.
async fn unresponsive_servers(call_log: &CallLog, servers: &[TestServer]) -> Vec<String> {
    let mut dice = SeededRandom::new(0, 1);
    let mut missing = Vec::new();
    for member in servers.iter().filter(|it| it.expectation == Expectation::Reliable) {
        let outcome = call_log.call(member, &ClientEra::Modern, &mut dice).await;
        if outcome != Outcome::Answered {
            missing.push(format!("`{}`: {outcome:?}", member.name));
        }
    }
    missing
}

/// How often servers received each canary. Without third-party servers, which keep no journal, and without the one that
/// loses sessions: it receives calls that it then rejects unread, and these may be repeated.
fn count_executions(setup: &RunSetup) -> Result<BTreeMap<String, usize>, Failure> {
    let mut counts = BTreeMap::new();
    let keeps_journal =
        |it: &&TestServer| it.placement != Placement::RealProgram && it.name != FORGETFUL;
    let all_servers = setup.servers.iter().chain(&setup.shared_servers);
    for member in all_servers.filter(keeps_journal) {
        let path = setup.sandbox.journals().join(member.name);
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| {
            Failure::from_io(format!("`{}` has no journal", member.name), error)
        })?;
        for line in text.lines() {
            let message: Json = serde_json::from_str(line).unwrap_or_default();
            if let Some(canary) = message["params"]["arguments"]["text"].as_str() {
                *counts.entry(format!("{canary} of `{}`", member.name)).or_default() += 1;
            }
        }
    }
    Ok(counts)
}

/// A second, short run that ends with SIGKILL.
async fn run_and_kill(setup: &RunSetup) -> Result<Shutdown, Failure> {
    let swb_process = SwbProcess::start(&setup.sandbox)?;
    let call_log = CallLog::new(&swb_process.address);
    wait_until_all_answer(&call_log, &setup.servers).await?;
    swb_process.stop(Signal::KILL, &setup.network.pids()).await
}

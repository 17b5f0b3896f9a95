//! A running host for one command: made from the machine and the flags, and stopped whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard::config::display::printable;
use switchboard::config::merge::ResolvedServer;
use switchboard::connection::resolve::HostEnv;
use switchboard::connection::state::RetryPolicy;
use switchboard::connection::{DesiredServer, Status};
use switchboard::elicitation::elicitor::Elicitor;
use switchboard::elicitation::scripted_answers::ScriptedAnswers;
use switchboard::host;
use switchboard::host::{Host, HostOptions, Snapshot};
use switchboard::login::server_login::LoginOptions;
use switchboard::pool::Pool;
use switchboard::sources::loader::Configuration;
use switchboard::sources::text_file;
use switchboard::sources::text_file::{AllowedFiles, FileContent};
use switchboard::wire::http::client;
use switchboard::wire::process::child;
use switchboard::wire::process::child::WatchdogProgram;
use tokio::time::{Instant, timeout_at};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::connection_text;
use crate::output::report;
use crate::runtime::in_process;
use crate::runtime::language_model;

/// The word that makes this program a guard. Nobody types it.
const WATCHDOG_ARGUMENT: &str = "__guard";
/// How long an account may take to list its connectors.
const CONNECTOR_LIST_TIMEOUT: Duration = Duration::from_secs(3);
/// How often what is shown while servers start is drawn anew.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Whom to guard, where this program was started to do so.
pub fn watchdog_owner() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next() {
        Some(word) if word == WATCHDOG_ARGUMENT => arguments.next(),
        Some(_) | None => None,
    }
}

/// How to start a guard: this program once more.
pub fn watchdog_program() -> Option<WatchdogProgram> {
    let program = std::env::current_exe().ok()?;
    Some(WatchdogProgram { command: program.into(), args: vec![WATCHDOG_ARGUMENT.into()] })
}

/// Threads for what waits for others.
pub fn tokio_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failure, "threads cannot be started").caused_by(error))
}

/// Runs something with a host, and stops the host afterwards. An interrupt ends it early.
pub fn with_host<T>(
    session: &Invocation,
    retry_policy: RetryPolicy,
    work: impl AsyncFnOnce(&Host) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_host_and_interrupts(session, retry_policy, async |host, interrupts| {
        tokio::select! {
            outcome = work(host) => outcome,
            () = interrupts.next() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    })
}

/// The same for work that minds interrupts itself.
pub fn with_host_and_interrupts<T>(
    session: &Invocation,
    retry_policy: RetryPolicy,
    work: impl AsyncFnOnce(&Host, &mut Interrupts) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_custom_host(session, retry_policy, |options| options, work)
}

/// The same for a host that is a little different.
pub fn with_custom_host<T>(
    session: &Invocation,
    retry_policy: RetryPolicy,
    customize: impl FnOnce(HostOptions) -> HostOptions,
    work: impl AsyncFnOnce(&Host, &mut Interrupts) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let options = customize(host_options(session, retry_policy)?);
    child::raise_file_limit();
    let runtime = tokio_runtime()?;
    let outcome = runtime.block_on(async {
        // What a killed predecessor may have left behind; nobody waits for it but the end.
        let reaping = tokio::task::spawn_blocking(child::kill_orphans);
        let (host, task) = Host::start(options).map_err(|error| {
            Failure::new(Exit::Failure, "the host cannot start").caused_by(error)
        })?;
        let mut interrupts = Interrupts::listen();
        // What is new in an account is there the next time, so it is asked for beside the work.
        let (outcome, ()) = match session.providers().account {
            None => (work(&host, &mut interrupts).await, ()),
            Some(_) => tokio::join!(work(&host, &mut interrupts), refresh_connectors(&host)),
        };
        host.shutdown().await;
        let _panicked = task.await;
        let _panicked = reaping.await;
        outcome
    });
    // A person who was being asked when somebody interrupted us may never answer; nothing else is under way.
    runtime.shutdown_background();
    outcome
}

/// Has an account's connectors listed and remembered. A slow account holds up nobody for long.
async fn refresh_connectors(host: &Host) {
    let _slow_or_refused = tokio::time::timeout(CONNECTOR_LIST_TIMEOUT, host.connectors()).await;
}

/// Somebody who wants us to end, as often as they say so.
#[derive(Debug)]
pub struct Interrupts {
    #[cfg(unix)]
    signals: Option<[tokio::signal::unix::Signal; 3]>,
}

impl Interrupts {
    /// Listens from now on. Must be called inside a runtime.
    pub fn listen() -> Interrupts {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let signals = match kinds.map(signal) {
                [Ok(interrupt), Ok(terminate), Ok(hangup)] => Some([interrupt, terminate, hangup]),
                [_, _, _] => None,
            };
            Interrupts { signals }
        }
        #[cfg(not(unix))]
        Interrupts {}
    }

    /// Comes back when somebody wants us to end. May be dropped and asked again.
    pub async fn next(&mut self) {
        #[cfg(unix)]
        match &mut self.signals {
            Some([interrupt, terminate, hangup]) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
            }
            None => std::future::pending().await,
        }
        #[cfg(not(unix))]
        let _cannot_be_heard = tokio::signal::ctrl_c().await;
    }
}

fn host_options(session: &Invocation, retry_policy: RetryPolicy) -> Result<HostOptions, Failure> {
    let env = &session.env;
    let environment = HostEnv {
        home: env.home.clone(),
        working_folder: env.working_folder.clone(),
        variables: BTreeMap::clone(&env.variables),
    };
    let usual = HostOptions::new(env.paths.clone(), environment);
    Ok(HostOptions {
        max_concurrent_local: positive_number(
            session,
            "MCP_SERVER_CONNECTION_BATCH_SIZE",
            usual.max_concurrent_local,
        )?,
        max_concurrent_remote: positive_number(
            session,
            "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE",
            usual.max_concurrent_remote,
        )?,
        connect_timeout: duration_variable(session, "MCP_TIMEOUT", usual.connect_timeout)?,
        retry_policy,
        network: network_settings(session, usual.network)?,
        watchdog: watchdog_program(),
        elicitor: elicitor(session, Arc::new(session.prompt.clone()))?,
        in_process: in_process::in_process(session),
        model: language_model::sampler(session),
        login: LoginOptions {
            identity_provider: session.providers().identity_provider.clone(),
            account: session.providers().account.clone(),
            ..LoginOptions::default()
        },
        ..usual
    })
}

/// Who answers servers' questions: what was written down beforehand, then somebody.
pub fn elicitor(
    session: &Invocation,
    fallback: Arc<dyn Elicitor>,
) -> Result<Arc<dyn Elicitor>, Failure> {
    let Some(file) = &session.global.answers else { return Ok(fallback) };
    let path = session.env.working_folder.join(file);
    let unreadable_file = |why: &str| {
        let message = format!("--answers: `{}` cannot be read", printable(file));
        Failure { causes: vec![printable(why)], ..Failure::new(Exit::Usage, &message) }
    };
    let text = match text_file::read_text(&path, AllowedFiles::PipesToo) {
        Ok(FileContent::Text(text)) => text,
        Ok(FileContent::Absent) => return Err(unreadable_file("there is no such file")),
        Err(error) => return Err(unreadable_file(&error.to_string())),
    };
    let prepared = ScriptedAnswers::parse(&text, fallback).map_err(|error| {
        let failure = Failure::new(Exit::Usage, &format!("--answers: {error}"));
        match std::error::Error::source(&error) {
            Some(source) => failure.caused_by(source),
            None => failure,
        }
    })?;
    Ok(Arc::new(prepared))
}

fn positive_number(session: &Invocation, name: &str, usual: usize) -> Result<usize, Failure> {
    match session.env.variables.get(name).filter(|text| !text.is_empty()) {
        None => Ok(usual),
        Some(text) => text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
            Failure::new(Exit::Usage, &format!("{name} must be a whole number above zero"))
        }),
    }
}

/// A variable that holds a time in milliseconds.
pub fn duration_variable(
    session: &Invocation,
    name: &str,
    usual: Duration,
) -> Result<Duration, Failure> {
    let usual = usize::try_from(usual.as_millis()).unwrap_or(usize::MAX);
    let number = positive_number(session, name, usual)?;
    Ok(Duration::from_millis(u64::try_from(number).unwrap_or(u64::MAX)))
}

/// How many tokens of a result are shown, where that is said.
pub fn max_output_tokens(session: &Invocation) -> Result<Option<usize>, Failure> {
    const NAME: &str = "MAX_MCP_OUTPUT_TOKENS";
    match session.env.variables.get(NAME).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(_) => positive_number(session, NAME, 0).map(Some),
    }
}

/// A way out for what is no server.
pub fn outbound_network(session: &Invocation) -> Result<client::HttpClient, Failure> {
    let environment = HostEnv::default();
    let usual = HostOptions::new(session.env.paths.clone(), environment).network;
    client::HttpClient::new(&network_settings(session, usual)?).map_err(|error| {
        Failure::new(Exit::Configuration, "there is no way out to the network").caused_by(error)
    })
}

/// The way out, as the variables that everybody uses describe it.
fn network_settings(
    session: &Invocation,
    usual: client::HttpSettings,
) -> Result<client::HttpSettings, Failure> {
    let variables = &session.env.variables;
    let either = |name: &str| {
        let found = variables.get(&name.to_ascii_lowercase()).or_else(|| variables.get(name));
        found.filter(|value| !value.is_empty()).cloned()
    };
    let file = |name: &str| match variables.get(name).filter(|path| !path.is_empty()) {
        None => Ok(None),
        Some(path) => std::fs::read(path).map(Some).map_err(|error| {
            let message = format!("{name} names a file that cannot be read");
            Failure::new(Exit::Configuration, &message).caused_by(error)
        }),
    };
    Ok(client::HttpSettings {
        proxies: client::ProxySettings {
            http: either("HTTP_PROXY"),
            https: either("HTTPS_PROXY"),
            all: either("ALL_PROXY"),
            no_proxy: either("NO_PROXY"),
        },
        extra_ca: file("NODE_EXTRA_CA_CERTS")?.into_iter().collect(),
        ..usual
    })
}

/// The servers of a configuration that may start and were asked for; all where none was named.
pub fn desired_servers(configuration: &Configuration, names: &[String]) -> Vec<DesiredServer> {
    let mut wanted = host::desired_servers(&configuration.effective);
    if !names.is_empty() {
        wanted.retain(|it| names.iter().any(|name| name == it.name()));
    }
    wanted
}

/// The definitions that count, of the names that were asked for.
pub fn active_servers<'c>(
    session: &Invocation,
    configuration: &'c Configuration,
    names: &[String],
) -> Result<Vec<&'c ResolvedServer>, Failure> {
    let winners = configuration.effective.servers.iter().filter(|server| server.is_selected());
    if names.is_empty() {
        return Ok(winners.collect());
    }
    names
        .iter()
        .map(|name| {
            let winner = configuration.effective.winner(name);
            winner.ok_or_else(|| session.not_found(configuration, name))
        })
        .collect()
}

/// Makes a host run the servers of a configuration that were asked for, under its rules.
pub async fn apply_configuration(host: &Host, configuration: &Configuration, names: &[String]) {
    // The rules first, so that nothing is seen that they hide.
    host.set_hooks(&configuration.hooks);
    host.set_rules(configuration.rules.clone()).await;
    host.apply_servers(desired_servers(configuration, names)).await;
}

/// What there is to see of servers that were connected to once.
#[derive(Debug)]
pub struct ConnectedServers {
    /// The servers.
    pub snapshot: Arc<Snapshot>,
    /// Their tools.
    pub pool: Arc<Pool>,
    /// What is to be said of those that cannot be had.
    pub notes: String,
}

/// Connects once to the servers that were named, or to all.
pub fn connect_once(
    session: &Invocation,
    configuration: &Configuration,
    names: &[String],
) -> Result<ConnectedServers, Failure> {
    active_servers(session, configuration, names)?;
    let (snapshot, pool) = with_host(session, RetryPolicy::NoRetry, async |host| {
        apply_configuration(host, configuration, names).await;
        let snapshot = wait_until_settled(session, host, None, Snapshot::is_settled).await;
        Ok((snapshot, host.settled_pool().await))
    })?;
    let missing = snapshot.servers.values().filter(|view| view.status != Status::Connected);
    let notes = missing.map(|view| connection_text::problem_text(view)).collect();
    Ok(ConnectedServers { snapshot, pool, notes })
}

/// Waits until servers are settled, or time is up, and shows meanwhile what is going on.
pub async fn wait_until_settled(
    session: &Invocation,
    host: &Host,
    deadline: Option<Instant>,
    is_settled: impl Fn(&Snapshot) -> bool,
) -> Arc<Snapshot> {
    let (mut watch, mut pools) = (host.watch(), host.watch_pool());
    let shows = session.env.terminal.stderr_is_terminal && !session.wants_json();
    let mut drawn = 0;
    loop {
        let snapshot = watch.borrow_and_update().clone();
        let is_over =
            is_settled(&snapshot) || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if shows {
            let text =
                if is_over { String::new() } else { connection_text::connecting_text(&snapshot) };
            report::print_stderr(&report::redraw(drawn, &text));
            drawn = text.lines().count();
        }
        if is_over {
            return snapshot;
        }
        // Drawn at most so often; a change in between is seen with the next one.
        let pause = Instant::now() + REDRAW_INTERVAL;
        let limit = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        let changed = async {
            tokio::select! {
                _ = watch.changed() => {}
                _ = pools.changed() => {}
            }
        };
        let _changed_or_time_up = timeout_at(limit, changed).await;
        if shows && !is_settled(&watch.borrow()) {
            tokio::time::sleep_until(pause.min(limit)).await;
        }
    }
}

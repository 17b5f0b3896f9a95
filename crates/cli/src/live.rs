//! A running host for one command: made from the machine and the flags, and stopped whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use switchboard::address::Around;
use switchboard::config::cascade::Server;
use switchboard::config::shown::printable;
use switchboard::connection::state::Persistence;
use switchboard::connection::{Status, Wanted};
use switchboard::engine::{self, Host, Options, Snapshot};
use switchboard::inquiry::Ask;
use switchboard::load::Configuration;
use switchboard::pool::Pool;
use switchboard::prepared::Prepared;
use switchboard::read::{self, Content, Kinds};
use switchboard::signing::SigningOptions;
use switchboard::wire::network;
use switchboard::wire::process::{self, GuardProgram};
use tokio::time::{Instant, timeout_at};

use crate::connected;
use crate::exit::Exit;
use crate::model_setup;
use crate::outcome::Failure;
use crate::report;
use crate::session::Session;
use crate::workbench;

/// The word that makes this program a guard. Nobody types it.
const GUARD: &str = "__guard";
/// How long an account may take to list its connectors.
const LISTING: Duration = Duration::from_secs(3);
/// How often what is shown while servers start is drawn anew.
const REDRAW: Duration = Duration::from_millis(100);

/// Whom to guard, where this program was started to do so.
pub fn guarded_owner() -> Option<String> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next() {
        Some(word) if word == GUARD => arguments.next(),
        Some(_) | None => None,
    }
}

/// How to start a guard: this program once more.
pub fn guard_program() -> Option<GuardProgram> {
    let program = std::env::current_exe().ok()?;
    Some(GuardProgram { command: program.into(), args: vec![GUARD.into()] })
}

/// Threads for what waits for others.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failure, "threads cannot be started").because(error))
}

/// Runs something with a host, and stops the host afterwards. An interrupt ends it early.
pub fn run<T>(
    session: &Session,
    persistence: Persistence,
    work: impl AsyncFnOnce(&Host) -> Result<T, Failure>,
) -> Result<T, Failure> {
    attended(session, persistence, async |host, interrupts| {
        tokio::select! {
            outcome = work(host) => outcome,
            () = interrupts.next() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    })
}

/// The same for work that minds interrupts itself.
pub fn attended<T>(
    session: &Session,
    persistence: Persistence,
    work: impl AsyncFnOnce(&Host, &mut Interrupts) -> Result<T, Failure>,
) -> Result<T, Failure> {
    adapted(session, persistence, |options| options, work)
}

/// The same for a host that is a little different.
pub fn adapted<T>(
    session: &Session,
    persistence: Persistence,
    adapt: impl FnOnce(Options) -> Options,
    work: impl AsyncFnOnce(&Host, &mut Interrupts) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let options = adapt(options(session, persistence)?);
    process::raise_file_limit();
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        // What a killed predecessor may have left behind; nobody waits for it but the end.
        let reaping = tokio::task::spawn_blocking(process::reap);
        let (host, task) = Host::start(options)
            .map_err(|error| Failure::new(Exit::Failure, "the host cannot start").because(error))?;
        let mut interrupts = Interrupts::hear();
        // What is new in an account is there the next time, so it is asked for beside the work.
        let (outcome, ()) = match session.backing().account {
            None => (work(&host, &mut interrupts).await, ()),
            Some(_) => tokio::join!(work(&host, &mut interrupts), listed(&host)),
        };
        host.stop().await;
        let _panicked = task.await;
        let _panicked = reaping.await;
        outcome
    });
    // A person who was being asked when somebody interrupted us may never answer; nothing else is under way.
    runtime.shutdown_background();
    outcome
}

/// Has an account's connectors listed and remembered. A slow account holds up nobody for long.
async fn listed(host: &Host) {
    let _slow_or_refused = tokio::time::timeout(LISTING, host.connectors()).await;
}

/// Somebody who wants us to end, as often as they say so.
#[derive(Debug)]
pub struct Interrupts {
    #[cfg(unix)]
    signals: Option<[tokio::signal::unix::Signal; 3]>,
}

impl Interrupts {
    /// Listens from now on. Must be called inside a runtime.
    pub fn hear() -> Interrupts {
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

fn options(session: &Session, persistence: Persistence) -> Result<Options, Failure> {
    let machine = &session.machine;
    let around = Around {
        home: machine.home.clone(),
        working_folder: machine.working_folder.clone(),
        variables: BTreeMap::clone(&machine.variables),
    };
    let usual = Options::new(machine.places.clone(), around);
    Ok(Options {
        local_width: number(session, "MCP_SERVER_CONNECTION_BATCH_SIZE", usual.local_width)?,
        remote_width: number(
            session,
            "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE",
            usual.remote_width,
        )?,
        connect_within: milliseconds(session, "MCP_TIMEOUT", usual.connect_within)?,
        persistence,
        network: network(session, usual.network)?,
        guard: guard_program(),
        asker: asker(session, Arc::new(session.person.clone()))?,
        in_process: workbench::in_process(session),
        model: model_setup::sampler(session),
        signing: SigningOptions {
            identity_provider: session.backing().identity_provider.clone(),
            account: session.backing().account.clone(),
            ..SigningOptions::default()
        },
        ..usual
    })
}

/// Who answers servers' questions: what was written down beforehand, then somebody.
pub fn asker(session: &Session, person: Arc<dyn Ask>) -> Result<Arc<dyn Ask>, Failure> {
    let Some(file) = &session.global.answers else { return Ok(person) };
    let path = session.machine.working_folder.join(file);
    let unreadable = |why: &str| {
        let message = format!("--answers: `{}` cannot be read", printable(file));
        Failure { causes: vec![printable(why)], ..Failure::new(Exit::Usage, &message) }
    };
    let text = match read::text(&path, Kinds::PipesToo) {
        Ok(Content::Text(text)) => text,
        Ok(Content::Absent) => return Err(unreadable("there is no such file")),
        Err(error) => return Err(unreadable(&error.to_string())),
    };
    let prepared = Prepared::read(&text, person).map_err(|error| {
        let failure = Failure::new(Exit::Usage, &format!("--answers: {error}"));
        match std::error::Error::source(&error) {
            Some(source) => failure.because(source),
            None => failure,
        }
    })?;
    Ok(Arc::new(prepared))
}

fn number(session: &Session, name: &str, usual: usize) -> Result<usize, Failure> {
    match session.machine.variables.get(name).filter(|text| !text.is_empty()) {
        None => Ok(usual),
        Some(text) => text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
            Failure::new(Exit::Usage, &format!("{name} must be a whole number above zero"))
        }),
    }
}

/// A variable that holds a time in milliseconds.
pub fn milliseconds(session: &Session, name: &str, usual: Duration) -> Result<Duration, Failure> {
    let usual = usize::try_from(usual.as_millis()).unwrap_or(usize::MAX);
    let number = number(session, name, usual)?;
    Ok(Duration::from_millis(u64::try_from(number).unwrap_or(u64::MAX)))
}

/// How many tokens of a result are shown, where that is said.
pub fn tokens(session: &Session) -> Result<Option<usize>, Failure> {
    const NAME: &str = "MAX_MCP_OUTPUT_TOKENS";
    match session.machine.variables.get(NAME).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(_) => number(session, NAME, 0).map(Some),
    }
}

/// A way out for what is no server.
pub fn way_out(session: &Session) -> Result<network::Network, Failure> {
    let around = Around::default();
    let usual = Options::new(session.machine.places.clone(), around).network;
    network::Network::new(&network(session, usual)?).map_err(|error| {
        Failure::new(Exit::Configuration, "there is no way out to the network").because(error)
    })
}

/// The way out, as the variables that everybody uses describe it.
fn network(session: &Session, usual: network::Settings) -> Result<network::Settings, Failure> {
    let variables = &session.machine.variables;
    let either = |name: &str| {
        let found = variables.get(&name.to_ascii_lowercase()).or_else(|| variables.get(name));
        found.filter(|value| !value.is_empty()).cloned()
    };
    let file = |name: &str| match variables.get(name).filter(|path| !path.is_empty()) {
        None => Ok(None),
        Some(path) => std::fs::read(path).map(Some).map_err(|error| {
            let message = format!("{name} names a file that cannot be read");
            Failure::new(Exit::Configuration, &message).because(error)
        }),
    };
    Ok(network::Settings {
        proxies: network::Proxies {
            http: either("HTTP_PROXY"),
            https: either("HTTPS_PROXY"),
            all: either("ALL_PROXY"),
            no: either("NO_PROXY"),
        },
        extra_ca: file("NODE_EXTRA_CA_CERTS")?.into_iter().collect(),
        ..usual
    })
}

/// The servers of a configuration that may start and were asked for; all where none was named.
pub fn chosen(configuration: &Configuration, names: &[String]) -> Vec<Wanted> {
    let mut wanted = engine::wanted(&configuration.effective);
    if !names.is_empty() {
        wanted.retain(|it| names.iter().any(|name| name == it.name()));
    }
    wanted
}

/// The definitions that count, of the names that were asked for.
pub fn in_play<'c>(
    session: &Session,
    configuration: &'c Configuration,
    names: &[String],
) -> Result<Vec<&'c Server>, Failure> {
    let winners = configuration.effective.servers.iter().filter(|server| server.is_in_play());
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
pub async fn apply(host: &Host, configuration: &Configuration, names: &[String]) {
    // The rules first, so that nothing is seen that they hide.
    host.set_hooks(&configuration.hooks);
    host.set_rules(configuration.rules.clone()).await;
    host.apply_wanted(chosen(configuration, names)).await;
}

/// What there is to see of servers that were connected to once.
#[derive(Debug)]
pub struct Gathered {
    /// The servers.
    pub snapshot: Arc<Snapshot>,
    /// Their tools.
    pub pool: Arc<Pool>,
    /// What is to be said of those that cannot be had.
    pub notes: String,
}

/// Connects once to the servers that were named, or to all.
pub fn gathered(
    session: &Session,
    configuration: &Configuration,
    names: &[String],
) -> Result<Gathered, Failure> {
    in_play(session, configuration, names)?;
    let (snapshot, pool) = run(session, Persistence::Once, async |host| {
        apply(host, configuration, names).await;
        let snapshot = settle(session, host, None, Snapshot::is_settled).await;
        Ok((snapshot, host.settled_pool().await))
    })?;
    let missing = snapshot.servers.values().filter(|view| view.status != Status::Connected);
    let notes = missing.map(|view| connected::trouble(view)).collect();
    Ok(Gathered { snapshot, pool, notes })
}

/// Waits until servers are settled, or time is up, and shows meanwhile what is going on.
pub async fn settle(
    session: &Session,
    host: &Host,
    deadline: Option<Instant>,
    is_settled: impl Fn(&Snapshot) -> bool,
) -> Arc<Snapshot> {
    let (mut watch, mut pools) = (host.watch(), host.watch_pool());
    let shows = session.machine.terminal.shows_progress && !session.wants_json();
    let mut drawn = 0;
    loop {
        let snapshot = watch.borrow_and_update().clone();
        let is_over =
            is_settled(&snapshot) || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if shows {
            let text = if is_over { String::new() } else { connected::progress(&snapshot) };
            report::aside(&report::over(drawn, &text));
            drawn = text.lines().count();
        }
        if is_over {
            return snapshot;
        }
        // Drawn at most so often; a change in between is seen with the next one.
        let pause = Instant::now() + REDRAW;
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

//! Applies a configuration to a host, connects to its servers, and waits for them.

use std::sync::Arc;
use std::time::Duration;

use switchboard::catalogue::{Catalogue, RememberedServer};
use switchboard::config::display::printable;
use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::connection::{RetryPolicy, ServerView, Status};
use switchboard::pool::Pool;
use switchboard::sources;
use switchboard::sources::DesiredServer;
use switchboard::sources::loader::Configuration;
use switchboard::{Host, Snapshot, pool_from_catalogues};
use tokio::time::{Instant, timeout_at};

use crate::exit::Exit;
use crate::invocation::Invocation;
use crate::outcome::Failure;
use crate::output::connection_text;
use crate::output::report;
use crate::output::server_text;
use crate::runtime::host::with_host;

/// The shortest time between two redraws of the connecting line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// A note about more servers than this gives their number instead of their names.
const MAX_NOTED_SERVERS: usize = 5;

/// The startable servers with these names; all if `names` is empty.
pub fn desired_servers(configuration: &Configuration, names: &[String]) -> Vec<DesiredServer> {
    let mut desired = sources::desired_servers(&configuration.effective);
    if !names.is_empty() {
        desired.retain(|it| names.iter().any(|name| name == it.name()));
    }
    desired
}

/// The selected definitions of these names; all if `names` is empty.
pub fn active_servers<'c>(
    invocation: &Invocation,
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
            winner.ok_or_else(|| invocation.not_found(configuration, name))
        })
        .collect()
}

/// Applies hooks, rules and the servers with these names to the host; all servers if `names` is empty.
pub async fn apply_configuration(host: &Host, configuration: &Configuration, names: &[String]) {
    // Rules first, so that hidden tools are never visible.
    host.set_hooks(&configuration.hooks);
    host.set_rules(configuration.rules.clone()).await;
    host.apply_servers(desired_servers(configuration, names)).await;
}

/// One line about the servers with these names that are left out because they are not approved; about all if `names` is
/// empty.
pub fn unapproved_note(configuration: &Configuration, names: &[String]) -> String {
    let is_unapproved = |it: &&ResolvedServer| {
        matches!(it.state, ServerState::Pending(_))
            && (names.is_empty() || names.contains(&it.name))
    };
    let servers = configuration.effective.servers.iter().filter(is_unapproved);
    server_text::unapproved_note(&servers.collect::<Vec<_>>())
}

/// Servers after one attempt to connect.
#[derive(Debug)]
pub struct ConnectedServers {
    /// The servers.
    pub snapshot: Arc<Snapshot>,
    /// Their tools.
    pub pool: Arc<Pool>,
    /// Notes about servers that are not connected.
    pub notes: String,
}

/// Connects once to the servers with these names; to all if `names` is empty.
pub fn connect_once(
    invocation: &Invocation,
    configuration: &Configuration,
    names: &[String],
) -> Result<ConnectedServers, Failure> {
    active_servers(invocation, configuration, names)?;
    let (snapshot, pool) = with_host(invocation, RetryPolicy::NoRetry, async |host| {
        apply_configuration(host, configuration, names).await;
        let snapshot = wait_until_settled(invocation, host, None, Snapshot::is_settled).await;
        Ok((snapshot, host.settled_pool().await))
    })?;
    let missing = snapshot.servers.values().filter(|view| view.status != Status::Connected);
    let mut notes = unapproved_note(configuration, names);
    notes.extend(missing.map(|view| connection_text::problem_text(view)));
    Ok(ConnectedServers { snapshot, pool, notes })
}

/// Where the lists of servers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListSource {
    /// The lists of the last connection; a server is connected only if nothing is remembered of it.
    Remembered,
    /// The servers.
    Servers,
}

/// The tools of servers, whether they are connected or remembered.
#[derive(Debug)]
pub struct KnownTools {
    /// The tools.
    pub pool: Pool,
    /// The servers whose lists are remembered, so that they were not started.
    pub remembered: Vec<String>,
    /// Notes about remembered lists and about servers that are not connected.
    pub notes: String,
}

/// The tools of the servers with these names; of all if `names` is empty.
pub fn known_tools(
    invocation: &Invocation,
    configuration: &Configuration,
    names: &[String],
    source: ListSource,
) -> Result<KnownTools, Failure> {
    active_servers(invocation, configuration, names)?;
    let folder = invocation.env.paths.remembered_catalogues();
    let mut catalogues: Vec<(DesiredServer, Arc<Catalogue>)> = Vec::new();
    let mut unknown: Vec<DesiredServer> = Vec::new();
    for server in desired_servers(configuration, names) {
        let remembered = match source {
            ListSource::Remembered => {
                RememberedServer::load(&folder, server.name(), &server.fingerprint)
            }
            ListSource::Servers => None,
        };
        match remembered {
            Some(remembered) => catalogues.push((server, remembered.catalogue)),
            None => unknown.push(server),
        }
    }
    let remembered: Vec<String> = catalogues.iter().map(|it| it.0.name().to_owned()).collect();
    let mut notes = unapproved_note(configuration, names);
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|it| it.name().to_owned()).collect();
        let connected = connect_once(invocation, configuration, &names)?;
        let lists = |server: DesiredServer| {
            let view = connected.snapshot.servers.get(server.name());
            let catalogue = view.map(|view| view.catalogue.clone()).unwrap_or_default();
            (server, catalogue)
        };
        catalogues.extend(unknown.into_iter().map(lists));
        notes += &connected.notes;
    }
    if !remembered.is_empty() {
        notes += &remembered_note(&remembered);
    }
    let pool = pool_from_catalogues(&catalogues, &configuration.rules);
    Ok(KnownTools { pool, remembered, notes })
}

/// The tools that are remembered of all servers, without starting any.
pub fn remembered_pool(invocation: &Invocation, configuration: &Configuration) -> Pool {
    let folder = invocation.env.paths.remembered_catalogues();
    let load = |server: DesiredServer| {
        let remembered = RememberedServer::load(&folder, server.name(), &server.fingerprint);
        (server, remembered.unwrap_or_default().catalogue)
    };
    let catalogues: Vec<_> = desired_servers(configuration, &[]).into_iter().map(load).collect();
    pool_from_catalogues(&catalogues, &configuration.rules)
}

fn remembered_note(servers: &[String]) -> String {
    let names: Vec<String> = servers.iter().map(|it| format!("`{}`", printable(it))).collect();
    let subject = match names.len() {
        1 => format!("{} is", names[0]),
        2..=MAX_NOTED_SERVERS => format!("{} are", names.join(", ")),
        count => format!("{count} servers are"),
    };
    format!("note: {subject} listed as of the last connection; `--refresh` connects\n")
}

/// Waits until servers are settled or the deadline passes, and shows a line about those still connecting.
pub async fn wait_until_settled(
    invocation: &Invocation,
    host: &Host,
    deadline: Option<Instant>,
    is_settled: impl Fn(&Snapshot) -> bool,
) -> Arc<Snapshot> {
    let (mut watch, mut pools) = (host.watch(), host.watch_pool());
    let shows = invocation.progress_width().is_some();
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
        // Redraws at most once per interval; later changes are part of the next redraw.
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

/// Connects to one server and waits until its connection is settled.
pub async fn connect_one(
    invocation: &Invocation,
    host: &Host,
    configuration: &Configuration,
    name: &str,
) -> Arc<ServerView> {
    let names = [name.to_owned()];
    apply_configuration(host, configuration, &names).await;
    let snapshot = wait_until_settled(invocation, host, None, |it| are_settled(it, &names)).await;
    snapshot.servers[name].clone()
}

/// Are the connections of these servers settled?
pub fn are_settled(snapshot: &Snapshot, names: &[String]) -> bool {
    let is_settled =
        |name: &String| snapshot.servers.get(name).is_some_and(|it| it.status.is_settled());
    names.iter().all(is_settled)
}

/// The definition of a server that may be started; fails before anything is started otherwise.
pub fn startable_server<'c>(
    invocation: &Invocation,
    configuration: &'c Configuration,
    name: &str,
) -> Result<&'c ResolvedServer, Failure> {
    let defined = || configuration.effective.servers.iter().find(|it| it.name == name);
    let server = configuration.effective.winner(name).or_else(defined);
    let server = server.ok_or_else(|| invocation.not_found(configuration, name))?;
    match server.is_ready() {
        true => Ok(server),
        false => Err(not_startable(invocation, server)),
    }
}

/// The failure for a definition that may not be started.
pub fn not_startable(invocation: &Invocation, server: &ResolvedServer) -> Failure {
    let name = &server.name;
    let exit = match &server.state {
        ServerState::Refused(_) => Exit::Policy,
        ServerState::Invalid => Exit::Configuration,
        ServerState::Ready
        | ServerState::Pending(_)
        | ServerState::Rejected
        | ServerState::Disabled(_)
        | ServerState::Shadowed { .. }
        | ServerState::Duplicate { .. }
        | ServerState::NeedsConfig(_)
        | ServerState::Excluded(_) => Exit::NotReady,
    };
    let state = server_text::state_text(&server.state);
    let failure = Failure::new(exit, &format!("the server `{name}` is not ready: {state}"));
    match server_text::state_reason(&invocation.env, server) {
        Some(reason) => failure.hint(&reason),
        None => failure,
    }
}

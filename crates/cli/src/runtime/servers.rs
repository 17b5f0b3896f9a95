//! Applies a configuration to a host, connects to its servers, and waits for them.

use std::sync::Arc;
use std::time::Duration;

use switchboard::config::merge::{ResolvedServer, ServerState};
use switchboard::connection::state::RetryPolicy;
use switchboard::connection::{DesiredServer, ServerView, Status};
use switchboard::host;
use switchboard::host::{Host, Snapshot};
use switchboard::pool::Pool;
use switchboard::sources::loader::Configuration;
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

/// The startable servers with these names; all if `names` is empty.
pub fn desired_servers(configuration: &Configuration, names: &[String]) -> Vec<DesiredServer> {
    let mut desired = host::desired_servers(&configuration.effective);
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
    let notes = missing.map(|view| connection_text::problem_text(view)).collect();
    Ok(ConnectedServers { snapshot, pool, notes })
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
    let server = configuration.effective.winner(name);
    let server = server.ok_or_else(|| invocation.not_found(configuration, name))?;
    if server.is_ready() {
        return Ok(server);
    }
    let exit = match &server.state {
        ServerState::Refused(_) => Exit::Policy,
        ServerState::Invalid => Exit::Configuration,
        ServerState::Ready
        | ServerState::Pending(_)
        | ServerState::Rejected
        | ServerState::Disabled(_)
        | ServerState::Shadowed { .. }
        | ServerState::Duplicate { .. }
        | ServerState::Excluded(_) => Exit::NotReady,
    };
    let state = server_text::state_text(&server.state);
    let failure = Failure::new(exit, &format!("the server `{name}` is not ready: {state}"));
    Err(match server_text::state_reason(&invocation.env, server) {
        Some(reason) => failure.hint(&reason),
        None => failure,
    })
}

//! Rebuilds the pool when the servers' catalogues or the rules change. One task does this; connections never wait for
//! it. It rebuilds only if an input of the pool changed, and on a blocking thread if there are many tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_config::entry::server::{Fingerprint, ToolFilter, TransportKind};
use switchboard_config::permission::{self, PermissionEffect, PermissionRules};
use tokio::sync::watch;

use crate::catalogue::lists::{Catalogue, ListItem, ListKind};
use crate::connection::state::RetryPolicy;
use crate::connection::status::{ServerView, Status};
use crate::engine::snapshot::Snapshot;
use crate::ide;
use crate::login::method::LoginMethod;
use crate::pool::diff::{PoolDiff, diff};
use crate::pool::naming::{NameOrigin, sanitise};
use crate::pool::tool::{Tool, ToolKind};
use crate::pool::{Pool, PoolRules, ServerTools};
use crate::sources::desired_server::DesiredServer;

/// With more tools than this, the pool is built on a blocking thread.
const BLOCKING_THRESHOLD: usize = 200;

/// The readers' side of the pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolReceiver {
    pools: watch::Receiver<Arc<Pool>>,
    /// The revision of the newest snapshot that the pool includes.
    covered_revision: watch::Receiver<u64>,
}

impl PoolReceiver {
    /// The current pool.
    pub(crate) fn current(&self) -> Arc<Pool> {
        self.pools.borrow().clone()
    }

    /// The current and all later pools.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<Pool>> {
        self.pools.clone()
    }

    /// The changes of the pool from now on.
    pub(crate) fn changes(&self) -> PoolWatch {
        let mut pools = self.pools.clone();
        let seen = pools.borrow_and_update().clone();
        PoolWatch { pools, seen }
    }

    /// The pool, once it contains the snapshot with this revision.
    pub(crate) async fn settled(&self, revision: u64) -> Arc<Pool> {
        let mut covered_revision = self.covered_revision.clone();
        let _host_gone = covered_revision.wait_for(|it| *it >= revision).await;
        self.current()
    }
}

/// The tools that do not come from servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuiltinTools {
    /// The built-in tools.
    pub(crate) definitions: &'static [Arc<Tool>],
    /// Makes the tool that stands for a server which requires a login.
    pub(crate) placeholder: fn(&str, LoginMethod) -> ListItem,
}

/// Builds the first pool, and the task that builds a new one after each snapshot and ends with the snapshots. A host without
/// retries has no login placeholders, because it would have stopped before the user returns from the browser.
pub(crate) fn new(
    snapshots: watch::Receiver<Arc<Snapshot>>,
    policy: RetryPolicy,
    builtin: BuiltinTools,
) -> (PoolReceiver, impl Future<Output = ()> + Send + 'static) {
    let first = PoolInputs::default().build(&Pool::default(), builtin);
    let (pool, pools) = watch::channel(Arc::new(first));
    let (cover, covered_revision) = watch::channel(0);
    (PoolReceiver { pools, covered_revision }, run(snapshots, (policy, builtin), pool, cover))
}

/// Builds the pool of servers with these catalogues, without connections.
pub(crate) fn build_from_catalogues(
    servers: &[(DesiredServer, Arc<Catalogue>)],
    rules: &PermissionRules,
    builtin: BuiltinTools,
) -> Pool {
    PoolInputs::of_catalogues(servers, rules).build(&Pool::default(), builtin)
}

async fn run(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    (policy, builtin): (RetryPolicy, BuiltinTools),
    pool: watch::Sender<Arc<Pool>>,
    covered_revision: watch::Sender<u64>,
) {
    let mut current_inputs = PoolInputs::default();
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        let now = PoolInputs::of(&snapshot, &current_inputs, (policy, builtin));
        if !now.builds_same_pool(&current_inputs) {
            let before = pool.borrow().clone();
            pool.send_replace(assemble(before, now.clone(), builtin).await);
            current_inputs = now;
        }
        covered_revision.send_replace(snapshot.revision);
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}

async fn assemble(before: Arc<Pool>, now: PoolInputs, builtin: BuiltinTools) -> Arc<Pool> {
    if now.count() <= BLOCKING_THRESHOLD {
        return Arc::new(now.build(&before, builtin));
    }
    let previous = before.clone();
    let assembling = tokio::task::spawn_blocking(move || Arc::new(now.build(&before, builtin)));
    // What cannot be put together must not take away what there is.
    assembling.await.unwrap_or(previous)
}

/// All inputs of a pool.
#[derive(Debug, Clone, Default)]
struct PoolInputs {
    servers: BTreeMap<String, ServerInput>,
    rules: Arc<PermissionRules>,
}

/// The inputs from one server.
#[derive(Debug, Clone)]
struct ServerInput {
    origin: NameOrigin,
    catalogue: Arc<Catalogue>,
    filter: ToolFilter,
    fingerprint: Fingerprint,
    /// The placeholder tool of a server that requires a login.
    placeholder: Option<(LoginMethod, Arc<ListItem>)>,
}

impl PoolInputs {
    fn of(
        snapshot: &Snapshot,
        before: &PoolInputs,
        (policy, builtin): (RetryPolicy, BuiltinTools),
    ) -> PoolInputs {
        let server_input = |(view, origin): (&Arc<ServerView>, NameOrigin)| {
            let before = before.servers.get(&view.name);
            let before = before.filter(|it| it.fingerprint == view.fingerprint);
            let mut filter = snapshot.tool_filters.get(&view.name).cloned().unwrap_or_default();
            hide_ide_tools(&mut filter, view.transport, view.listed());
            let input = ServerInput {
                origin,
                catalogue: view.listed().clone(),
                filter,
                fingerprint: view.fingerprint.clone(),
                placeholder: match policy {
                    RetryPolicy::RetryWithBackoff | RetryPolicy::NeverGiveUp => {
                        login_placeholder(view, snapshot, before, builtin)
                    }
                    RetryPolicy::NoRetry => None,
                },
            };
            (view.name.clone(), input)
        };
        let configured = snapshot.servers.values().map(|it| (it, NameOrigin::of(it.scope)));
        let embedded = snapshot.embedded_servers().map(|it| (it, NameOrigin::Embedded));
        let servers = configured.chain(embedded).map(server_input).collect();
        PoolInputs { servers, rules: snapshot.rules.clone() }
    }

    /// The inputs for servers that are not connected.
    fn of_catalogues(
        servers: &[(DesiredServer, Arc<Catalogue>)],
        rules: &PermissionRules,
    ) -> PoolInputs {
        let server_input = |(desired, catalogue): &(DesiredServer, Arc<Catalogue>)| {
            let input = ServerInput {
                origin: NameOrigin::of(desired.scope),
                catalogue: catalogue.clone(),
                filter: desired.spec.common.tools.clone(),
                fingerprint: desired.fingerprint.clone(),
                placeholder: None,
            };
            (desired.name().to_owned(), input)
        };
        let servers = servers.iter().map(server_input).collect();
        PoolInputs { servers, rules: Arc::new(rules.clone()) }
    }

    fn count(&self) -> usize {
        self.servers.values().map(|it| it.catalogue.items(ListKind::Tools).len()).sum()
    }

    /// Whether both inputs give the same pool.
    fn builds_same_pool(&self, other: &PoolInputs) -> bool {
        let is_same = |(server_input, other): (&ServerInput, &ServerInput)| {
            let (old, new) = (&other.catalogue, &server_input.catalogue);
            let method = |it: &ServerInput| it.placeholder.as_ref().map(|it| it.0);
            (server_input.origin, &server_input.filter) == (other.origin, &other.filter)
                && method(server_input) == method(other)
                && (Arc::ptr_eq(old, new)
                    || old.items(ListKind::Tools) == new.items(ListKind::Tools))
        };
        Arc::ptr_eq(&self.rules, &other.rules)
            && self.servers.keys().eq(other.servers.keys())
            && self.servers.values().zip(other.servers.values()).all(is_same)
    }

    fn build(&self, before: &Pool, builtin: BuiltinTools) -> Pool {
        let sources = self.servers.iter().map(|(server, it)| ServerTools {
            server,
            origin: it.origin,
            tools: match &it.placeholder {
                Some((_, item)) => std::slice::from_ref(&**item),
                None => it.catalogue.items(ListKind::Tools),
            },
            kind: match (&it.placeholder, it.origin) {
                (Some(_), _) => ToolKind::LoginPlaceholder,
                (None, NameOrigin::Embedded) => ToolKind::Embedded,
                (None, NameOrigin::Configured | NameOrigin::Connector) => ToolKind::Server,
            },
            filter: &it.filter,
        });
        let is_hidden = |server: &str, tool: &str| {
            permission::tool_hidden_by(&self.rules, server, &sanitise(tool)).is_some()
        };
        let denies = self.rules.entries().iter().any(|it| it.effect == PermissionEffect::Deny);
        let hidden: &dyn Fn(&str, &str) -> bool = if denies { &is_hidden } else { &|_, _| false };
        before.next_revision(sources, &PoolRules { hidden, built_in: builtin.definitions })
    }
}

/// Adds the tools of an IDE that only the host calls to those that the filter denies.
fn hide_ide_tools(filter: &mut ToolFilter, transport: TransportKind, catalogue: &Catalogue) {
    let names = catalogue.items(ListKind::Tools).iter().map(|it| &it.name);
    filter.deny.extend(names.filter(|it| ide::is_hidden_from_models(transport, it)).cloned());
}

/// The placeholder tool of a server that requires a login. It stays while the server reconnects after the login, so
/// that the server's own tools replace it at once.
fn login_placeholder(
    view: &ServerView,
    snapshot: &Snapshot,
    previous: Option<&ServerInput>,
    builtin: BuiltinTools,
) -> Option<(LoginMethod, Arc<ListItem>)> {
    let previous = previous.and_then(|it| it.placeholder.clone());
    match &view.status {
        Status::NeedsAuth(_) => previous.or_else(|| {
            let method = snapshot.connections.get(&view.name)?.login_method()?;
            Some((method, Arc::new((builtin.placeholder)(&view.name, method))))
        }),
        Status::Pending { .. } => previous,
        Status::Connected | Status::Failed(_) | Status::SessionRefused(_) | Status::Disabled => {
            None
        }
    }
}

/// Reports changes of the pool to a subscriber.
#[derive(Debug)]
pub struct PoolWatch {
    pools: watch::Receiver<Arc<Pool>>,
    seen: Arc<Pool>,
}

impl PoolWatch {
    /// The pool at the last reported change.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.seen
    }

    /// Waits for the next change; combines changes that came together. `None` when the host has stopped.
    pub async fn next(&mut self) -> Option<PoolDiff> {
        loop {
            self.pools.changed().await.ok()?;
            let inputs = self.pools.borrow_and_update().clone();
            let changes = diff(&self.seen, &inputs);
            self.seen = inputs;
            if !changes.is_empty() {
                return Some(changes);
            }
        }
    }
}

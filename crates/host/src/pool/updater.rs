//! Rebuilds the pool when the servers' catalogues or the rules change. One task does this; connections never wait for
//! it. It rebuilds only if an input of the pool changed, and on a blocking thread if there are many tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use switchboard_config::entry::server::{Fingerprint, ToolFilter};
use switchboard_config::permission::{self, PermissionEffect};
use tokio::sync::watch;

use crate::builtin_tools;
use crate::catalogue::fetch::{Catalogue, ListItem, ListKind};
use crate::connection::state::RetryPolicy;
use crate::connection::{ServerView, Status};
use crate::host::{Host, Snapshot};
use crate::login::server_login::LoginMethod;
use crate::pool::diff::{PoolDiff, diff};
use crate::pool::naming::{NameOrigin, sanitise};
use crate::pool::tool::ToolKind;
use crate::pool::{Pool, PoolRules, ServerTools};

/// With more tools than this, the pool is built on a blocking thread.
const BLOCKING_THRESHOLD: usize = 200;

/// The readers' side of the pool.
#[derive(Debug, Clone)]
pub(crate) struct PoolReceiver {
    pools: watch::Receiver<Arc<Pool>>,
    /// The revision of the newest snapshot that the pool includes.
    covered_revision: watch::Receiver<u64>,
}

/// Builds the first pool, and the future that follows the snapshots and ends with them. A short-lived host gets no
/// login placeholders, because it would not be running when the browser returns.
pub(crate) fn new(
    snapshots: watch::Receiver<Arc<Snapshot>>,
    policy: RetryPolicy,
) -> (PoolReceiver, impl Future<Output = ()> + Send + 'static) {
    let first = PoolInputs::default().build(&Pool::default());
    let (pool, pools) = watch::channel(Arc::new(first));
    let (covered_sender, covered_revision) = watch::channel(0);
    (PoolReceiver { pools, covered_revision }, run(snapshots, policy, pool, covered_sender))
}

async fn run(
    mut snapshots: watch::Receiver<Arc<Snapshot>>,
    policy: RetryPolicy,
    pool: watch::Sender<Arc<Pool>>,
    covered_revision: watch::Sender<u64>,
) {
    let mut current_inputs = PoolInputs::default();
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        let inputs = PoolInputs::of(&snapshot, &current_inputs, policy);
        if !inputs.builds_same_pool(&current_inputs) {
            let previous = pool.borrow().clone();
            pool.send_replace(build_pool(previous, inputs.clone()).await);
            current_inputs = inputs;
        }
        covered_revision.send_replace(snapshot.revision);
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}

async fn build_pool(previous: Arc<Pool>, inputs: PoolInputs) -> Arc<Pool> {
    if inputs.count() <= BLOCKING_THRESHOLD {
        return Arc::new(inputs.build(&previous));
    }
    let fallback = previous.clone();
    let building = tokio::task::spawn_blocking(move || Arc::new(inputs.build(&previous)));
    // If building fails, keep the previous pool.
    building.await.unwrap_or(fallback)
}

/// All inputs of a pool.
#[derive(Debug, Clone, Default)]
struct PoolInputs {
    servers: BTreeMap<String, ServerInput>,
    rules: Arc<permission::PermissionRules>,
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
    fn of(snapshot: &Snapshot, previous: &PoolInputs, policy: RetryPolicy) -> PoolInputs {
        let server_input = |view: &Arc<ServerView>| {
            let previous = previous.servers.get(&view.name);
            let previous = previous.filter(|it| it.fingerprint == view.fingerprint);
            let input = ServerInput {
                origin: NameOrigin::of(view.scope),
                catalogue: view.catalogue.clone(),
                filter: snapshot.tool_filters.get(&view.name).cloned().unwrap_or_default(),
                fingerprint: view.fingerprint.clone(),
                placeholder: match policy {
                    RetryPolicy::RetryWithBackoff => login_placeholder(view, snapshot, previous),
                    RetryPolicy::NoRetry => None,
                },
            };
            (view.name.clone(), input)
        };
        let servers = snapshot.servers.values().map(server_input).collect();
        PoolInputs { servers, rules: snapshot.rules.clone() }
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

    fn build(&self, previous: &Pool) -> Pool {
        let sources = self.servers.iter().map(|(server, it)| ServerTools {
            server,
            origin: it.origin,
            tools: match &it.placeholder {
                Some((_, item)) => std::slice::from_ref(&**item),
                None => it.catalogue.items(ListKind::Tools),
            },
            kind: match it.placeholder {
                Some(_) => ToolKind::LoginPlaceholder,
                None => ToolKind::Server,
            },
            filter: &it.filter,
        });
        let is_hidden = |server: &str, tool: &str| {
            permission::tool_hidden_by(&self.rules, server, &sanitise(tool)).is_some()
        };
        let has_deny_rules =
            self.rules.entries().iter().any(|it| it.effect == PermissionEffect::Deny);
        let hidden: &dyn Fn(&str, &str) -> bool =
            if has_deny_rules { &is_hidden } else { &|_, _| false };
        previous
            .next_revision(sources, &PoolRules { hidden, built_in: builtin_tools::definitions() })
    }
}

/// The placeholder tool of a server that requires a login. It stays while the server reconnects after the login, so
/// that the server's own tools replace it at once.
fn login_placeholder(
    view: &ServerView,
    snapshot: &Snapshot,
    previous: Option<&ServerInput>,
) -> Option<(LoginMethod, Arc<ListItem>)> {
    let previous = previous.and_then(|it| it.placeholder.clone());
    match &view.status {
        Status::NeedsAuth(_) => previous.or_else(|| {
            let method = snapshot.connections.get(&view.name)?.login_method()?;
            Some((method, Arc::new(builtin_tools::placeholder_item(&view.name, method))))
        }),
        Status::Pending { .. } => previous,
        Status::Connected | Status::Failed(_) | Status::Disabled => None,
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

impl Host {
    /// The current pool.
    pub fn pool(&self) -> Arc<Pool> {
        self.pools().pools.borrow().clone()
    }

    /// A receiver of the current and future pools.
    pub fn watch_pool(&self) -> watch::Receiver<Arc<Pool>> {
        self.pools().pools.clone()
    }

    /// Reports changes of the pool from now on.
    pub fn watch_pool_changes(&self) -> PoolWatch {
        let mut pools = self.watch_pool();
        let seen = pools.borrow_and_update().clone();
        PoolWatch { pools, seen }
    }

    /// The pool, once it includes the tools of [`Host::snapshot`].
    pub async fn settled_pool(&self) -> Arc<Pool> {
        let revision = self.snapshot().revision;
        let mut covered_revision = self.pools().covered_revision.clone();
        let _host_gone = covered_revision.wait_for(|it| *it >= revision).await;
        self.pool()
    }
}

//! The gateway as a whole: what is served is kept fresh, and clients come in through one of the fronts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use switchboard::call::pipeline::CallContext;
use switchboard::host::Host;
use switchboard_config::permission::PermissionRules;
use switchboard_config::settings::principals::Principals;
use switchboard_wire::protocol::era::Era;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::exposed::catalogue::{ExposeOptions, ExposedCatalogue};
use crate::multi_round_trip::suspended::SuspendedRequests;
use crate::relay::Relay;
use crate::telemetry::spans::Tracer;

/// How long a call may wait for its client to come back with answers.
const SUSPENDED_REQUEST_TTL: Duration = Duration::from_secs(30 * 60);

/// A gateway. Clones share it; it ends when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Gateway {
    pub(crate) relay: Arc<Relay>,
    pub(crate) suspended: SuspendedRequests,
}

impl Gateway {
    /// Opens a gateway to a host. The task keeps what is served fresh; await it once the gateway is dropped and the
    /// host has stopped. Must be called inside a runtime.
    pub fn open(
        host: &Host,
        desk: CallContext,
        options: ExposeOptions,
    ) -> (Gateway, JoinHandle<()>) {
        Gateway::open_with_tracer(host, desk, options, Tracer::disabled())
    }

    /// The same, and somebody is told of every request.
    pub fn open_with_tracer(
        host: &Host,
        desk: CallContext,
        options: ExposeOptions,
        tracer: Tracer,
    ) -> (Gateway, JoinHandle<()>) {
        let (published, catalogue) = watch::channel(Arc::new(ExposedCatalogue::default()));
        let relay = Arc::new(Relay::new(host.clone(), desk, catalogue, tracer));
        let (suspended, keeping) = SuspendedRequests::new(SUSPENDED_REQUEST_TTL);
        let mut tasks = JoinSet::new();
        tasks.spawn(refresh_catalogue(host.clone(), options, published));
        tasks.spawn(keeping);
        tasks.spawn(propagate_log_levels(relay.log_levels.subscribe(), Arc::downgrade(&relay)));
        let task = tokio::spawn(async move { while tasks.join_next().await.is_some() {} });
        (Gateway { relay, suspended }, task)
    }

    /// The rules changed. What was answered for a session still holds.
    pub fn set_rules(&self, rules: &PermissionRules, principals: &Principals) {
        self.relay.set_rules(rules, principals);
    }

    /// Waits until every server is connected or is known not to be, but no longer than this.
    pub async fn wait_until_ready(&self, max_wait: Duration) {
        let host = &self.relay.host;
        let mut catalogue = self.relay.catalogues.clone();
        let fresh = async {
            let snapshot = host.settled().await;
            let pool = host.settled_pool().await;
            let is_current = |it: &Arc<ExposedCatalogue>| {
                it.revision >= snapshot.revision && it.pool.revision() >= pool.revision()
            };
            let _closed = catalogue.wait_for(is_current).await;
        };
        let _some_are_slow = timeout(max_wait, fresh).await;
    }
}

/// Makes what is served anew whenever a server, its lists or the pool changed.
async fn refresh_catalogue(
    host: Host,
    options: ExposeOptions,
    published: watch::Sender<Arc<ExposedCatalogue>>,
) {
    let (mut snapshots, mut pools) = (host.watch(), host.watch_pool());
    // The host must be able to end while we watch it.
    drop(host);
    loop {
        let (snapshot, pool) =
            (snapshots.borrow_and_update().clone(), pools.borrow_and_update().clone());
        let before = published.borrow().clone();
        let options = options.clone();
        let rebuilt =
            tokio::task::spawn_blocking(move || before.next(&snapshot, &pool, &options)).await;
        if let Ok(rebuilt) = rebuilt {
            published.send_replace(Arc::new(rebuilt));
        }
        let gone = tokio::select! {
            changed = snapshots.changed() => changed.is_err(),
            changed = pools.changed() => changed.is_err(),
            () = published.closed() => true,
        };
        if gone {
            return;
        }
    }
}

/// Tells servers how much of their logs is wanted: when that changes, and when one is new.
async fn propagate_log_levels(
    mut levels: watch::Receiver<std::collections::HashMap<u64, &'static str>>,
    relay: std::sync::Weak<Relay>,
) {
    let Some(mut catalogue) = relay.upgrade().map(|it| it.catalogues.clone()) else { return };
    let mut notified: BTreeSet<Arc<str>> = BTreeSet::new();
    loop {
        let is_level_change = tokio::select! {
            changed = levels.changed() => match changed {
                Ok(()) => true,
                Err(_) => return,
            },
            changed = catalogue.changed() => match changed {
                Ok(()) => false,
                Err(_) => return,
            },
        };
        let Some(relay) = relay.upgrade() else { return };
        let now = catalogue.borrow_and_update().clone();
        levels.borrow_and_update();
        let loggers = |it: &&crate::exposed::catalogue::ExposedServer| {
            it.era == Era::Legacy && it.has_capability("logging")
        };
        let loggers: BTreeSet<Arc<str>> =
            now.servers.iter().filter(loggers).map(|it| it.server.clone()).collect();
        for server in &loggers {
            if is_level_change || !notified.contains(server) {
                relay.send_log_level(server).await;
            }
        }
        notified = loggers;
    }
}

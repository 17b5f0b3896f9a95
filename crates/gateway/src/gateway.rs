//! The gateway: opens it on a host, keeps its catalogue current, and collects its metrics. The fronts (`stdio`, `http`)
//! serve clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use switchboard::permission::ReasonDetail;
use switchboard::{CallContext, Host};
use switchboard_config::permission::PermissionRules;
use switchboard_config::settings::principals::Principals;
use switchboard_config::settings::quotas::CallQuota;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::downstream::leases::ConnectionLeases;
use crate::exposed::catalogue::ExposedCatalogue;
use crate::exposed::options::ExposeOptions;
use crate::multi_round_trip::modern_request::MultiRoundTrip;
use crate::multi_round_trip::suspended::SuspendedRequests;
use crate::principal_stats::PrincipalUse;
use crate::quotas::{LocalCounters, QuotaCounters, SharedCounters};
use crate::readiness::MissingServer;
use crate::relay::{
    LogLevels, REQUEST_STATE_TTL, Relay, VERSION, close_abandoned, propagate_log_levels,
    share_lists,
};
use crate::shared::fleet::StoreStatus;
use crate::shared::revocations::{RevocationList, RevokeError, RevokedSubject};
use crate::shared::shared_state::SharedState;
use crate::telemetry::audit_export::AuditExporter;
use crate::telemetry::prometheus;
use crate::telemetry::prometheus::{FleetNumbers, Format, Scrape};
use crate::telemetry::spans::Tracer;

/// A gateway. Clones share it; it ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Gateway {
    pub(crate) relay: Arc<Relay>,
    pub(crate) multi_round_trip: MultiRoundTrip,
}

impl Gateway {
    /// Opens a gateway on a host, without tracing. Await the task after the gateway is dropped and the host has
    /// stopped. Must be called inside a runtime.
    pub fn open(
        host: &Host,
        context: CallContext,
        options: ExposeOptions,
    ) -> (Gateway, JoinHandle<()>) {
        Gateway::open_with_tracer(host, context, options, Tracer::disabled())
    }

    /// Opens a gateway that records a span of each request. See [`Gateway::open`].
    pub fn open_with_tracer(
        host: &Host,
        context: CallContext,
        options: ExposeOptions,
        tracer: Tracer,
    ) -> (Gateway, JoinHandle<()>) {
        Gateway::open_replica(host, context, options, tracer, SharedState::alone())
    }

    /// Opens a gateway that shares its state with other replicas. See [`Gateway::open`].
    pub fn open_replica(
        host: &Host,
        context: CallContext,
        options: ExposeOptions,
        tracer: Tracer,
        shared: SharedState,
    ) -> (Gateway, JoinHandle<()>) {
        // Clients are not told where the operator's files are.
        let context = CallContext { reason_detail: ReasonDetail::WithoutPaths, ..context };
        let first = ExposedCatalogue::before_first_snapshot();
        let (published, catalogue) = watch::channel(Arc::new(first));
        let (log_levels, log_levels_task) = LogLevels::new();
        let (leases, abandoned) = ConnectionLeases::new();
        let mut tasks = JoinSet::new();
        let counters: Arc<dyn QuotaCounters> = match SharedCounters::new(&shared) {
            Some((counters, renewing)) => {
                tasks.spawn(renewing);
                Arc::new(counters)
            }
            None => Arc::new(LocalCounters::default()),
        };
        let (revocations, following) = RevocationList::new(shared.clone());
        tasks.spawn(following);
        let own = (tracer, log_levels, leases);
        let of_fleet = (shared, counters, revocations);
        let relay = Relay::new(host.clone(), context, catalogue, own, of_fleet);
        let relay = Arc::new(relay);
        let counted = Arc::downgrade(&relay);
        relay.shared.set_session_count(move || {
            counted.upgrade().map_or(0, |it| it.metrics.sessions.load(Ordering::Relaxed))
        });
        let (suspended, suspended_task) = SuspendedRequests::new(REQUEST_STATE_TTL);
        tasks.spawn(refresh_catalogue(host.clone(), options, published));
        tasks.spawn(suspended_task);
        tasks.spawn(log_levels_task);
        tasks.spawn(propagate_log_levels(Arc::downgrade(&relay)));
        tasks.spawn(share_lists(Arc::downgrade(&relay)));
        tasks.spawn(close_abandoned(Arc::downgrade(&relay), abandoned));
        let task = tokio::spawn(async move { while tasks.join_next().await.is_some() {} });
        let multi_round_trip = MultiRoundTrip::new(relay.clone(), suspended);
        (Gateway { relay, multi_round_trip }, task)
    }

    /// Replaces the permission rules. Grants for a session stay.
    pub fn set_rules(&self, rules: &PermissionRules, principals: &Principals) {
        self.relay.set_rules(rules, principals);
    }

    /// Replaces the quotas of principals. What was counted stays.
    pub fn set_quotas(&self, quotas: Vec<CallQuota>) {
        self.relay.quotas.set(quotas);
    }

    /// The principals that were seen since the start, the latest first.
    pub async fn principals(&self) -> Vec<PrincipalUse> {
        let mut principals = Vec::new();
        for (name, usage) in self.relay.principals.all() {
            let quotas = self.relay.quotas.of_principal(&name).await;
            principals.push(PrincipalUse { quotas, ..usage });
        }
        principals
    }

    /// Revokes a principal or a token, on all replicas: its requests are refused, and its sessions and streams end. Without a
    /// store it holds until the process ends.
    pub async fn revoke(&self, subject: RevokedSubject) -> Result<(), RevokeError> {
        self.relay.revocations.revoke(subject).await
    }

    /// Ends a revocation. Returns whether there was one.
    pub async fn restore(&self, subject: &RevokedSubject) -> Result<bool, RevokeError> {
        self.relay.revocations.restore(subject).await
    }

    /// Is this revoked?
    pub fn is_revoked(&self, subject: &RevokedSubject) -> bool {
        self.relay.revocations.has(subject)
    }

    /// Does the gateway share its state with other replicas in a store?
    pub fn has_store(&self) -> bool {
        self.relay.shared.store().is_some()
    }

    /// Shows the state of an exporter in the metrics. Only the first call has an effect.
    pub fn show_audit_exports(&self, exporter: &AuditExporter) {
        let _already_set = self.relay.audit_exports.set(exporter.counters.clone());
    }

    /// Sets the configured servers that are left out of the pool, for [`Gateway::missing_servers`].
    pub fn set_left_out(&self, servers: Vec<MissingServer>) {
        self.relay.left_out.set(servers);
    }

    /// The configured servers that clients cannot use now, and why.
    pub fn missing_servers(&self) -> Vec<MissingServer> {
        self.relay.left_out.missing(&self.relay.host.snapshot())
    }

    /// Waits until every server has connected or failed and the catalogue shows it, but no longer than `max_wait`.
    pub async fn wait_until_ready(&self, max_wait: Duration) {
        let host = &self.relay.host;
        let mut catalogues = self.relay.catalogues.clone();
        let ready = async {
            let snapshot = host.settled().await;
            let pool = host.settled_pool().await;
            let is_current = |it: &Arc<ExposedCatalogue>| {
                it.revision >= snapshot.revision && it.pool.revision() >= pool.revision()
            };
            let _closed = catalogues.wait_for(is_current).await;
        };
        let _some_are_slow = timeout(max_wait, ready).await;
    }

    /// Renders the metrics page.
    pub(crate) fn metrics_page(
        &self,
        format: Format,
        certificate_expires: Option<SystemTime>,
    ) -> String {
        let fleet = self.relay.shared.fleet();
        let audit_exports = self.relay.audit_exports.get().map(|it| &**it).unwrap_or_default();
        let scrape = Scrape {
            version: VERSION,
            metrics: &self.relay.metrics,
            snapshot: &self.relay.host.snapshot(),
            suspended_requests: self.multi_round_trip.suspended_count(),
            dropped_spans: self.relay.tracer.dropped(),
            audit: &self.relay.audit.status(),
            fleet: self.relay.shared.store().map(|_| FleetNumbers {
                is_store_connected: fleet.store == StoreStatus::Connected,
                replicas: fleet.alive.len(),
            }),
            audit_exports,
            certificate_expires,
        };
        prometheus::page(format, &scrape)
    }
}

/// Builds a new catalogue when a server, its lists or the pool changes. Ends with the host or the gateway.
async fn refresh_catalogue(
    host: Host,
    options: ExposeOptions,
    published: watch::Sender<Arc<ExposedCatalogue>>,
) {
    let (mut snapshots, mut pools) = (host.watch(), host.watch_pool());
    // The host cannot end while this task holds a handle.
    drop(host);
    loop {
        let (snapshot, pool) =
            (snapshots.borrow_and_update().clone(), pools.borrow_and_update().clone());
        let before = published.borrow().clone();
        let options = options.clone();
        let rebuilt =
            tokio::task::spawn_blocking(move || before.next(&snapshot, &pool, &options)).await;
        if let Ok(rebuilt) = rebuilt
            && published.send(Arc::new(rebuilt)).is_err()
        {
            return;
        }
        let is_closed = tokio::select! {
            changed = snapshots.changed() => changed.is_err(),
            changed = pools.changed() => changed.is_err(),
            () = published.closed() => true,
        };
        if is_closed {
            return;
        }
    }
}

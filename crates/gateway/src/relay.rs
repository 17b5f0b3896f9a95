//! Responds to requests of clients: finds the server that a request is for, and forwards it. Knows no transport; a
//! server's messages to the client go through the request's context. This file owns the state that all clients share.

mod call_contexts;
mod era_result;
mod errors;
mod forward;
mod identity;
mod lists;
mod log_levels;
mod lookup;
mod on_behalf;
mod progress;
mod quota_check;
mod request_state;
mod router;
mod set_level;
mod shared_lists;
mod shared_seen;
mod shared_tasks;
mod tools;
mod used_states;
mod visibility;

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use switchboard::audit::log::AuditLog;
use switchboard::{CallContext, Host, ToolCall};
use switchboard_config::permission::PermissionRules;
use switchboard_config::settings::principals::Principals;
use switchboard_wire::protocol::log_level::LogLevel;
use tokio::sync::{mpsc, watch};
use tracing::info;

use crate::approval_queue::ApprovalQueue;
use crate::downstream::client::Client;
use crate::downstream::leases::{AbandonedConnection, ConnectionLeases};
use crate::exposed::catalogue::ExposedCatalogue;
use crate::exposed::first_lists::FirstLists;
use crate::principal_stats::PrincipalStats;
use crate::quotas::{QuotaCounters, Quotas};
use crate::readiness::LeftOutServers;
use crate::sealed_state::StateSealer;
use crate::shared::revocations::RevocationList;
use crate::shared::shared_state::SharedState;
use crate::task_owners::TaskOwners;
use crate::telemetry::audit_export::ExportCounters;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::spans::Tracer;

use call_contexts::CallContexts;

pub(crate) use errors::{
    call_lost, exceeded_quota, invalid_request_state, is_store_away, store_away,
};
pub(crate) use log_levels::{LogLevels, propagate_log_levels};
pub(crate) use request_state::{REQUEST_STATE_TTL, RequestState, request_digest};
pub(crate) use shared_lists::share_lists;
use used_states::UsedStates;

/// The timeout of a request to a server.
const REQUEST_TIMEOUT: Duration = ToolCall::DEFAULT_TIMEOUT;

/// The version that the gateway declares.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The state that all clients of a gateway share.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) host: Host,
    pub(crate) catalogues: watch::Receiver<Arc<ExposedCatalogue>>,
    pub(crate) sealer: StateSealer,
    /// What replicas share.
    pub(crate) shared: SharedState,
    /// What is revoked.
    pub(crate) revocations: Arc<RevocationList>,
    /// The queue whose calls other replicas may decide.
    pub(crate) shared_approvals: OnceLock<ApprovalQueue>,
    pub(crate) metrics: Metrics,
    pub(crate) tracer: Tracer,
    pub(crate) audit: AuditLog,
    /// The targets that get copies of audit records, for the metrics.
    pub(crate) audit_exports: OnceLock<Arc<[Arc<ExportCounters>]>>,
    pub(crate) quotas: Quotas,
    pub(crate) principals: PrincipalStats,
    started: Instant,
    task_owners: TaskOwners,
    log_levels: LogLevels,
    call_contexts: CallContexts,
    used_states: UsedStates,
    leases: ConnectionLeases,
    pub(crate) first_lists: FirstLists,
    pub(crate) left_out: LeftOutServers,
}

impl Relay {
    pub(crate) fn new(
        host: Host,
        base_context: CallContext,
        catalogues: watch::Receiver<Arc<ExposedCatalogue>>,
        (tracer, log_levels, leases): (Tracer, LogLevels, ConnectionLeases),
        (shared, counters, revocations): (SharedState, Arc<dyn QuotaCounters>, Arc<RevocationList>),
    ) -> Relay {
        Relay {
            first_lists: FirstLists::new(host.clone(), catalogues.clone()),
            host,
            catalogues,
            sealer: shared.sealer().clone(),
            shared,
            revocations,
            shared_approvals: OnceLock::new(),
            metrics: Metrics::default(),
            tracer,
            audit: base_context.audit.clone(),
            audit_exports: OnceLock::new(),
            quotas: Quotas::new(counters),
            principals: PrincipalStats::default(),
            started: Instant::now(),
            task_owners: TaskOwners::default(),
            log_levels,
            call_contexts: CallContexts::new(base_context),
            used_states: UsedStates::new(REQUEST_STATE_TTL),
            leases,
            left_out: LeftOutServers::default(),
        }
    }

    /// The current catalogue.
    pub(crate) fn catalogue(&self) -> Arc<ExposedCatalogue> {
        self.catalogues.borrow().clone()
    }

    /// Replaces the permission rules of all principals. Grants for a session stay.
    pub(crate) fn set_rules(&self, rules: &PermissionRules, principals: &Principals) {
        info!(rules = rules.entries().len(), "permission rules of clients replaced");
        self.call_contexts.set_rules(rules, principals);
    }

    /// Sets the log level of a client whose session another replica has begun.
    pub(crate) async fn restore_log_level(&self, client: &Client, level: LogLevel) {
        client.set_log_level(level);
        self.log_levels.set(client.id, level).await;
    }

    /// Removes the state of a client that has disconnected, and closes its own connections.
    pub(crate) async fn client_disconnected(&self, client: &Client) {
        self.call_contexts.remove_session(&client.principal, client.session);
        if client.log_level().is_some() {
            self.log_levels.remove(client.id).await;
        }
        let own_connection = self.catalogue().own_connection_key(client);
        if let Some(key) = own_connection {
            self.host.close_dedicated(&key).await;
        }
    }
}

/// Closes the connections whose requests were cancelled, because their servers may still work on them. Ends with the
/// relay.
pub(crate) async fn close_abandoned(
    relay: Weak<Relay>,
    mut abandoned: mpsc::UnboundedReceiver<AbandonedConnection>,
) {
    while let Some(connection) = abandoned.recv().await {
        let Some(host) = relay.upgrade().map(|it| it.host.clone()) else { return };
        host.close_dedicated(&connection.connection_key).await;
    }
}

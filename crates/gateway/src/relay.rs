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
mod request_state;
mod router;
mod set_level;
mod tools;
mod visibility;

use std::sync::Arc;
use std::time::Duration;

use switchboard::call::pipeline::{CallContext, ToolCall};
use switchboard::host::Host;
use switchboard_config::permission::PermissionRules;
use switchboard_config::settings::principals::Principals;
use tokio::sync::watch;

use crate::downstream::client::Client;
use crate::exposed::catalogue::ExposedCatalogue;
use crate::sealed_state::StateSealer;
use crate::task_owners::TaskOwners;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::spans::Tracer;

use call_contexts::CallContexts;
pub(crate) use errors::invalid_request_state;
pub(crate) use log_levels::{LogLevels, propagate_log_levels};
pub(crate) use request_state::{REQUEST_STATE_TTL, RequestState, request_digest};

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
    pub(crate) metrics: Metrics,
    pub(crate) tracer: Tracer,
    task_owners: TaskOwners,
    log_levels: LogLevels,
    call_contexts: CallContexts,
}

impl Relay {
    pub(crate) fn new(
        host: Host,
        base_context: CallContext,
        catalogues: watch::Receiver<Arc<ExposedCatalogue>>,
        tracer: Tracer,
        log_levels: LogLevels,
    ) -> Relay {
        Relay {
            host,
            catalogues,
            sealer: StateSealer::new(),
            metrics: Metrics::default(),
            tracer,
            task_owners: TaskOwners::default(),
            log_levels,
            call_contexts: CallContexts::new(base_context),
        }
    }

    /// The current catalogue.
    pub(crate) fn catalogue(&self) -> Arc<ExposedCatalogue> {
        self.catalogues.borrow().clone()
    }

    /// Replaces the permission rules of all principals. Grants for a session stay.
    pub(crate) fn set_rules(&self, rules: &PermissionRules, principals: &Principals) {
        self.call_contexts.set_rules(rules, principals);
    }

    /// Removes the state of a client that has disconnected, and closes its own connections.
    pub(crate) async fn client_disconnected(&self, client: &Client) {
        if client.log_level().is_some() {
            self.log_levels.remove(client.id).await;
        }
        let own_connection = self.catalogue().own_connection_key(client);
        if let Some(key) = own_connection {
            self.host.close_dedicated(&key).await;
        }
    }
}

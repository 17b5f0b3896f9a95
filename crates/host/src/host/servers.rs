//! Which servers run, and what they are told of the host.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use switchboard_config::merge::EffectiveConfig;
use switchboard_config::permission::PermissionRules;
use switchboard_config::settings::hooks::ElicitationHook;
use switchboard_wire::peer::CallOwner;
use switchboard_wire::protocol::era::Era;

use super::Host;
use crate::connection::context::ServerWatch;
use crate::engine::changes::Changes;
use crate::request::error::RequestError;
use crate::sources::desired_server::{DesiredServer, desired_servers};
use crate::storage::stderr_log::StderrLog;

impl Host {
    /// Makes the servers of a configuration those that run. Servers with an unchanged definition run on.
    pub async fn apply(&self, effective: &EffectiveConfig) -> Changes {
        let changes = self.apply_servers(desired_servers(effective)).await;
        let of_servers = effective.servers.iter().flat_map(|it| &it.problems);
        let problems = effective.problems.iter().chain(of_servers).cloned().collect();
        Changes { problems, ..changes }
    }

    /// The same for a list of servers.
    pub async fn apply_servers(&self, desired: Vec<DesiredServer>) -> Changes {
        self.engine().apply(desired).await
    }

    /// Makes these the rules that hide tools. Set before [`Host::apply`], hidden tools never appear in the pool.
    pub async fn set_rules(&self, rules: PermissionRules) {
        self.engine().set_rules(rules).await;
    }

    /// Closes the connection of a server and opens it again; `None` where there is no such server.
    pub async fn reconnect(&self, name: &str) -> Option<()> {
        let handle = self.engine().connection(name)?;
        handle.reconnect().await;
        Some(())
    }

    /// Has the lists of a server fetched again, where it is connected: another process has seen them change.
    pub async fn refresh_lists(&self, server: &str) {
        if let Some(handle) = self.engine().connection(server) {
            handle.refresh_lists().await;
        }
    }

    /// Waits until a server is connected, and connects to it where needed.
    pub async fn ensure_connected(&self, server: &str) -> Result<(), RequestError> {
        self.services.requests().active_connection(server).await.map(drop)
    }

    /// The timeout of an attempt to connect to a server.
    pub fn connect_timeout(&self, server: &str) -> Duration {
        let handle = self.engine().connection(server);
        let own = handle.and_then(|it| it.desired().spec.common.connect_timeout);
        own.unwrap_or(self.context().connect_timeout)
    }

    /// Says that a user looks at the states of servers until the result is dropped. Remote servers are pinged then, so that
    /// one that is gone is noticed within 15 seconds.
    pub fn watch_servers(&self) -> ServerWatch {
        self.context().watch_servers()
    }

    /// Pings a server and returns the round-trip time.
    pub async fn ping(&self, server: &str, timeout: Duration) -> Result<Duration, RequestError> {
        self.services.requests().ping(server, timeout).await
    }

    /// Closes the dedicated connections with a key, when their client is gone.
    pub async fn close_dedicated(&self, key: &str) {
        self.engine().close_dedicated(key).await;
    }

    /// The log of the servers' standard error.
    pub fn stderr_log(&self) -> &StderrLog {
        &self.context().stderr_log
    }

    /// Sets the hooks that answer elicitations before the elicitor.
    pub fn set_hooks(&self, hooks: &[ElicitationHook]) {
        self.context().client_features.set_hooks(hooks);
    }

    /// Do hooks get the elicitations of this server?
    pub fn has_hooks(&self, server: &str) -> bool {
        self.context().client_features.has_hooks(server)
    }

    /// The result of an elicitation that a hook answers; `None` where no hook does.
    pub async fn hook_result(&self, server: &str, params: Json) -> Option<Json> {
        self.context().client_features.hook_result(server, params).await
    }

    /// Sets the client that answers the servers' requests that belong to no call. Legacy servers are told to request
    /// the roots again.
    pub async fn set_default_handler(&self, default_handler: Option<Arc<dyn CallOwner>>) {
        self.context().client_features.set_default_handler(default_handler);
        self.notify_roots_changed(None).await;
    }

    /// Sends `roots/list_changed` to the legacy servers on the dedicated connections with a key, or on the shared ones.
    pub async fn notify_roots_changed(&self, dedicated: Option<&str>) {
        let snapshot = self.snapshot();
        let dedicated_handles =
            snapshot.dedicated.iter().filter(|it| Some(&*it.0.1) == dedicated).map(|it| it.1);
        let shared_handles = snapshot.connections.values().filter(|_| dedicated.is_none());
        for handle in dedicated_handles.chain(shared_handles) {
            let view = handle.view();
            if view.server_info.as_ref().is_some_and(|it| it.era == Era::Legacy) {
                handle.notify("notifications/roots/list_changed").await;
            }
        }
    }
}

//! `logging/setLevel`. Servers get the lowest level that any client set; each client gets messages from its own level.

use switchboard_wire::protocol::log_level::LogLevel;
use switchboard_wire::server;

use super::Relay;
use crate::downstream::request::{InboundRequest, Outcome};
use crate::json::empty_object;

impl Relay {
    pub(super) async fn set_log_level(&self, request: &InboundRequest) -> Outcome {
        let level = request.params.get_string("level");
        let level = level.and_then(|it| LogLevel::parse(&it));
        let level = level.ok_or_else(|| server::invalid_params("`level` is not a log level"))?;
        let client = request.client();
        client.set_log_level(level);
        self.log_levels.set(client.id, level).await;
        // `propagate_log_levels` only reaches the shared connections.
        let catalogue = self.catalogue();
        let is_dedicated =
            |server: &str| catalogue.dedicated_connection(client, server, None).is_some();
        for exposed in catalogue.servers.iter().filter(|it| it.needs_log_level()) {
            if is_dedicated(&exposed.server) {
                let _best_effort = self.forward(&exposed.server, request, &request.params).await;
            }
        }
        Ok(empty_object())
    }
}

//! Forwards one request to one server, on behalf of the client.

use switchboard::request::ServerRequest;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;

use super::errors::{error_for_client, has_ended};
use super::progress::with_progress;
use super::request_state::request_digest;
use super::used_states::StateUse;
use super::{REQUEST_TIMEOUT, Relay};
use crate::downstream::request::{InboundRequest, Outcome};

impl Relay {
    /// Forwards a request with these parameters. Hidden servers are reported as missing.
    pub(super) async fn forward(
        &self,
        server: &str,
        request: &InboundRequest,
        params: &RawObject,
    ) -> Outcome {
        if !self.shows_server(request.principal(), server) {
            return Err(server::invalid_params("the server does not exist"));
        }
        let digest = || request_digest(&request.method, params);
        let mut forwarded = params.clone();
        if request.client().era == Era::Modern {
            let state_use = match request.method.is_read_only() {
                true => StateUse::UntilExpired,
                false => StateUse::Once,
            };
            self.unwrap_state(server, request, (digest, state_use), &mut forwarded)?;
        }
        let lease = self.lease_connection(request, server).await?;
        self.send_log_level_for(request, (server, lease.as_ref())).await;
        let span = self.tracer.start_upstream(&request.upstream_attributes(server, None));
        let outcome = with_progress(request, |progress| async {
            let server_request =
                ServerRequest::idempotent(request.method.to_name(), REQUEST_TIMEOUT)
                    .params(forwarded.to_payload())
                    .progress(progress)
                    .on_behalf_of(self.on_behalf_of(request, (server, lease.as_ref()), &span));
            let response = self.host.request(server, server_request).await;
            if let Some(lease) = &lease
                && response.as_ref().err().is_none_or(has_ended)
            {
                lease.complete();
            }
            response.map_err(|it| error_for_client(&it))
        });
        let outcome = outcome.await;
        span.finish_with(&outcome);
        Ok(self.wrap_state(server, request, digest, outcome?))
    }
}

//! Forwards one request to one server, on behalf of the client.

use switchboard::pool::naming;
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
use crate::method::Method;

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
            self.unwrap_state(server, request, (digest, state_use), &mut forwarded).await?;
        }
        // What the client reads here may be in its later calls.
        let prefix = self.catalogues.borrow().prefixes.get(server).cloned();
        let prefix = prefix.unwrap_or_else(|| naming::sanitise(server));
        self.record_seen(request.client(), (&prefix, request.method.as_str())).await?;
        let lease = self.lease_connection(request, server).await?;
        self.send_log_level_for(request, (server, lease.as_ref())).await;
        let span = self.tracer.start_upstream(&request.upstream_attributes(server, None));
        let outcome = with_progress(request, |progress| async {
            let server_request =
                ServerRequest::idempotent(request.method.to_name(), REQUEST_TIMEOUT)
                    .params(forwarded.to_payload())
                    .progress(progress)
                    .on_behalf_of(self.on_behalf_of(request, (server, lease.as_ref()), &span));
            let response = match cacheable_uri(request, params) {
                // A connection of the client's own may give other content than the shared one.
                Some(uri) if lease.is_none() && uses_shared_connection(&server_request) => {
                    let reader = (&**request.principal(), uri.as_str());
                    self.host.read_resource_for(server, reader, &server_request).await
                }
                Some(_) | None => self.host.request(server, server_request).await,
            };
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

/// The resource that a request reads, where the response may be kept: the request says nothing besides.
fn cacheable_uri(request: &InboundRequest, params: &RawObject) -> Option<String> {
    if request.method != Method::ResourcesRead {
        return None;
    }
    params.without(&["uri"]).is_empty().then(|| params.get_string("uri"))?
}

fn uses_shared_connection(request: &ServerRequest) -> bool {
    let on_behalf_of = request.options.on_behalf_of.as_ref();
    on_behalf_of.is_none_or(|it| it.dedicated_connection.is_none())
}

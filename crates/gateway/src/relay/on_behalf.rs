//! What a server learns about the client of a request, and the way back to that client.

use std::sync::Arc;

use switchboard::request::{ClientElicitor, OnBehalfOf, OnInputRequired};
use switchboard_wire::client::ClientMeta;
use switchboard_wire::jsonrpc::message::RpcError;
use switchboard_wire::peer::CallOwner;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::log_level::LogLevel;

use super::Relay;
use super::errors::too_many_calls;
use crate::downstream::leases::ConnectionLease;
use crate::downstream::request::InboundRequest;
use crate::downstream::server_requests::{HookedContext, UrlElicitationRelay};
use crate::telemetry::spans::ActiveSpan;
use crate::telemetry::trace_context;
use crate::telemetry::trace_context::TRACEPARENT;

impl Relay {
    /// The connection to a server that a request uses alone, where it needs one. Waits while too many are in use.
    pub(super) async fn lease_connection(
        &self,
        request: &InboundRequest,
        server: &str,
    ) -> Result<Option<ConnectionLease>, RpcError> {
        let client = request.client();
        if !self.catalogues.borrow().needs_lease(client, server) {
            return Ok(None);
        }
        let lease = Box::pin(self.leases.acquire(server, client)).await;
        let lease = lease.ok_or_else(|| too_many_calls(server))?;
        request.context.set_leased_session(lease.session);
        Ok(Some(lease))
    }

    /// The client of a request, for a request to a server on a leased connection, on its own or on the shared one. The server's
    /// own spans become children of `span`.
    pub(super) fn on_behalf_of(
        &self,
        request: &InboundRequest,
        (server, lease): (&str, Option<&ConnectionLease>),
        span: &ActiveSpan,
    ) -> OnBehalfOf {
        let client = request.client();
        let dedicated_connection =
            self.catalogues.borrow().dedicated_connection(client, server, lease);
        let log_level = client.log_level().map(LogLevel::as_str);
        let members = match span.context() {
            None => request.meta.forwarded_members(log_level),
            Some(context) => {
                let mut meta = request.meta.clone();
                meta.other_members
                    .insert(TRACEPARENT, trace_context::json_string(&context.to_traceparent()));
                meta.forwarded_members(log_level)
            }
        };
        let has_hooks = self.host.has_hooks(server);
        let handler: Arc<dyn CallOwner> = match has_hooks {
            false => request.context.clone(),
            true => Arc::new(HookedContext {
                context: request.context.clone(),
                host: self.host.clone(),
                server: server.to_owned(),
            }),
        };
        // A legacy client resolves the error itself; for a modern one it is not part of the protocol.
        let asks_for_urls =
            client.era == Era::Modern && (has_hooks || client.capabilities().url_elicitation);
        let url_elicitor =
            asks_for_urls.then(|| ClientElicitor(Arc::new(UrlElicitationRelay(handler.clone()))));
        OnBehalfOf {
            handler,
            url_elicitor,
            client_meta: ClientMeta {
                capabilities: Some(client.capabilities_json.clone()),
                members,
            },
            // Hooks see the input requests before a modern client does.
            on_input_required: match (client.era, has_hooks) {
                (Era::Legacy, _) | (Era::Modern, true) => OnInputRequired::Answer,
                (Era::Modern, false) => OnInputRequired::PassThrough,
            },
            dedicated_connection,
        }
    }
}

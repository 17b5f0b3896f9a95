//! What a server learns about the client of a request, and the way back to that client.

use switchboard::request::send::{OnBehalfOf, OnInputRequired};
use switchboard_wire::client::ClientMeta;
use switchboard_wire::protocol::era::Era;

use super::Relay;
use crate::downstream::log_level::LogLevel;
use crate::downstream::request::InboundRequest;
use crate::telemetry::spans::ActiveSpan;
use crate::telemetry::trace_context;
use crate::telemetry::trace_context::TRACEPARENT;

impl Relay {
    /// The client of a request, for a request to a server. The server's own spans become children of `span`.
    pub(super) fn on_behalf_of(
        &self,
        request: &InboundRequest,
        server: &str,
        span: &ActiveSpan,
    ) -> OnBehalfOf {
        let client = request.client();
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
        OnBehalfOf {
            handler: request.context.clone(),
            client_meta: ClientMeta {
                capabilities: Some(client.capabilities_json.clone()),
                members,
            },
            on_input_required: match client.era {
                Era::Legacy => OnInputRequired::Answer,
                Era::Modern => OnInputRequired::PassThrough,
            },
            dedicated_connection: self.catalogues.borrow().dedicated_connection(client, server),
        }
    }
}

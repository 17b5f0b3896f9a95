//! One request of a client, as every part of the gateway sees it. A front builds it once; `relay` responds to it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use switchboard::audit::log::RequestOrigin;
use switchboard_wire::jsonrpc::message::{Payload, RequestId, RpcError};
use switchboard_wire::protocol::request_meta::{RawObject, RequestMeta};
use switchboard_wire::server;

use crate::downstream::client::Client;
use crate::downstream::request_context::RequestContext;
use crate::method::Method;
use crate::telemetry::spans::{RequestAttributes, UpstreamAttributes};
use crate::telemetry::trace_context::TraceContext;

/// The longest request id that is recorded, in characters.
const MAX_ID_CHARS: usize = 100;

/// The result of a request, or the error that its client gets.
pub(crate) type Outcome = Result<Payload, RpcError>;

/// A running request.
pub(crate) type OutcomeFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A client's request.
#[derive(Debug)]
pub(crate) struct InboundRequest {
    id: RequestId,
    pub(crate) method: Method,
    /// The parameters without `_meta`.
    pub(crate) params: RawObject,
    pub(crate) meta: RequestMeta,
    /// The server's way back to the client.
    pub(crate) context: Arc<RequestContext>,
    /// The trace that the client's request belongs to.
    parent: Option<TraceContext>,
    /// The gateway's own span of the request, where it is recorded.
    span: OnceLock<TraceContext>,
}

impl InboundRequest {
    pub(crate) fn new(
        id: RequestId,
        method: Method,
        (params, meta): (RawObject, RequestMeta),
        context: Arc<RequestContext>,
    ) -> InboundRequest {
        let parent = TraceContext::from_meta(&meta);
        InboundRequest { id, method, params, meta, context, parent, span: OnceLock::new() }
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.context.client
    }

    pub(crate) fn principal(&self) -> &Arc<str> {
        &self.context.client.principal
    }

    /// Sets the span that upstream requests belong to.
    pub(crate) fn set_span(&self, span: Option<TraceContext>) {
        if let Some(span) = span {
            let _already_set = self.span.set(span);
        }
    }

    /// Where the request came from, for the audit log.
    pub(crate) fn origin(&self) -> RequestOrigin {
        let trace = self.span.get().or(self.parent.as_ref());
        RequestOrigin {
            session: self.client().session_digest().map(str::to_owned).unwrap_or_default(),
            request: self.id_text(),
            trace: trace.map(|it| it.trace_id()).unwrap_or_default(),
            span: self.span.get().map(|it| it.span_id()).unwrap_or_default(),
        }
    }

    /// The attributes of the request's span.
    pub(crate) fn span_attributes(&self) -> RequestAttributes<'_> {
        let has_target = matches!(self.method, Method::ToolsCall | Method::PromptsGet);
        RequestAttributes {
            method: &self.method,
            target: if has_target { self.params.get_string("name") } else { None },
            id: self.id_text(),
            session: self.client().session_digest(),
            parent: self.parent,
        }
    }

    /// The attributes of a span for a request to a server on behalf of this one.
    pub(crate) fn upstream_attributes<'a>(
        &'a self,
        server: &'a str,
        tool: Option<&'a str>,
    ) -> UpstreamAttributes<'a> {
        UpstreamAttributes { method: &self.method, server, tool, parent: self.span.get().copied() }
    }

    fn id_text(&self) -> String {
        let json = self.id.to_json();
        let text = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
        text.chars().take(MAX_ID_CHARS).collect()
    }
}

/// Parses a request's parameters and takes `_meta` out of them.
pub(crate) fn split_meta(params: Option<&Payload>) -> Result<(RawObject, RequestMeta), RpcError> {
    let params = RawObject::parse(params);
    let mut params = params.ok_or_else(|| server::invalid_params("`params` is not an object"))?;
    let meta = RequestMeta::take_from(&mut params);
    Ok((params, meta.ok_or_else(|| server::invalid_params("`_meta` is not an object"))?))
}

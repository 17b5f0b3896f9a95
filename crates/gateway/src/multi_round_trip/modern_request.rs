//! A modern client's question, which stands for itself: begun, or taken up again where it waited for answers.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard::audit::log;
use switchboard_wire::jsonrpc::message::{RequestId, RpcError};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta::{RawObject, RequestMeta};
use switchboard_wire::server;
use switchboard_wire::server::ServerSession;

use crate::downstream::client::Client;
use crate::gateway::Gateway;
use crate::multi_round_trip::pending::PendingRequest;
use crate::relay::{
    InboundRequest, REQUEST_STATE_TTL, RequestState, TraceOrigin, invalid_request_state,
};

/// A question.
#[derive(Debug)]
pub(crate) struct ModernRequest {
    pub(crate) client: Arc<Client>,
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: RawObject,
    pub(crate) meta: RequestMeta,
    pub(crate) id: RequestId,
}

/// The client behind one question.
pub(crate) fn client_from_meta(principal: Arc<str>, meta: &RequestMeta) -> Arc<Client> {
    let client = Client::new(principal, Era::Modern, meta.capabilities.as_ref());
    if let Some(level) = &meta.log_level {
        client.set_log_level(level);
    }
    Arc::new(client)
}

impl Gateway {
    /// Begins to work on a question, or goes on where it waits for the answers that came with it.
    pub(crate) async fn start_or_resume(
        &self,
        mut request: ModernRequest,
    ) -> Result<PendingRequest, RpcError> {
        if request.method == "server/discover" {
            let identity = self.relay.server_identity(Era::Modern, &request.client.principal);
            let reception = ServerSession::new(identity);
            let result =
                reception.encode_result(Era::Modern, &request.method, reception.discover());
            return Ok(PendingRequest::completed(request.client.principal.clone(), result));
        }
        let principal = request.client.principal.clone();
        if let Some(id) = self.suspended_id(&request)? {
            // What cannot be read costs nothing but another try.
            let responses = RawObject::parse(request.params.get("inputResponses"))
                .ok_or_else(|| server::invalid_params("`inputResponses` is no object"))?;
            let mut pending = self.suspended.take(id).await.ok_or_else(invalid_request_state)?;
            pending.submit_responses(&responses);
            return Ok(pending);
        }
        let digest =
            OriginalRequest { method: request.method.clone(), params: request.params.clone() };
        let relay = self.relay.clone();
        let inbound = |channel| InboundRequest {
            client: request.client,
            method: request.method,
            params: std::mem::take(&mut request.params),
            meta: request.meta,
            channel,
            origin: TraceOrigin::new(request.id),
        };
        Ok(PendingRequest::start(relay, (principal, digest), inbound))
    }

    /// The number of the parked call that a question goes on with, where it does.
    fn suspended_id(&self, request: &ModernRequest) -> Result<Option<u64>, RpcError> {
        let Some(sealed) = request.params.get_string("requestState") else { return Ok(None) };
        let opened = self.relay.sealer.unseal(&request.client.principal, &sealed);
        match opened.map_err(|_| invalid_request_state())? {
            RequestState::Suspended { id, digest } => {
                let is_same = digest == request_digest(&request.method, &request.params);
                is_same.then_some(Some(id)).ok_or_else(invalid_request_state)
            }
            RequestState::Upstream { .. } => Ok(None),
        }
    }

    /// Has work wait for the client, and gives it the state to come back with.
    pub(crate) async fn suspend(
        &self,
        pending: PendingRequest,
        principal: Arc<str>,
    ) -> Result<String, RpcError> {
        let digest = request_digest(&pending.original.method, &pending.original.params);
        let id = self.suspended.suspend(pending, principal.clone()).await;
        let id = id.ok_or_else(|| server::internal_error("too many calls wait for answers"))?;
        Ok(self.relay.sealer.seal(
            &principal,
            &RequestState::Suspended { id, digest },
            REQUEST_STATE_TTL,
        ))
    }
}

/// What a question was, for when it has to be known again.
#[derive(Debug, Clone, Default)]
pub(crate) struct OriginalRequest {
    pub(crate) method: Cow<'static, str>,
    params: RawObject,
}

/// What a question is about, whatever it is written like: the same when it comes again with answers.
pub(crate) fn request_digest(method: &str, params: &RawObject) -> String {
    let mut params = params.clone();
    params.remove("inputResponses");
    params.remove("requestState");
    let written: Json = params.to_payload().decode().unwrap_or_default();
    format!("{method} {}", log::digest(&written))
}

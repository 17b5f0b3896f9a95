//! A modern client's question, which stands for itself: begun, or taken up again where it waited for answers.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard::audit;
use switchboard_wire::asked::{RawObject, RequestMeta};
use switchboard_wire::era::Era;
use switchboard_wire::message::{RequestId, RpcError};
use switchboard_wire::reception::{self, ServerSession};

use crate::gateway::Gateway;
use crate::guest::Client;
use crate::relay::{
    InboundRequest, REQUEST_STATE_TTL, RequestState, TraceOrigin, invalid_request_state,
};
use crate::turn::PendingRequest;

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
    let guest = Client::new(principal, Era::Modern, meta.capabilities.as_ref());
    if let Some(level) = &meta.log_level {
        guest.set_log_level(level);
    }
    Arc::new(guest)
}

impl Gateway {
    /// Begins to work on a question, or goes on where it waits for the answers that came with it.
    pub(crate) async fn start_or_resume(
        &self,
        mut visit: ModernRequest,
    ) -> Result<PendingRequest, RpcError> {
        if visit.method == "server/discover" {
            let identity = self.relay.server_identity(Era::Modern, &visit.client.principal);
            let reception = ServerSession::new(identity);
            let result = reception.encode_result(Era::Modern, &visit.method, reception.discover());
            return Ok(PendingRequest::completed(visit.client.principal.clone(), result));
        }
        let principal = visit.client.principal.clone();
        if let Some(number) = self.suspended_id(&visit)? {
            // What cannot be read costs nothing but another try.
            let responses = RawObject::parse(visit.params.get("inputResponses"))
                .ok_or_else(|| reception::invalid_params("`inputResponses` is no object"))?;
            let mut turn = self.suspended.take(number).await.ok_or_else(invalid_request_state)?;
            turn.submit_responses(&responses);
            return Ok(turn);
        }
        let about = OriginalRequest { method: visit.method.clone(), params: visit.params.clone() };
        let relay = self.relay.clone();
        let asked = |outlet| InboundRequest {
            client: visit.client,
            method: visit.method,
            params: std::mem::take(&mut visit.params),
            meta: visit.meta,
            channel: outlet,
            origin: TraceOrigin::new(visit.id),
        };
        Ok(PendingRequest::start(relay, (principal, about), asked))
    }

    /// The number of the parked call that a question goes on with, where it does.
    fn suspended_id(&self, visit: &ModernRequest) -> Result<Option<u64>, RpcError> {
        let Some(sealed) = visit.params.get_string("requestState") else { return Ok(None) };
        let opened = self.relay.sealer.unseal(&visit.client.principal, &sealed);
        match opened.map_err(|_| invalid_request_state())? {
            RequestState::Suspended { number, about: what } => {
                let is_same = what == request_digest(&visit.method, &visit.params);
                is_same.then_some(Some(number)).ok_or_else(invalid_request_state)
            }
            RequestState::Upstream { .. } => Ok(None),
        }
    }

    /// Has work wait for the client, and gives it the state to come back with.
    pub(crate) async fn suspend(
        &self,
        turn: PendingRequest,
        principal: Arc<str>,
    ) -> Result<String, RpcError> {
        let about = request_digest(&turn.original.method, &turn.original.params);
        let number = self.suspended.suspend(turn, principal.clone()).await;
        let number =
            number.ok_or_else(|| reception::internal_error("too many calls wait for answers"))?;
        Ok(self.relay.sealer.seal(
            &principal,
            &RequestState::Suspended { number, about },
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
    format!("{method} {}", audit::digest(&written))
}

//! Starts a modern client's request, resumes one that was suspended, and suspends one that needs input.

use std::sync::Arc;

use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::RpcError;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::log_level::LogLevel;
use switchboard_wire::protocol::request_meta::{RawObject, RequestMeta};
use switchboard_wire::server;
use switchboard_wire::server::input_required;

use crate::downstream::client::Client;
use crate::downstream::request::{InboundRequest, Outcome};
use crate::json::payload;
use crate::multi_round_trip::pending::{Inbox, PendingRequest};
use crate::multi_round_trip::suspended::{SuspendedRequests, SuspendedView};
use crate::relay::{REQUEST_STATE_TTL, Relay, RequestState, invalid_request_state, request_digest};
use crate::shared::shared_state::ReplicaAddress;

/// The client of one modern request, counted for an account. It belongs to the session of its transport, where it has one.
pub(crate) fn client_from_meta(
    (principal, account): (Arc<str>, Arc<str>),
    meta: &RequestMeta,
    session: Option<u64>,
) -> Arc<Client> {
    let client =
        Client::new(principal, Era::Modern, meta.capabilities.as_ref()).with_account(account);
    let client = match session {
        Some(session) => client.in_session(session),
        None => client,
    };
    if let Some(level) = meta.log_level.as_deref().and_then(LogLevel::parse) {
        client.set_log_level(level);
    }
    Arc::new(client)
}

/// Runs the requests of modern clients. Clones share the suspended requests.
#[derive(Debug, Clone)]
pub(crate) struct MultiRoundTrip {
    relay: Arc<Relay>,
    suspended: SuspendedRequests,
}

impl MultiRoundTrip {
    pub(crate) fn new(relay: Arc<Relay>, suspended: SuspendedRequests) -> MultiRoundTrip {
        MultiRoundTrip { relay, suspended }
    }

    /// The number of suspended requests.
    pub(crate) fn suspended_count(&self) -> usize {
        self.suspended.count()
    }

    /// The suspended requests, oldest first.
    pub(crate) async fn suspended(&self) -> Vec<SuspendedView> {
        self.suspended.list().await
    }

    /// Cancels a suspended request. False if there is none with this id.
    pub(crate) async fn cancel_suspended(&self, id: u64) -> bool {
        self.suspended.take(id).await.is_some()
    }

    /// Starts a request whose channel has this inbox, or resumes the suspended one that its `requestState` names.
    pub(crate) async fn start_or_resume(
        &self,
        request: InboundRequest,
        inbox: Inbox,
    ) -> Result<PendingRequest, RpcError> {
        let Some(id) = self.suspended_id(&request)? else {
            return Ok(PendingRequest::start(self.relay.clone(), Arc::new(request), inbox));
        };
        // Checked first, so that a malformed request leaves the suspended one where it is.
        let responses = RawObject::parse(request.params.get("inputResponses"))
            .ok_or_else(|| server::invalid_params("`inputResponses` is not an object"))?;
        let mut pending = self.suspended.take(id).await.ok_or_else(invalid_request_state)?;
        pending.submit_responses(&responses);
        Ok(pending)
    }

    /// The replica that a request with a `requestState` must be sent to, if it is another one: it holds the suspended
    /// request or, where replicas share no store, knows whether the state was used.
    pub(crate) fn replica_of_state(&self, principal: &str, sealed: &str) -> Option<ReplicaAddress> {
        let shared = &self.relay.shared;
        match self.relay.sealer.unseal(principal, sealed).ok()? {
            RequestState::Suspended { replica, .. } => Some(replica),
            RequestState::Upstream { issuer, .. } => {
                Some(issuer).filter(|_| shared.store().is_none())
            }
        }
        .filter(|it| it.id != shared.me().id)
    }

    /// The id of the suspended request to resume, if the request has the state of one.
    fn suspended_id(&self, request: &InboundRequest) -> Result<Option<u64>, RpcError> {
        let Some(sealed) = request.params.get_string("requestState") else { return Ok(None) };
        let opened = self.relay.sealer.unseal(request.principal(), &sealed);
        match opened.map_err(|_| invalid_request_state())? {
            // The front has sent a request for another replica there, if it could.
            RequestState::Suspended { id, digest, replica } => {
                let is_same = replica.id == self.relay.shared.me().id
                    && digest == request_digest(&request.method, &request.params);
                is_same.then_some(Some(id)).ok_or_else(invalid_request_state)
            }
            RequestState::Upstream { .. } => Ok(None),
        }
    }

    /// Suspends a request. The result asks the client for input, and holds the state to send back with it.
    pub(crate) async fn suspend(&self, pending: PendingRequest, input_requests: &Json) -> Outcome {
        let request = pending.request().clone();
        let digest = request_digest(&request.method, &request.params);
        let id = self.suspended.suspend(pending).await;
        let id = id.ok_or_else(|| server::internal_error("too many requests wait for input"))?;
        let replica = self.relay.shared.my_address();
        let state = RequestState::Suspended { id, digest, replica };
        let sealed = self.relay.sealer.seal(request.principal(), &state, REQUEST_STATE_TTL);
        Ok(payload(&input_required(input_requests, &sealed)))
    }
}

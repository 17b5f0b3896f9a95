//! Requests without a session that only one replica can respond to: those with input for a suspended request, and those for
//! a task.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use memchr::memmem::Finder;
use switchboard_wire::jsonrpc::message::{LazyFinder, Message, RequestId};
use switchboard_wire::protocol::request_meta::RawObject;

use crate::http::body::Body;
use crate::http::modern::modern_response;
use crate::http::replica::ClientRequest;
use crate::http::replica::forward::{AtCut, ForwardError};
use crate::http::response::store_away;
use crate::http::server_state::{Caller, HttpState};
use crate::relay::call_lost;
use crate::shared::fleet::StoreStatus;
use crate::shared::shared_state::ReplicaAddress;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// A request that its replica holds. No other one can go on with it.
    SuspendedRequest,
    /// A task, which its server may know on any connection.
    Task,
}

/// The response of the replica that a request is for, if that is another one.
pub(crate) async fn respond_elsewhere(
    state: &HttpState,
    message: &Message,
    (headers, body): (&HeaderMap, &Bytes),
    caller: &Caller,
) -> Option<Response<Body>> {
    let (id, subject, replica) = replica_of(state, message, &caller.principal).await?;
    let shared = &state.gateway.relay.shared;
    let fleet = shared.fleet();
    let address = fleet.address(replica.id).unwrap_or(&replica.address);
    let (principal, account) = (&caller.principal, &caller.account);
    let at_cut = AtCut::Lost(&id);
    let request =
        ClientRequest { method: &Method::POST, headers, body, principal, account, at_cut };
    let error = match address.is_empty() {
        true => ForwardError::Gone,
        false => {
            let forwarded = state.replicas.forward(shared, (replica.id, address), request).await;
            match forwarded {
                Ok(response) => {
                    state.gateway.relay.metrics.forwarded_requests.fetch_add(1, Ordering::Relaxed);
                    return Some(response);
                }
                Err(error) => error,
            }
        }
    };
    let is_dead = fleet.store == StoreStatus::Connected && !fleet.alive.contains_key(&replica.id);
    match (subject, error) {
        // Here the server may know the task, too.
        (Subject::Task, ForwardError::Gone | ForwardError::NotThere) => None,
        (Subject::Task, ForwardError::Unreachable) if is_dead => None,
        (_, ForwardError::Unreachable) if !is_dead => Some(store_away(Some(id))),
        (
            _,
            ForwardError::Gone
            | ForwardError::Unreachable
            | ForwardError::MaybeSent
            | ForwardError::NotThere,
        ) => Some(modern_response(id, Err(call_lost()))),
    }
}

async fn replica_of(
    state: &HttpState,
    message: &Message,
    principal: &Arc<str>,
) -> Option<(RequestId, Subject, ReplicaAddress)> {
    static STATE_FINDER: LazyFinder = LazyFinder::new(|| Finder::new(b"requestState"));
    let Message::Request { id, method, params: Some(params) } = message else { return None };
    let is_task = method.starts_with("tasks/");
    if !is_task && !params.contains(&STATE_FINDER) {
        return None;
    }
    let params = RawObject::parse(Some(params))?;
    if let Some(sealed) = params.get_string("requestState") {
        let replica = state.gateway.multi_round_trip.replica_of_state(principal, &sealed)?;
        return Some((id.clone(), Subject::SuspendedRequest, replica));
    }
    let task = params.get_string("taskId").filter(|_| is_task)?;
    let replica = state.gateway.relay.task_elsewhere(&task, principal).await?;
    Some((id.clone(), Subject::Task, replica))
}

//! Sessions of other replicas: finds the owner of a session, sends it the request, and takes the session over if the owner
//! has gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, Response, StatusCode};
use switchboard_wire::jsonrpc::message::{self, Message, Messages, Payload, RequestId};
use switchboard_wire::protocol::era::Era;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::downstream::client::Client;
use crate::http::body::Body;
use crate::http::replica::ClientRequest;
use crate::http::replica::adoptions::Adoption;
use crate::http::replica::forward::ForwardError;
use crate::http::response::{refuse, rpc_response, store_away};
use crate::http::server_state::HttpState;
use crate::http::session::Session;
use crate::http::session_table::SessionStart;
use crate::relay::call_lost;
use crate::shared::fleet::{FleetView, StoreStatus};
use crate::shared::session_log::{SessionLog, read_record};
use crate::shared::shared_state::SharedState;
use crate::shared::store::{Epoch, ReplicaId};

/// How often the owner is looked up again, because it has changed meanwhile.
const MAX_ATTEMPTS: usize = 8;
/// How often an owner that is alive is asked again, although it does not have the session, before it loses the session.
const NOT_THERE_ATTEMPTS: usize = 4;
/// The delay between these attempts.
const NOT_THERE_DELAY: Duration = Duration::from_millis(25);
/// The length of a session id.
const ID_LEN: usize = 32;

/// Where a session is.
pub(crate) enum Found {
    /// On this replica, which may have taken it over.
    Here(Arc<Session>),
    /// On another replica, which has responded; or nowhere.
    Response(Response<Body>),
}

/// Looks for a session that is not on this replica.
pub(crate) async fn find(state: &HttpState, id: &str, request: ClientRequest<'_>) -> Found {
    let is_id = id.len() == ID_LEN && id.bytes().all(|it| it.is_ascii_hexdigit());
    if !is_id {
        return unknown_session();
    }
    for number in 0..MAX_ATTEMPTS {
        if let Some(session) = state.sessions.get(id, request.principal) {
            return Found::Here(session);
        }
        match attempt(state, id, (request, number)).await {
            Attempt::Done(found) => return found,
            Attempt::Again => {}
        }
    }
    Found::Response(store_away(request_id(request)))
}

enum Attempt {
    Done(Found),
    /// The owner has changed.
    Again,
}

async fn attempt(
    state: &HttpState,
    id: &str,
    (request, number): (ClientRequest<'_>, usize),
) -> Attempt {
    let shared = &state.gateway.relay.shared;
    let Some(store) = shared.store() else { return Attempt::Done(unknown_session()) };
    let locations = &state.replicas.locations;
    let known = locations.get(id);
    let stored = match known {
        Some(_) => None,
        None => match store.find_session(id).await {
            Ok(Some(stored)) => Some(stored),
            Ok(None) if may_be_incomplete(shared).await => return away(request),
            Ok(None) => return Attempt::Done(unknown_session()),
            Err(_) => return away(request),
        },
    };
    if let Some(stored) = &stored {
        match read_record(shared, id, &stored.record) {
            Some(record) if *record.principal == **request.principal => {}
            Some(_) => return Attempt::Done(unknown_session()),
            // Sealed with a key that this replica does not have yet, or has no more. The session exists.
            None => return away(request),
        }
    }
    let epoch = stored.as_ref().map(|it| it.epoch);
    match known.or(stored.and_then(|it| it.owner)) {
        Some(owner) if owner != shared.me().id => {
            ask_owner(state, id, (owner, epoch), (request, number)).await
        }
        // The owner has left; or it was this replica, which has lost it.
        Some(_) | None => match epoch {
            Some(epoch) => adopt(state, id, epoch, request).await,
            None => {
                locations.remove(id);
                Attempt::Again
            }
        },
    }
}

/// May the store lack sessions that exist? Then no session may be called unknown. A store that was emptied a moment ago
/// shows only in a heartbeat after that.
async fn may_be_incomplete(shared: &SharedState) -> bool {
    let is_incomplete =
        |fleet: &FleetView| fleet.store != StoreStatus::Connected || fleet.is_recovering();
    is_incomplete(&shared.fleet())
        || shared.beat_now().await.is_none_or(|fleet| is_incomplete(&fleet))
}

/// Sends the request to the owner. The epoch is known if the store was just read.
async fn ask_owner(
    state: &HttpState,
    id: &str,
    (owner, epoch): (ReplicaId, Option<Epoch>),
    (request, number): (ClientRequest<'_>, usize),
) -> Attempt {
    let shared = &state.gateway.relay.shared;
    let fleet = shared.fleet();
    let error = match fleet.address(owner) {
        // It may be suspended: its system still accepts connections, and no response would ever come.
        Some(_) if fleet.has_stopped(owner) => ForwardError::Gone,
        Some(address) => {
            let forwarded = state.replicas.forward(shared, (owner, address), request).await;
            match forwarded {
                Ok(response) => {
                    state.gateway.relay.metrics.forwarded_requests.fetch_add(1, Ordering::Relaxed);
                    state.replicas.locations.insert(id, owner);
                    return Attempt::Done(Found::Response(response));
                }
                Err(error) => error,
            }
        }
        // Not even its address is known: it has been gone for long, or has other keys.
        None => ForwardError::Unreachable,
    };
    state.replicas.locations.remove(id);
    let is_dead = fleet.store == StoreStatus::Connected && !fleet.alive.contains_key(&owner);
    match error {
        // It was not sent. The owner may be another one by now.
        ForwardError::Unreachable if !is_dead && epoch.is_none() => Attempt::Again,
        ForwardError::Unreachable if !is_dead => away(request),
        // A request that only reads may be sent twice.
        ForwardError::MaybeSent if request.method == Method::POST => {
            warn!(replica = %owner, "a replica has stopped while it ran a request");
            Attempt::Done(Found::Response(lost(request)))
        }
        ForwardError::MaybeSent if !is_dead => Attempt::Again,
        // The owner may be about to take the session over, or to leave it.
        ForwardError::NotThere if !is_dead && number < NOT_THERE_ATTEMPTS => {
            sleep(NOT_THERE_DELAY).await;
            Attempt::Again
        }
        ForwardError::Gone
        | ForwardError::NotThere
        | ForwardError::Unreachable
        | ForwardError::MaybeSent => match epoch {
            Some(epoch) => adopt(state, id, epoch, request).await,
            // The owner may be another one by now.
            None => Attempt::Again,
        },
    }
}

/// Takes a session over.
async fn adopt(state: &HttpState, id: &str, epoch: Epoch, request: ClientRequest<'_>) -> Attempt {
    if *state.shutdown.borrow() {
        // It would have to be left again at once.
        return away(request);
    }
    let guard = match state.replicas.adoptions.begin(id).await {
        Adoption::Begun(guard) => guard,
        Adoption::Waited => return Attempt::Again,
    };
    let slot = match request.account.open_session() {
        Ok(slot) => slot,
        Err(exceeded) => {
            let id = request_id(request);
            let refused = state.refuse_over_limit(id, &request.account.own, &exceeded);
            return Attempt::Done(Found::Response(refused));
        }
    };
    let shared = state.gateway.relay.shared.clone();
    let idle_timeout = state.options.session_idle_timeout;
    let (log, restored) = match SessionLog::take_over(shared, (id, epoch), idle_timeout).await {
        Ok(Some(taken)) => taken,
        Ok(None) => return Attempt::Again,
        Err(_) => return away(request),
    };
    info!(
        principal = &**request.principal,
        epoch = log.epoch(),
        "session of another replica found"
    );
    let capabilities = Payload::from_json(restored.record.capabilities.clone().into());
    let client = Client::new(request.principal.clone(), Era::Legacy, Some(&capabilities))
        .with_account(request.account.own.principal.clone());
    let credential = state.revocations.credential(request.headers);
    let version = restored.record.protocol_version.clone();
    let start = SessionStart::TakenOver(id.to_owned(), log, Box::new(restored));
    let owner = (Arc::new(client), credential);
    let account = (request.account.clone(), slot);
    let opened = state.sessions.open(owner, &version, account, start).await;
    drop(guard);
    state.gateway.relay.metrics.sessions_taken_over.fetch_add(1, Ordering::Relaxed);
    match opened {
        Some(session) => Attempt::Done(Found::Here(session)),
        None => away(request),
    }
}

fn away(request: ClientRequest<'_>) -> Attempt {
    Attempt::Done(Found::Response(store_away(request_id(request))))
}

/// 404: the client must begin a new session.
pub(crate) fn unknown_session() -> Found {
    let text = "the session does not exist; start a new one with `initialize`";
    Found::Response(refuse(StatusCode::NOT_FOUND, text))
}

/// The id of a request, so that its client gets an error for it.
fn request_id(request: ClientRequest<'_>) -> Option<RequestId> {
    match message::parse(request.body) {
        Ok(Messages::One(Message::Request { id, .. })) => Some(id),
        Ok(Messages::One(Message::Notification { .. } | Message::Response { .. }))
        | Ok(Messages::Batch(_))
        | Err(_) => None,
    }
}

/// The owner has stopped while it ran the request.
fn lost(request: ClientRequest<'_>) -> Response<Body> {
    match request_id(request) {
        Some(id) => rpc_response(id, Err(call_lost()), StatusCode::OK),
        None => refuse(StatusCode::BAD_GATEWAY, &call_lost().message),
    }
}

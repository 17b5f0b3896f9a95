//! Legacy clients: opens a session, responds to its messages, and serves its event streams.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod, Response, StatusCode};
use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta;
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;
use switchboard_wire::server::ServerSession;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::downstream::client::Client;
use crate::downstream::request::{InboundRequest, Outcome, OutcomeFuture, split_meta};
use crate::downstream::request_context::RequestContext;
use crate::http::body::Body;
use crate::http::negotiation::accepts;
use crate::http::options::SessionPolicy;
use crate::http::replica::ClientRequest;
use crate::http::replica::forward::AtCut;
use crate::http::response::{
    accepted, json as json_response, refuse, rpc_error, rpc_response, store_away,
};
use crate::http::server_state::{Arrival, Caller, HttpState};
use crate::http::session::channel::SessionChannel;
use crate::http::session::{Session, session_record};
use crate::http::session_table::{SessionStart, random_session_id};
use crate::http::shared_sessions::{self, Found};
use crate::json::{empty_object, payload};
use crate::method::Method;
use crate::relay::call_lost;
use crate::shared::session_log::SessionLog;
use crate::shared::shared_state::SessionsWhileAway;
use crate::shared::store::StoreError;
use crate::telemetry::trace_context;

const SESSION_ID_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID_HEADER: HeaderName = HeaderName::from_static("last-event-id");

/// How long ending a session may take before its client is told that it has ended.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The capacity of the queue of messages of one request.
const MESSAGE_CAPACITY: usize = 256;

/// The session of a request; None if the request names none.
pub(crate) fn find_session(
    state: &HttpState,
    headers: &HeaderMap,
    principal: &str,
) -> Result<Option<Arc<Session>>, Box<Response<Body>>> {
    let Some(id) = headers.get(SESSION_ID_HEADER) else { return Ok(None) };
    let session = id.to_str().ok().and_then(|id| state.sessions.get(id, principal));
    let Some(session) = session else {
        let text = "the session does not exist; start a new one with `initialize`";
        return Err(Box::new(refuse(StatusCode::NOT_FOUND, text)));
    };
    let version = headers.get(PROTOCOL_VERSION_HEADER).map(|it| it.to_str().unwrap_or_default());
    if version.is_some_and(|it| !request_meta::is_legacy_version(it)) {
        let text = "MCP-Protocol-Version: this version has no sessions";
        return Err(Box::new(refuse(StatusCode::BAD_REQUEST, text)));
    }
    session.mark_used();
    session.update_credential(headers, &state.revocations);
    Ok(Some(session))
}

/// A request without a body.
fn without_body<'a>(
    method: &'a HttpMethod,
    headers: &'a HeaderMap,
    caller: &'a Caller,
) -> ClientRequest<'a> {
    static NO_BODY: Bytes = Bytes::new();
    let (principal, account) = (&caller.principal, &caller.account);
    ClientRequest { method, headers, body: &NO_BODY, principal, account, at_cut: AtCut::End }
}

/// The session of a request on this replica after another one may have left it. Otherwise the response of the replica that
/// has it, or the refusal.
pub(crate) async fn find_elsewhere(
    state: &HttpState,
    request: ClientRequest<'_>,
    (refusal, arrival): (Box<Response<Body>>, Arrival),
) -> Result<Arc<Session>, Box<Response<Body>>> {
    let is_unknown = refusal.status() == StatusCode::NOT_FOUND;
    if !state.is_replica || !is_unknown {
        return Err(refusal);
    }
    let id = request.headers.get(SESSION_ID_HEADER).and_then(|it| it.to_str().ok());
    if arrival == Arrival::FromReplica {
        // Another request may be taking it over at this moment: the store names this replica already.
        state.replicas.adoptions.running(id.unwrap_or_default()).await;
        return match find_session(state, request.headers, request.principal) {
            Ok(Some(session)) => Ok(session),
            Ok(None) | Err(_) => {
                let text = "the session is not here";
                Err(Box::new(refuse(StatusCode::MISDIRECTED_REQUEST, text)))
            }
        };
    }
    let found = Box::pin(shared_sessions::find(state, id.unwrap_or_default(), request)).await;
    match found {
        Found::Here(session) => {
            session.mark_used();
            session.update_credential(request.headers, &state.revocations);
            Ok(session)
        }
        Found::Response(response) => Err(Box::new(response)),
    }
}

/// Opens a session.
pub(crate) async fn initialize(
    state: &HttpState,
    id: RequestId,
    (params, headers): (&RawObject, &HeaderMap),
    caller: Caller,
) -> Response<Body> {
    let slot = match state.open_session(&caller.account).await {
        Ok(slot) => slot,
        Err(exceeded) => return state.refuse_over_limit(Some(id), &caller.account.own, &exceeded),
    };
    let client = Client::new(caller.principal, Era::Legacy, params.get("capabilities"))
        .with_account(caller.account.own.principal.clone())
        .with_info(params.get("clientInfo"));
    let identity = state.gateway.relay.server_identity(Era::Legacy, &client.principal);
    let params = params.to_payload().decode().unwrap_or_default();
    let result = ServerSession::new(identity).initialize(&params);
    let version = result["protocolVersion"].as_str().unwrap_or_default();
    if state.options.sessions == SessionPolicy::NoClients {
        return rpc_response(id, Ok(payload(&result)), StatusCode::OK);
    }
    let start = match session_start(state, &client, version).await {
        Ok(start) => start,
        Err(_) => return store_away(Some(id)),
    };
    let credential = state.revocations.credential(headers);
    let owner = (Arc::new(client), credential);
    let opened = state.sessions.open(owner, version, (caller.account, slot), start).await;
    let Some(session) = opened else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down");
    };
    let mut response = rpc_response(id, Ok(payload(&result)), StatusCode::OK);
    if let Ok(value) = HeaderValue::from_str(&session.id) {
        response.headers_mut().insert(SESSION_ID_HEADER, value);
    }
    response
}

/// How a new session begins. Where replicas share sessions, it is in the store before its client knows its id.
async fn session_start(
    state: &HttpState,
    client: &Client,
    version: &str,
) -> Result<SessionStart, StoreError> {
    let shared = &state.gateway.relay.shared;
    if shared.store().is_none() {
        return Ok(SessionStart::new());
    }
    let id = random_session_id();
    let record = session_record(client, version);
    let idle_timeout = state.options.session_idle_timeout;
    let creating = SessionLog::create(shared.clone(), &id, &record, idle_timeout);
    let (log, created) = Box::pin(creating).await;
    match (created, shared.sessions_while_away()) {
        (Ok(()), _) | (Err(_), SessionsWhileAway::Local) => Ok(SessionStart::Logged(id, log)),
        (Err(error), SessionsWhileAway::Refused) => Err(error),
    }
}

/// Receives a message of a session.
pub(crate) async fn receive(
    state: &HttpState,
    session: Arc<Session>,
    message: Message,
    (headers, arrival): (&HeaderMap, Arrival),
) -> Response<Body> {
    match message {
        Message::Request { id, method, params } => {
            let Some(_running) = session.start_request() else {
                return left(&session, (id, arrival)).await;
            };
            let request = (id, Method::parse(method), params);
            respond(state, session, request, headers).await
        }
        Message::Notification { method, params } => {
            Box::pin(receive_notification(state, &session, &method, params.as_ref())).await;
            accepted()
        }
        Message::Response { id, outcome } => {
            if let Some(id) = id {
                session.deliver_response(id, outcome).await;
            }
            accepted()
        }
    }
}

/// The response to a request that came while the session was about to be left. It has not run.
async fn left(session: &Session, (id, arrival): (RequestId, Arrival)) -> Response<Body> {
    // The session's task bounds the time.
    session.ended().await;
    match arrival {
        // The other replica takes the session over.
        Arrival::FromReplica => refuse(StatusCode::MISDIRECTED_REQUEST, "the session is not here"),
        Arrival::FromClient => store_away(Some(id)),
    }
}

async fn respond(
    state: &HttpState,
    session: Arc<Session>,
    (id, method, params): (RequestId, Method, Option<Payload>),
    headers: &HeaderMap,
) -> Response<Body> {
    let (params, mut meta) = match split_meta(params.as_ref()) {
        Ok(split) => split,
        Err(error) => return rpc_error(Some(id), error, StatusCode::BAD_REQUEST),
    };
    trace_context::merge_headers(&mut meta, headers);
    let in_flight = match state.start_requests(&session.account, 1).await {
        Ok(in_flight) => in_flight,
        Err(exceeded) => {
            return state.refuse_over_limit(Some(id), &session.account.own, &exceeded);
        }
    };
    if let Some(outcome) = respond_from_session(&session, &method, &params).await {
        return rpc_response(id, outcome, StatusCode::OK);
    }
    let (sender, notifications) = mpsc::channel(MESSAGE_CAPACITY);
    let channel = Arc::new(SessionChannel::new(&session, sender));
    let context = Arc::new(RequestContext::new(session.client.clone(), channel));
    let request = InboundRequest::new(id.clone(), method, (params, meta), context);
    let relay = state.gateway.relay.clone();
    let changes_record = request.method == Method::SetLogLevel;
    let work: OutcomeFuture = Box::pin(async move {
        let _in_flight = in_flight;
        relay.respond(&request).await
    });
    if changes_record {
        let outcome = work.await;
        session.save_record().await;
        return rpc_response(id, outcome, StatusCode::OK);
    }
    respond_or_stream((state, headers), &session, (id, work), notifications).await
}

/// Handles the methods that need no server.
pub(crate) async fn respond_from_session(
    session: &Session,
    method: &Method,
    params: &RawObject,
) -> Option<Outcome> {
    if *method == Method::Ping {
        return Some(Ok(empty_object()));
    }
    if *method == Method::Initialize {
        return Some(Err(server::invalid_params("the session is initialized already")));
    }
    if !matches!(method, Method::ResourcesSubscribe | Method::ResourcesUnsubscribe) {
        return None;
    }
    let Some(uri) = params.get_string("uri") else {
        return Some(Err(server::invalid_params("`uri` is missing")));
    };
    if *method == Method::ResourcesSubscribe {
        return Some(session.subscribe(uri).await.map(|()| empty_object()));
    }
    session.unsubscribe(uri).await;
    Some(Ok(empty_object()))
}

/// Runs a request. The response is JSON if the result comes soon and without messages before it, else an event stream.
async fn respond_or_stream(
    (state, headers): (&HttpState, &HeaderMap),
    session: &Session,
    (id, mut work): (RequestId, OutcomeFuture),
    mut notifications: mpsc::Receiver<Message>,
) -> Response<Body> {
    let first = tokio::select! {
        biased;
        Some(message) = notifications.recv() => Some(message),
        outcome = &mut work => match notifications.try_recv() {
            Err(_) => return rpc_response(id, outcome, StatusCode::OK),
            Ok(message) => {
                work = Box::pin(async move { outcome });
                Some(message)
            }
        },
        // The stream's first event tells the client that the request is running.
        () = state.stream_delay.wait() => None,
    };
    let lost = id.clone();
    match session.start_stream(id, work, notifications, first).await {
        Some(stream) => state.event_stream(headers, stream),
        // Another replica has the session now. A 404 would make the client repeat the call.
        None if state.is_replica => rpc_response(lost, Err(call_lost()), StatusCode::OK),
        None => refuse(StatusCode::NOT_FOUND, "the session has ended"),
    }
}

/// Receives a notification of a session.
pub(crate) async fn receive_notification(
    state: &HttpState,
    session: &Session,
    method: &str,
    params: Option<&Payload>,
) {
    match method {
        "notifications/cancelled" => {
            let params = RawObject::parse(params).unwrap_or_default();
            if let Some(id) = params.get("requestId").and_then(|it| it.decode().ok()) {
                session.cancel(RequestId::from_json(&id)).await;
            }
        }
        "notifications/roots/list_changed" => {
            let relay = &state.gateway.relay;
            if let Some(dedicated) = relay.catalogue().own_connection_key(&session.client) {
                relay.host.notify_roots_changed(Some(&dedicated)).await;
            }
        }
        _ => {}
    }
}

/// Opens the stream for messages outside of requests, or resumes a stream that was interrupted.
pub(crate) async fn get_stream(
    state: &HttpState,
    headers: &HeaderMap,
    caller: &Caller,
    arrival: Arrival,
) -> Response<Body> {
    if !accepts(headers, "text/event-stream") {
        return refuse(StatusCode::NOT_ACCEPTABLE, "Accept: text/event-stream is missing");
    }
    let session = match find_session(state, headers, &caller.principal) {
        Ok(Some(session)) => session,
        // Modern clients have no such stream, and legacy clients send `initialize` first.
        Ok(None) => {
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "GET requires an Mcp-Session-Id");
        }
        Err(missing) => {
            let request = without_body(&HttpMethod::GET, headers, caller);
            match find_elsewhere(state, request, (missing, arrival)).await {
                Ok(session) => session,
                Err(response) => return *response,
            }
        }
    };
    let last_event = headers.get(LAST_EVENT_ID_HEADER).and_then(|it| it.to_str().ok());
    let stream = match last_event {
        Some(last_event) => session.resume(last_event.to_owned()).await,
        None => session.open_get_stream().await,
    };
    match stream {
        Some(stream) => state.event_stream(headers, stream),
        // Another replica has the session now, or will have it.
        None if state.is_replica && session.has_ended() => store_away(None),
        None => refuse(StatusCode::NOT_FOUND, "the event is unknown or no longer available"),
    }
}

/// Ends a session.
pub(crate) async fn delete_session(
    state: &HttpState,
    headers: &HeaderMap,
    caller: &Caller,
    arrival: Arrival,
) -> Response<Body> {
    let session = match find_session(state, headers, &caller.principal) {
        Ok(Some(session)) => session,
        Ok(None) => return refuse(StatusCode::BAD_REQUEST, "Mcp-Session-Id is missing"),
        Err(missing) => {
            let request = without_body(&HttpMethod::DELETE, headers, caller);
            match find_elsewhere(state, request, (missing, arrival)).await {
                Ok(session) => session,
                Err(response) => return *response,
            }
        }
    };
    state.sessions.close(&session);
    if state.is_replica {
        // Gone from the store, too, so that no replica can take it over.
        let _running_calls_end_slowly = timeout(END_TIMEOUT, session.ended()).await;
    }
    json_response(StatusCode::OK, Bytes::from_static(b"{}"))
}

//! A POST request to the MCP endpoint: reads it, finds its session, and hands it to the handler of its era.

use bytes::Bytes;
use http::{HeaderMap, Method as HttpMethod, Request, Response, StatusCode};
use hyper::body::Incoming;
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::{Message, Messages, RpcError};
use switchboard_wire::protocol::request_meta;
use switchboard_wire::server;
use tracing::trace;

use crate::downstream::request::split_meta;
use crate::http::body::Body;
use crate::http::negotiation::{check_content_negotiation, read_body};
use crate::http::options::SessionPolicy;
use crate::http::replica::ClientRequest;
use crate::http::replica::forward::AtCut;
use crate::http::response::{accepted, refuse, rpc_error};
use crate::http::server_state::{Arrival, Caller, HttpState};
use crate::http::{batch, legacy, modern, request_owner};
use crate::method::Method;
use crate::telemetry::trace_context;

/// Responds to a POST request.
pub(crate) async fn respond(
    state: &HttpState,
    request: Request<Incoming>,
    caller: Caller,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    if let Err(response) = check_content_negotiation(&head.headers) {
        return *response;
    }
    let bytes = match read_body(body, state.options.max_request_bytes).await {
        Ok(bytes) => bytes,
        Err(response) => return *response,
    };
    trace!(size = bytes.len(), "HTTP message received");
    respond_to(state, (&head.headers, bytes), caller, Arrival::FromClient).await
}

/// Responds to a POST request that was read.
pub(crate) async fn respond_to(
    state: &HttpState,
    (headers, bytes): (&HeaderMap, Bytes),
    caller: Caller,
    arrival: Arrival,
) -> Response<Body> {
    let session = match legacy::find_session(state, headers, &caller.principal) {
        Ok(session) => session,
        Err(missing) => {
            let (principal, account) = (&caller.principal, &caller.account);
            let method = &HttpMethod::POST;
            let (body, at_cut) = (&bytes, AtCut::End);
            let request = ClientRequest { method, headers, body, principal, account, at_cut };
            match legacy::find_elsewhere(state, request, (missing, arrival)).await {
                Ok(session) => Some(session),
                Err(response) => return *response,
            }
        }
    };
    match (message::parse(&bytes), session) {
        (Ok(Messages::One(message)), Some(session)) => {
            legacy::receive(state, session, message, (headers, arrival)).await
        }
        (Ok(Messages::One(message)), None) => {
            if state.is_replica && arrival == Arrival::FromClient {
                let request = (headers, &bytes);
                let elsewhere = request_owner::respond_elsewhere(state, &message, request, &caller);
                if let Some(response) = Box::pin(elsewhere).await {
                    return response;
                }
            }
            without_session(state, message, headers, caller).await
        }
        (Ok(Messages::Batch(parts)), Some(session))
            if request_meta::supports_batches(&session.protocol_version) =>
        {
            Box::pin(batch::respond(state, &session, parts)).await
        }
        (Ok(Messages::Batch(_)), _) => {
            refuse(StatusCode::BAD_REQUEST, "this protocol version has no batches")
        }
        (Err(malformed), _) => {
            let error = RpcError { code: -32700, message: malformed.to_string(), data: None };
            rpc_error(None, error, StatusCode::BAD_REQUEST)
        }
    }
}

/// A message without a session: `initialize`, or a modern request.
async fn without_session(
    state: &HttpState,
    message: Message,
    headers: &HeaderMap,
    caller: Caller,
) -> Response<Body> {
    let (id, method, params) = match message {
        Message::Request { id, method, params } => (id, Method::parse(method), params),
        // Without a session there is no request that it could belong to.
        Message::Notification { .. } | Message::Response { .. } => return accepted(),
    };
    let (params, mut meta) = match split_meta(params.as_ref()) {
        Ok(split) => split,
        Err(error) => return rpc_error(Some(id), error, StatusCode::BAD_REQUEST),
    };
    trace_context::merge_headers(&mut meta, headers);
    let is_modern = meta.protocol_version.is_some()
        || request_meta::has_modern_version_header(headers)
        || method == Method::Discover;
    if is_modern {
        return modern::respond(state, (id, method), (params, meta), headers, caller).await;
    }
    if method == Method::Initialize {
        return legacy::initialize(state, id, (&params, headers), caller).await;
    }
    if state.options.sessions == SessionPolicy::NoClients {
        return modern::respond_stateless(state, (id, method), (params, meta), headers, caller)
            .await;
    }
    let error = server::invalid_params("the request has no session: send `initialize` first");
    rpc_error(Some(id), error, StatusCode::BAD_REQUEST)
}

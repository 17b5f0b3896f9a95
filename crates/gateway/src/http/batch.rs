//! JSON-RPC batches, which one legacy protocol version has. All requests of a batch run at the same time; the response
//! holds all results, without messages before it.

use std::sync::Arc;

use futures_util::future;
use http::{Response, StatusCode};
use switchboard_wire::jsonrpc::message::{Message, ParseError, Payload, RequestId};
use tokio::sync::mpsc;

use crate::downstream::request::{InboundRequest, Outcome, split_meta};
use crate::downstream::request_context::RequestContext;
use crate::http::body::Body;
use crate::http::legacy::{receive_notification, respond_from_session};
use crate::http::response::{accepted, json as json_response, refuse, store_away, to_bytes};
use crate::http::server_state::HttpState;
use crate::http::session::Session;
use crate::http::session::channel::SessionChannel;
use crate::method::Method;

/// The largest number of messages in a batch.
const MAX_BATCH_MESSAGES: usize = 100;

/// Responds to a batch of a session.
pub(crate) async fn respond(
    state: &HttpState,
    session: &Arc<Session>,
    parts: Vec<Result<Message, ParseError>>,
) -> Response<Body> {
    if parts.len() > MAX_BATCH_MESSAGES {
        return refuse(StatusCode::BAD_REQUEST, "the batch is too large");
    }
    let Some(_running) = session.start_request() else {
        session.ended().await;
        return store_away(None);
    };
    let mut requests = Vec::new();
    for part in parts {
        match part {
            Ok(Message::Request { id, method, params }) => {
                requests.push(run(state, session, (id, Method::parse(method), params)));
            }
            Ok(Message::Notification { method, params }) => {
                receive_notification(state, session, &method, params.as_ref()).await;
            }
            Ok(Message::Response { id, outcome }) => {
                if let Some(id) = id {
                    session.deliver_response(id, outcome).await;
                }
            }
            Err(_) => {
                return refuse(StatusCode::BAD_REQUEST, "the batch has a malformed message");
            }
        }
    }
    if requests.is_empty() {
        return accepted();
    }
    let _in_flight = match state.start_requests(&session.account, requests.len()).await {
        Ok(in_flight) => in_flight,
        Err(exceeded) => return state.refuse_over_limit(None, &session.account.own, &exceeded),
    };
    let responses = future::join_all(requests).await;
    let mut text = b"[".to_vec();
    for (index, response) in responses.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(&to_bytes(response));
    }
    text.push(b']');
    json_response(StatusCode::OK, text.into())
}

async fn run(
    state: &HttpState,
    session: &Arc<Session>,
    (id, method, params): (RequestId, Method, Option<Payload>),
) -> Message {
    let outcome = run_request(state, session, (&id, method, params)).await;
    Message::Response { id: Some(id), outcome }
}

async fn run_request(
    state: &HttpState,
    session: &Arc<Session>,
    (id, method, params): (&RequestId, Method, Option<Payload>),
) -> Outcome {
    let (params, meta) = split_meta(params.as_ref())?;
    if let Some(outcome) = respond_from_session(session, &method, &params).await {
        return outcome;
    }
    let (sender, _no_reader) = mpsc::channel(1);
    let channel = Arc::new(SessionChannel::new(session, sender));
    let context = Arc::new(RequestContext::new(session.client.clone(), channel));
    let request = InboundRequest::new(id.clone(), method, (params, meta), context);
    state.gateway.relay.respond(&request).await
}

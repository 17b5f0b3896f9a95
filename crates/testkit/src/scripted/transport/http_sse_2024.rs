//! The SSE transport of 2024-11-05: one stream for all output of the server, and POST requests beside it.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::sync::mpsc;

use super::http_body;
use super::http_body::Source;
use super::http_session::HttpSession;
use super::http_state::{HttpRequest, HttpState};
use crate::http::response::{empty_response, event_stream_response};
use crate::scripted::client_channel::ClientChannel;
use crate::scripted::client_session::ClientSession;
use crate::scripted::protocol::Handshake;

/// Handles a request.
pub async fn respond(state: &Arc<HttpState>, http_request: HttpRequest) -> Response {
    match (http_request.parts.method.as_str(), http_request.parts.uri.path()) {
        ("GET", "/sse") => open_stream(state),
        ("POST", "/messages") => receive(state, &http_request),
        ("POST", "/sse") => empty_response(StatusCode::METHOD_NOT_ALLOWED),
        _ => empty_response(StatusCode::NOT_FOUND),
    }
}

fn open_stream(state: &Arc<HttpState>) -> Response {
    let (sender, frames) = mpsc::unbounded_channel();
    let name = format!("{}-{}", std::process::id(), state.server.next_id());
    let session =
        ClientSession::new(&state.server, ClientChannel::Direct(sender), Handshake::Pending);
    let mut sessions = state.sessions.lock().expect("no holder of the lock panics");
    sessions.insert(name.clone(), Arc::new(HttpSession::with_single_stream(session)));
    let endpoint = format!("event: endpoint\ndata: /messages?session={name}\n\n").into_bytes();
    event_stream_response(http_body::event_stream_body(
        &state.server.script,
        endpoint,
        Source::Direct(frames),
    ))
}

fn receive(state: &HttpState, http_request: &HttpRequest) -> Response {
    let name = http_request.parts.uri.query().and_then(|it| it.strip_prefix("session="));
    let mut sessions = state.sessions.lock().expect("no holder of the lock panics");
    let session = name.and_then(|it| sessions.get(it)).cloned();
    let Some(session) = session else {
        return empty_response(StatusCode::NOT_FOUND);
    };
    if session.session.standalone().is_closed() {
        sessions.remove(name.unwrap_or_default());
        return empty_response(StatusCode::NOT_FOUND);
    }
    drop(sessions);
    let Some(message) = &http_request.body else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    session.session.receive(message.clone(), &http_request.headers);
    let mut accepted = empty_response(StatusCode::ACCEPTED);
    *accepted.body_mut() = Body::from("Accepted");
    accepted
}

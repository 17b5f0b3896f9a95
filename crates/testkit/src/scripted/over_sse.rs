//! HTTP with server-sent events, as of 2024-11-05: one stream for everything the server says, and posts beside it.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::sync::mpsc;

use super::carried::{HttpRequest, HttpState, empty_response, event_stream_response};
use super::conversation::ClientSession;
use super::eras::Initialized;
use super::event_stream::{self, Source};
use super::outlet::ClientChannel;
use super::over_http::HttpSession;

/// Answers a request.
pub async fn respond(house: &Arc<HttpState>, arrived: HttpRequest) -> Response {
    match (arrived.parts.method.as_str(), arrived.parts.uri.path()) {
        ("GET", "/sse") => open_stream(house),
        ("POST", "/messages") => receive(house, &arrived),
        ("POST", "/sse") => empty_response(StatusCode::METHOD_NOT_ALLOWED),
        _ => empty_response(StatusCode::NOT_FOUND),
    }
}

fn open_stream(house: &Arc<HttpState>) -> Response {
    let (sender, frames) = mpsc::unbounded_channel();
    let name = format!("{}-{}", std::process::id(), house.server.next_id());
    let conversation =
        ClientSession::new(&house.server, ClientChannel::Direct(sender), Initialized::NotYet);
    let mut sessions = house.sessions.lock().expect("nobody panics with it");
    sessions.insert(name.clone(), Arc::new(HttpSession::with_single_stream(conversation)));
    let endpoint = format!("event: endpoint\ndata: /messages?session={name}\n\n").into_bytes();
    event_stream_response(event_stream::event_stream_body(
        &house.server.script,
        endpoint,
        Source::Direct(frames),
    ))
}

fn receive(house: &HttpState, arrived: &HttpRequest) -> Response {
    let name = arrived.parts.uri.query().and_then(|it| it.strip_prefix("session="));
    let mut sessions = house.sessions.lock().expect("nobody panics with it");
    let session = name.and_then(|it| sessions.get(it)).cloned();
    let Some(session) = session else {
        return empty_response(StatusCode::NOT_FOUND);
    };
    if session.session.standalone().is_closed() {
        sessions.remove(name.unwrap_or_default());
        return empty_response(StatusCode::NOT_FOUND);
    }
    drop(sessions);
    let Some(message) = &arrived.body else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    session.session.receive(message.clone(), &arrived.headers);
    let mut accepted = empty_response(StatusCode::ACCEPTED);
    *accepted.body_mut() = Body::from("Accepted");
    accepted
}

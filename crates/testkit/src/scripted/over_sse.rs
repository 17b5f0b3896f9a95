//! HTTP with server-sent events, as of 2024-11-05: one stream for everything the server says, and posts beside it.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::sync::mpsc;

use super::carried::{Arrived, House, status, stream};
use super::conversation::Conversation;
use super::eras::Opened;
use super::event_stream::{self, Source};
use super::outlet::Outlet;
use super::over_http::Session;

/// Answers a request.
pub async fn answer(house: &Arc<House>, arrived: Arrived) -> Response {
    match (arrived.parts.method.as_str(), arrived.parts.uri.path()) {
        ("GET", "/sse") => open(house),
        ("POST", "/messages") => take(house, &arrived),
        ("POST", "/sse") => status(StatusCode::METHOD_NOT_ALLOWED),
        _ => status(StatusCode::NOT_FOUND),
    }
}

fn open(house: &Arc<House>) -> Response {
    let (sender, frames) = mpsc::unbounded_channel();
    let name = format!("{}-{}", std::process::id(), house.actor.number());
    let conversation = Conversation::new(&house.actor, Outlet::Direct(sender), Opened::NotYet);
    let mut sessions = house.sessions.lock().expect("nobody panics with it");
    sessions.insert(name.clone(), Arc::new(Session::of(conversation)));
    let endpoint = format!("event: endpoint\ndata: /messages?session={name}\n\n").into_bytes();
    stream(event_stream::events(&house.actor.script, endpoint, Source::Direct(frames)))
}

fn take(house: &House, arrived: &Arrived) -> Response {
    let name = arrived.parts.uri.query().and_then(|it| it.strip_prefix("session="));
    let mut sessions = house.sessions.lock().expect("nobody panics with it");
    let session = name.and_then(|it| sessions.get(it)).cloned();
    let Some(session) = session else {
        return status(StatusCode::NOT_FOUND);
    };
    if session.conversation.standing().is_closed() {
        sessions.remove(name.unwrap_or_default());
        return status(StatusCode::NOT_FOUND);
    }
    drop(sessions);
    let Some(message) = &arrived.body else {
        return status(StatusCode::BAD_REQUEST);
    };
    session.conversation.take(message.clone(), &arrived.headers);
    let mut accepted = status(StatusCode::ACCEPTED);
    *accepted.body_mut() = Body::from("Accepted");
    accepted
}

//! Responses, and events of streams, as bytes.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use switchboard_wire::message::{Id, Message, RemoteError};

use super::body::Body;
use crate::turn::Outcome;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NOT_KEPT: HeaderValue = HeaderValue::from_static("no-store");

/// A short text.
pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    with(status, TEXT, Bytes::from_static(text.as_bytes()))
}

/// A text of another kind.
pub(super) fn page(text: String, kind: &'static str) -> Response<Body> {
    with(StatusCode::OK, HeaderValue::from_static(kind), text.into())
}

/// A refusal of ours, as an error that belongs to no question.
pub(super) fn refused(status: StatusCode, reason: &str) -> Response<Body> {
    let error = RemoteError { code: -32000, message: reason.to_owned(), data: None };
    error_to(None, error, status)
}

/// An error of the protocol with a status.
pub(super) fn error_to(id: Option<Id>, error: RemoteError, status: StatusCode) -> Response<Body> {
    with(status, JSON, written(&Message::Answer { id, outcome: Err(error) }))
}

/// An answer, all of it.
pub(super) fn answer(id: Id, outcome: Outcome, status: StatusCode) -> Response<Body> {
    with(status, JSON, written(&Message::Answer { id: Some(id), outcome }))
}

/// JSON that is there already.
pub(super) fn json(status: StatusCode, bytes: Bytes) -> Response<Body> {
    with(status, JSON, bytes)
}

/// Taken, and there is nothing to say.
pub(super) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// What a browser is told that asks first.
pub(super) fn preflight(headers: HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::Whole(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    *response.headers_mut() = headers;
    response
}

/// A stream of events.
pub(super) fn events(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Proxies that gather what they pass on would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn with(status: StatusCode, kind: HeaderValue, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(bytes)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert(header::CACHE_CONTROL, NOT_KEPT);
    response
}

/// A message as bytes.
pub(super) fn written(message: &Message) -> Bytes {
    let size = match message {
        Message::Answer { outcome: Ok(result), .. } => result.as_bytes().len(),
        Message::Answer { .. } | Message::Request { .. } | Message::Notification { .. } => 256,
    };
    let mut text = Vec::with_capacity(size + 64);
    message.write_to(&mut text);
    text.into()
}

/// An event that holds a message. Messages are one line, as data of events must be.
pub(super) fn event(id: Option<&str>, message: &Message) -> Bytes {
    let mut text = Vec::with_capacity(256);
    if let Some(id) = id {
        text.extend_from_slice(b"id: ");
        text.extend_from_slice(id.as_bytes());
        text.push(b'\n');
    }
    text.extend_from_slice(b"data: ");
    message.write_to(&mut text);
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// The first event of a stream: it has a name to come back with, and nothing else.
pub(super) fn first_event(id: &str) -> Bytes {
    format!("id: {id}\nretry: 1000\ndata: \n\n").into()
}

/// A line that only keeps the connection open.
pub(super) fn breath() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

//! Responses, and events of streams, as bytes.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use switchboard_wire::jsonrpc::message::{Message, RequestId, RpcError};

use super::body::Body;
use crate::multi_round_trip::pending::Outcome;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A short text.
pub(crate) fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    full(status, TEXT, Bytes::from_static(text.as_bytes()))
}

/// A text of another kind.
pub(crate) fn text_of_type(text: String, content_type: &'static str) -> Response<Body> {
    full(StatusCode::OK, HeaderValue::from_static(content_type), text.into())
}

/// A refusal of ours, as an error that belongs to no question.
pub(crate) fn refuse(status: StatusCode, reason: &str) -> Response<Body> {
    let error = RpcError { code: -32000, message: reason.to_owned(), data: None };
    rpc_error(None, error, status)
}

/// An error of the protocol with a status.
pub(crate) fn rpc_error(
    id: Option<RequestId>,
    error: RpcError,
    status: StatusCode,
) -> Response<Body> {
    full(status, JSON, to_bytes(&Message::Response { id, outcome: Err(error) }))
}

/// An answer, all of it.
pub(crate) fn rpc_response(id: RequestId, outcome: Outcome, status: StatusCode) -> Response<Body> {
    full(status, JSON, to_bytes(&Message::Response { id: Some(id), outcome }))
}

/// JSON that is there already.
pub(crate) fn json(status: StatusCode, bytes: Bytes) -> Response<Body> {
    full(status, JSON, bytes)
}

/// Taken, and there is nothing to say.
pub(crate) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::Full(None));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// What a browser is told that asks first.
pub(crate) fn preflight(headers: HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::Full(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    *response.headers_mut() = headers;
    response
}

/// A stream of events.
pub(crate) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Proxies that gather what they pass on would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn full(status: StatusCode, content_type: HeaderValue, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Full(Some(bytes)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
    response
}

/// A message as bytes.
pub(crate) fn to_bytes(message: &Message) -> Bytes {
    let size = match message {
        Message::Response { outcome: Ok(result), .. } => result.as_bytes().len(),
        Message::Response { .. } | Message::Request { .. } | Message::Notification { .. } => 256,
    };
    let mut text = Vec::with_capacity(size + 64);
    message.write_to(&mut text);
    text.into()
}

/// An event that holds a message. Messages are one line, as data of events must be.
pub(crate) fn sse_event(id: Option<&str>, message: &Message) -> Bytes {
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
pub(crate) fn sse_first_event(id: &str) -> Bytes {
    format!("id: {id}\nretry: 1000\ndata: \n\n").into()
}

/// A line that only keeps the connection open.
pub(crate) fn sse_keepalive() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

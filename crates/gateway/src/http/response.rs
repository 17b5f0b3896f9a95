//! HTTP responses, and the events of event streams, as bytes.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use switchboard_wire::jsonrpc::message::{Message, RequestId, RpcError};

use crate::downstream::request::Outcome;
use crate::http::body::Body;
use crate::http::limits::LimitExceeded;
use crate::relay::{exceeded_quota, store_away as store_away_error};

/// The interval of keepalives on an idle event stream.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(25);

/// The longest `Retry-After`, in seconds: a day.
const MAX_RETRY_AFTER: u64 = 24 * 3600;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A plain text.
pub(crate) fn text(status: StatusCode, text: String) -> Response<Body> {
    full(status, TEXT, text.into())
}

/// A text with another content type.
pub(crate) fn text_of_type(text: String, content_type: &'static str) -> Response<Body> {
    full(StatusCode::OK, HeaderValue::from_static(content_type), text.into())
}

/// Refuses a request, with a JSON-RPC error without an id.
pub(crate) fn refuse(status: StatusCode, reason: &str) -> Response<Body> {
    let error = RpcError { code: -32000, message: reason.to_owned(), data: None };
    rpc_error(None, error, status)
}

/// A JSON-RPC error.
pub(crate) fn rpc_error(
    id: Option<RequestId>,
    error: RpcError,
    status: StatusCode,
) -> Response<Body> {
    full(status, JSON, to_bytes(&Message::Response { id, outcome: Err(error) }))
}

/// Refuses a request that exceeds a limit: 429 if the principal has used its share, 503 if all together have.
pub(crate) fn over_limit(id: Option<RequestId>, exceeded: &LimitExceeded) -> Response<Body> {
    let (status, scope) = match exceeded.limit.is_total() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "all clients together exceed"),
        false => (StatusCode::TOO_MANY_REQUESTS, "this client exceeds"),
    };
    let message = format!("{scope} the limit `{}`; try again later", exceeded.limit.label());
    let mut response = rpc_error(id, RpcError { code: -32000, message, data: None }, status);
    let seconds = exceeded.retry_after.as_millis().div_ceil(1000).max(1);
    if let Ok(seconds) = HeaderValue::from_str(&seconds.to_string()) {
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// 503: what the request needs is in the store of the replicas, which cannot be reached.
pub(crate) fn store_away(id: Option<RequestId>) -> Response<Body> {
    const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
    let mut response = rpc_error(id, store_away_error(), StatusCode::SERVICE_UNAVAILABLE);
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
    response
}

/// A JSON-RPC response.
pub(crate) fn rpc_response(id: RequestId, outcome: Outcome, status: StatusCode) -> Response<Body> {
    if let Err(error) = &outcome
        && let Some(seconds) = retry_after_quota(error)
    {
        let message = Message::Response { id: Some(id), outcome };
        let mut response = full(StatusCode::TOO_MANY_REQUESTS, JSON, to_bytes(&message));
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
        return response;
    }
    full(status, JSON, to_bytes(&Message::Response { id: Some(id), outcome }))
}

/// When to try again after a quota was used up, in seconds.
fn retry_after_quota(error: &RpcError) -> Option<HeaderValue> {
    let data: serde_json::Value = exceeded_quota(error)?.decode().ok()?;
    Some(HeaderValue::from(data["retryAfterSeconds"].as_u64()?.min(MAX_RETRY_AFTER)))
}

/// A JSON document.
pub(crate) fn json(status: StatusCode, bytes: Bytes) -> Response<Body> {
    full(status, JSON, bytes)
}

/// 202: a notification or a response was accepted.
pub(crate) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::Full(None));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The response to a CORS preflight request.
pub(crate) fn preflight(headers: HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::Full(None));
    *response.status_mut() = StatusCode::NO_CONTENT;
    *response.headers_mut() = headers;
    response
}

/// An event stream.
pub(crate) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Tells proxies not to buffer events.
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

/// Encodes a message.
pub(crate) fn to_bytes(message: &Message) -> Bytes {
    let size = match message {
        Message::Response { outcome: Ok(result), .. } => result.as_bytes().len(),
        Message::Response { .. } | Message::Request { .. } | Message::Notification { .. } => 256,
    };
    let mut text = Vec::with_capacity(size + 64);
    message.write_to(&mut text);
    text.into()
}

/// An event with a message. An encoded message has no line breaks, as the data of an event requires.
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

/// The first event of a stream. It only has an id to resume from.
pub(crate) fn sse_first_event(id: &str) -> Bytes {
    format!("id: {id}\nretry: 1000\ndata: \n\n").into()
}

/// A comment that keeps the connection open.
pub(crate) fn sse_keepalive() -> Bytes {
    Bytes::from_static(b": still here\n\n")
}

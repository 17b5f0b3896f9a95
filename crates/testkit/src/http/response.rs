//! Constructors of HTTP responses for test servers.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

/// A response without a body.
pub fn empty_response(code: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// A JSON response.
pub fn json_response(code: StatusCode, body: Body) -> Response {
    let mut response = empty_response(code);
    *response.body_mut() = body;
    with_header(response, "content-type", "application/json")
}

/// An event stream response.
pub fn event_stream_response(body: Body) -> Response {
    let mut response = Response::new(body);
    response = with_header(response, "cache-control", "no-cache");
    response = with_header(response, "content-type", "text/event-stream");
    response
}

/// Sets a header.
pub fn with_header(mut response: Response, name: &str, value: &str) -> Response {
    let name = HeaderName::from_bytes(name.as_bytes()).expect("a script has real headers");
    let value = HeaderValue::from_str(value).expect("a script has real headers");
    response.headers_mut().insert(name, value);
    response
}

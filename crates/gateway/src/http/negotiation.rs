//! Content negotiation of a POST request, and reading of its body within limits of size and time.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::http::body::Body;
use crate::http::response::refuse;

/// How long a request's body may take to arrive.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Checks that the body is JSON, and that the client accepts both JSON and event streams.
pub(crate) fn check_content_negotiation(headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
    // The exact text that most clients send.
    const BOTH: &[u8] = b"application/json, text/event-stream";
    let header_is = |name, text: &[u8]| headers.get(name).is_some_and(|it| it.as_bytes() == text);
    if header_is(header::CONTENT_TYPE, b"application/json") && header_is(header::ACCEPT, BOTH) {
        return Ok(());
    }
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let text = "Content-Type: application/json is missing";
        return Err(Box::new(refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        let text = "Accept: application/json, text/event-stream is missing";
        return Err(Box::new(refuse(StatusCode::NOT_ACCEPTABLE, text)));
    }
    Ok(())
}

/// Does the `Accept` header include this media type?
pub(crate) fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let family = media_type.split('/').next().unwrap_or_default();
    let accepts = |kind: &str| {
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind == "*/*"
            || kind.eq_ignore_ascii_case(media_type)
            || kind.strip_suffix("/*").is_some_and(|it| it.eq_ignore_ascii_case(family))
    };
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    values.flat_map(|it| it.split(',')).any(accepts)
}

/// Reads a request's body.
pub(crate) async fn read_body(
    body: Incoming,
    max_bytes: usize,
) -> Result<Bytes, Box<Response<Body>>> {
    let refused = |status, text: &str| Box::new(refuse(status, text));
    match timeout(BODY_READ_TIMEOUT, Limited::new(body, max_bytes).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(refused(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large"))
        }
        Ok(Err(_)) => Err(refused(StatusCode::BAD_REQUEST, "the request is incomplete")),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "the request took too long to arrive")),
    }
}

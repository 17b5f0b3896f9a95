//! Reads response bodies within limits, and turns error responses into [`TransportError`].

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};

use super::response::HttpResponse;
use crate::transport_error::{HttpErrorResponse, TransportError};

/// How much of an error body is kept for messages.
const MAX_SHOWN_BODY: usize = 2 * 1024;
/// How much of an unused body is read, so that its connection can be reused.
const MAX_DRAINED: usize = 16 * 1024;
/// How many challenges of one response are kept, and how much of each header.
const MAX_CHALLENGES: usize = 16;
const MAX_HEADER: usize = 4 * 1024;

/// The kind of a body, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentKind {
    Json,
    EventStream,
    Missing,
    Other,
}

/// The kind of a response body.
pub(crate) fn content_kind(headers: &HeaderMap) -> ContentKind {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return ContentKind::Missing };
    let value = value.as_bytes();
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    let essence = value[..end].trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        ContentKind::Json
    } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
        ContentKind::EventStream
    } else {
        ContentKind::Other
    }
}

/// Reads a complete body. A body that arrives in one chunk is not copied.
pub(crate) async fn read_body(
    response: &mut HttpResponse,
    limit: usize,
) -> Result<Bytes, TransportError> {
    let too_large = || TransportError::TooLarge { limit };
    let announced = response.content_length().unwrap_or(0);
    if announced > limit as u64 {
        return Err(too_large());
    }
    response.prefer_single_chunk();
    let Some(first) = response.chunk().await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(too_large());
    }
    let Some(second) = response.chunk().await? else { return Ok(first) };
    // An announced length is trusted up to this size only.
    const MAX_PREALLOCATED: u64 = 1024 * 1024;
    let room = usize::try_from(announced.min(MAX_PREALLOCATED)).unwrap_or(0);
    let mut body = BytesMut::with_capacity(room.max(first.len() + second.len()));
    body.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if body.len() + chunk.len() > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
        next = response.chunk().await?;
    }
    Ok(body.freeze())
}

/// Reads a small unused body. A larger one closes the connection.
pub(crate) async fn drain(mut response: HttpResponse) {
    let _connection_closes = read_prefix(&mut response, MAX_DRAINED).await;
}

async fn read_prefix(response: &mut HttpResponse, limit: usize) -> Vec<u8> {
    let mut prefix = Vec::new();
    while prefix.len() < limit
        && let Ok(Some(chunk)) = response.chunk().await
    {
        prefix.extend_from_slice(&chunk[..chunk.len().min(limit - prefix.len())]);
    }
    prefix
}

/// The error of a response whose body was not read.
pub(crate) async fn status_error(mut response: HttpResponse) -> TransportError {
    let body = read_prefix(&mut response, MAX_SHOWN_BODY).await;
    status_error_with_body(response.status().as_u16(), response.headers(), &body)
}

/// The error of a response with the given body.
pub(crate) fn status_error_with_body(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
) -> TransportError {
    let text = |value: &http::HeaderValue| printable(value.as_bytes(), MAX_HEADER);
    let challenges = headers.get_all(header::WWW_AUTHENTICATE).iter();
    TransportError::Status(Box::new(HttpErrorResponse {
        status,
        body: printable(body, MAX_SHOWN_BODY),
        challenges: challenges.take(MAX_CHALLENGES).map(text).collect(),
        retry_after: headers.get(header::RETRY_AFTER).map(text),
    }))
}

/// The error of a success response that is not MCP.
pub(crate) async fn not_mcp_error(mut response: HttpResponse) -> TransportError {
    let body = read_prefix(&mut response, MAX_SHOWN_BODY).await;
    not_mcp_error_with_body(response.headers(), &body)
}

/// The same with the given body.
pub(crate) fn not_mcp_error_with_body(headers: &HeaderMap, body: &[u8]) -> TransportError {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.map(|value| printable(value.as_bytes(), MAX_HEADER));
    TransportError::NotMcp {
        content_type: content_type.unwrap_or_default(),
        body_prefix: printable(body, MAX_SHOWN_BODY),
    }
}

/// Text without control characters other than line feeds, safe for a terminal.
fn printable(bytes: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(limit)]);
    let shown = text.chars().map(|character| match character.is_control() {
        true if character != '\n' => ' ',
        true | false => character,
    });
    shown.collect()
}

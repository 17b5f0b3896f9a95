//! Reading HTTP answers within bounds: bodies, refusals, and what is no answer of ours.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};

use super::Received;
use crate::fault::{Fault, HttpAnswer};

/// How much of a refusal is kept to be shown.
const SHOWN: usize = 2 * 1024;
/// How much of a body that nobody wants is read, so that its connection can be used again.
const LEFTOVER: usize = 16 * 1024;
/// How many challenges of one answer are kept, and how much of each header.
const CHALLENGES: usize = 16;
const HEADER: usize = 4 * 1024;

/// What a body is, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Events,
    Unnamed,
    Other,
}

/// What the answer's body is.
pub(crate) fn kind_of(headers: &HeaderMap) -> Kind {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Kind::Unnamed };
    let value = value.as_bytes();
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    let essence = value[..end].trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        Kind::Json
    } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
        Kind::Events
    } else {
        Kind::Other
    }
}

/// Reads a whole body. One that came in a piece is not copied.
pub(crate) async fn body_of(response: &mut Received, limit: usize) -> Result<Bytes, Fault> {
    let too_large = || Fault::TooLarge { limit };
    let announced = response.content_length().unwrap_or(0);
    if announced > limit as u64 {
        return Err(too_large());
    }
    response.wanted_whole();
    let Some(first) = response.chunk().await? else { return Ok(Bytes::new()) };
    if first.len() > limit {
        return Err(too_large());
    }
    let Some(second) = response.chunk().await? else { return Ok(first) };
    // What is announced is not believed beyond what a small server would send.
    const BELIEVED: u64 = 1024 * 1024;
    let room = usize::try_from(announced.min(BELIEVED)).unwrap_or(0);
    let mut body = BytesMut::with_capacity(room.max(first.len() + second.len()));
    body.extend_from_slice(&first);
    let mut next = Some(second);
    while let Some(piece) = next {
        if body.len() + piece.len() > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&piece);
        next = response.chunk().await?;
    }
    Ok(body.freeze())
}

/// Reads as much as is cheap of a body that nobody wants; the rest closes the connection.
pub(crate) async fn let_go(mut response: Received) {
    let _connection_closes = beginning_of(&mut response, LEFTOVER).await;
}

async fn beginning_of(response: &mut Received, limit: usize) -> Vec<u8> {
    let mut beginning = Vec::new();
    while beginning.len() < limit
        && let Ok(Some(piece)) = response.chunk().await
    {
        beginning.extend_from_slice(&piece[..piece.len().min(limit - beginning.len())]);
    }
    beginning
}

/// A refusal whose body was not read yet.
pub(crate) async fn refusal(mut response: Received) -> Fault {
    let body = beginning_of(&mut response, SHOWN).await;
    refusal_with(response.status().as_u16(), response.headers(), &body)
}

/// A refusal with the body that came with it.
pub(crate) fn refusal_with(status: u16, headers: &HeaderMap, body: &[u8]) -> Fault {
    let text = |value: &http::HeaderValue| printable(value.as_bytes(), HEADER);
    let challenges = headers.get_all(header::WWW_AUTHENTICATE).iter();
    Fault::Status(Box::new(HttpAnswer {
        status,
        body: printable(body, SHOWN),
        challenges: challenges.take(CHALLENGES).map(text).collect(),
        retry_after: headers.get(header::RETRY_AFTER).map(text),
    }))
}

/// A success that is none of ours.
pub(crate) async fn stranger(mut response: Received) -> Fault {
    let body = beginning_of(&mut response, SHOWN).await;
    stranger_with(response.headers(), &body)
}

/// The same, with the body that was read.
pub(crate) fn stranger_with(headers: &HeaderMap, body: &[u8]) -> Fault {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.map(|value| printable(value.as_bytes(), HEADER));
    Fault::NotMcp {
        content_type: content_type.unwrap_or_default(),
        beginning: printable(body, SHOWN),
    }
}

/// What can be shown of bytes that should be text: nothing that moves a cursor.
fn printable(bytes: &[u8], limit: usize) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(limit)]);
    let shown = text.chars().map(|sign| match sign.is_control() {
        true if sign != '\n' => ' ',
        true | false => sign,
    });
    shown.collect()
}

//! A message to POST: its kind, and its share of the queue limit.

use bytes::Bytes;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::jsonrpc::message::{Message, Payload, RequestId};
use crate::protocol::headers::PROTOCOL_VERSION_HEADER;
use crate::transport::OutgoingMessage;

/// The bytes that an exchange adds to [`Transport::queued_bytes`](crate::transport::Transport::queued_bytes): 256
/// exchanges fill the limit of the peer.
const EXCHANGE_LOAD: usize = 4 * 1024;
/// Large messages add more, but one of 10 MB still leaves room for others.
const BODY_BYTES_PER_UNIT: usize = 64;

/// A message to POST.
pub(crate) struct Post {
    pub(crate) kind: PostKind,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PostKind {
    /// A request that starts a session.
    Initialize(RequestId),
    /// Any other request.
    Request(RequestId, RequestLifetime),
    /// `notifications/initialized`, which completes the handshake.
    Initialized,
    /// Any other notification, or a response.
    OneWay,
}

/// Whether a request survives the loss of its response stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestLifetime {
    /// The request ends with its stream.
    Stream,
    /// The server continues, and the stream can be resumed.
    Session,
}

impl PostKind {
    pub(crate) fn from_message(outgoing: &OutgoingMessage) -> PostKind {
        let is_modern =
            outgoing.headers.as_ref().is_some_and(|it| it.contains_key(PROTOCOL_VERSION_HEADER));
        match &outgoing.message {
            Message::Request { id, .. } if is_modern => {
                PostKind::Request(id.clone(), RequestLifetime::Stream)
            }
            Message::Request { id, method, .. } if method == "initialize" => {
                PostKind::Initialize(id.clone())
            }
            Message::Request { id, .. } => PostKind::Request(id.clone(), RequestLifetime::Session),
            Message::Notification { method, .. } if method == "notifications/initialized" => {
                PostKind::Initialized
            }
            Message::Notification { .. } | Message::Response { .. } => PostKind::OneWay,
        }
    }
}

impl Post {
    /// A message with the headers of every POST, and its own.
    pub(crate) fn new(kind: PostKind, base_headers: &HeaderMap, outgoing: OutgoingMessage) -> Post {
        let mut headers = base_headers.clone();
        if let Some(more) = outgoing.headers {
            headers.extend(*more);
        }
        let mut body = Vec::with_capacity(256);
        outgoing.message.write_to(&mut body);
        Post { kind, headers, body: body.into() }
    }

    pub(crate) fn load(&self) -> usize {
        EXCHANGE_LOAD + self.body.len() / BODY_BYTES_PER_UNIT
    }
}

/// The request that a cancellation names.
pub(crate) fn cancelled_id(params: &Payload) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct CancelledParams<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    let parsed: CancelledParams<'_> = serde_json::from_slice(params.as_bytes()).ok()?;
    Some(RequestId::from_raw(parsed.id))
}

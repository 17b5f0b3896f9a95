//! Transports: what carries the messages of a peer. The peer does not know which one it has.

pub mod control_channel;
pub mod http_sse_2024;
pub mod in_memory;
pub mod stdio;
pub mod streamable_http;
pub mod websocket;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use thiserror::Error;

use crate::http::sse_decoder::SseEvent;
use crate::jsonrpc::message;
use crate::jsonrpc::message::{Message, Messages, ParseError, Payload, RequestId, RpcError};
use crate::transport_error::TransportError;

/// One end of a message channel.
///
/// Owned by the task of the peer, so it needs no locks. Dropping it closes it.
pub trait Transport: Send + 'static {
    /// Whether headers of a message reach the peer.
    const CARRIES_HEADERS: bool = false;

    /// A way to send requests without the task that owns the transport, if there is one.
    fn fast_path(&self) -> Option<Arc<dyn FastPath>> {
        None
    }

    /// Queues a message. Never waits; [`Transport::next`] sends the queue.
    fn push(&mut self, outgoing: OutgoingMessage);

    /// How many bytes are queued. Above a limit the peer takes no more messages from callers.
    fn queued_bytes(&self) -> usize;

    /// Sends the queue and closes the session, if the transport has one. Messages that arrive meanwhile may be
    /// lost.
    fn shutdown(&mut self) -> impl Future<Output = ()> + Send;

    /// Sends the queue and returns the next event.
    ///
    /// Cancel safe.
    fn next(&mut self) -> impl Future<Output = Result<TransportEvent, CloseReason>> + Send;
}

/// Sends requests past the task that owns a transport, so that no other task is woken. For requests whose response
/// is all that comes back.
pub trait FastPath: fmt::Debug + Send + Sync {
    /// Takes a request, or returns it if it has to go through the task. Dropping the future cancels the request.
    fn try_send(
        self: Arc<Self>,
        outgoing: OutgoingMessage,
    ) -> Result<BoxFuture<'static, FastPathOutcome>, OutgoingMessage>;
}

/// The outcome of a request on the fast path.
#[derive(Debug)]
pub enum FastPathOutcome {
    /// The response.
    Response(Result<Payload, RpcError>),
    /// The request was not delivered, or its response can no longer arrive.
    Failed(TransportError),
    /// More than a response came back. The task continues, and the response arrives over the transport.
    HandedOff,
}

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The message.
    pub message: Message,
    /// Headers, for transports that have them; the others ignore them.
    pub headers: Option<Box<HeaderMap>>,
}

impl From<Message> for OutgoingMessage {
    fn from(message: Message) -> OutgoingMessage {
        OutgoingMessage { message, headers: None }
    }
}

/// An event of a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportEvent {
    /// A message.
    Message(Message),
    /// A message that arrived on the response stream of a request of ours, and so belongs to it.
    RelatedMessage {
        /// The request.
        request_id: RequestId,
        /// The message.
        message: Message,
    },
    /// A message was not delivered, or its response can no longer arrive. The transport stays open.
    DeliveryFailed {
        /// The request that gets no response; absent if the message was not a request.
        id: Option<RequestId>,
        /// The cause.
        error: TransportError,
    },
    /// Input that is not a message and is ignored: some servers print to the wrong stream.
    Malformed(MalformedInput),
}

/// How many bytes of input that is not a message are kept.
const MAX_EXCERPT: usize = 200;

/// Input that is not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedInput {
    /// What is wrong with it.
    pub error: ParseError,
    /// Its start, at most 200 bytes, as it came: it may contain control characters. Empty for a part of a batch.
    pub excerpt: String,
}

impl MalformedInput {
    /// With the start of the input.
    pub fn new(error: ParseError, input: &[u8]) -> MalformedInput {
        let start = &input[..input.len().min(MAX_EXCERPT)];
        // A character that the limit cuts is left out.
        let cut = match std::str::from_utf8(start) {
            Err(cut) if cut.error_len().is_none() => &start[..cut.valid_up_to()],
            Ok(_) | Err(_) => start,
        };
        MalformedInput { error, excerpt: String::from_utf8_lossy(cut).trim().to_owned() }
    }
}

impl From<ParseError> for MalformedInput {
    fn from(error: ParseError) -> MalformedInput {
        MalformedInput { error, excerpt: String::new() }
    }
}

impl TransportEvent {
    /// Parses the content of one frame, line or event.
    pub(crate) fn parse_all(bytes: &Bytes) -> Vec<TransportEvent> {
        match message::parse(bytes) {
            Ok(Messages::One(message)) => vec![TransportEvent::Message(message)],
            Ok(Messages::Batch(parts)) => parts.into_iter().map(TransportEvent::from).collect(),
            Err(error) => vec![TransportEvent::Malformed(MalformedInput::new(error, bytes))],
        }
    }

    /// Parses a server-sent event. Servers also send events without a message, to open a stream or to keep it open.
    pub(crate) fn from_sse(event: &SseEvent) -> Vec<TransportEvent> {
        match event.is_message() && !event.data.is_empty() {
            true => TransportEvent::parse_all(&event.data),
            false => Vec::new(),
        }
    }
}

impl From<Result<Message, ParseError>> for TransportEvent {
    fn from(part: Result<Message, ParseError>) -> TransportEvent {
        match part {
            Ok(message) => TransportEvent::Message(message),
            Err(error) => TransportEvent::Malformed(error.into()),
        }
    }
}

/// Why a transport closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Closed,
    /// The stream ended in the middle of a message.
    #[error("the connection closed in the middle of a message")]
    Truncated,
    /// A message exceeds the size limit.
    #[error("a message exceeds {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Reading or writing failed.
    #[error("the connection failed: {0}")]
    Io(std::io::ErrorKind),
    /// The connection could not be opened, or broke.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

impl CloseReason {
    /// The kind of reason for logs, without anything that the peer sent.
    pub(crate) fn log_label(&self) -> &'static str {
        match self {
            CloseReason::Closed => "closed",
            CloseReason::Truncated => "closed in the middle of a message",
            CloseReason::TooLarge { .. } => "message too large",
            CloseReason::Io(_) => "input or output failed",
            CloseReason::Transport(error) => error.log_label(),
        }
    }
}

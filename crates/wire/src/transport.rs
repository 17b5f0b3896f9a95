//! The seam between a peer and what carries its messages. Nothing above knows which transport it has.

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

/// One end of a way to send and receive messages.
///
/// A link belongs to the peer's own task, so it needs no locks. Dropping it closes it.
pub trait Transport: Send + 'static {
    /// Do headers beside a message reach the other side?
    const CARRIES_HEADERS: bool = false;

    /// A way to ask without the task that owns the link, where there is one.
    fn fast_path(&self) -> Option<Arc<dyn FastPath>> {
        None
    }

    /// Puts a message into the queue. Never waits; [`Link::next`] moves the queue along.
    fn push(&mut self, outgoing: OutgoingMessage);

    /// How many bytes wait in the queue. Above some bound the peer takes no more from its callers.
    fn queued_bytes(&self) -> usize;

    /// Sends what waits and says goodbye where the transport has a way to. Comes back when that is done or
    /// cannot be done; what arrives meanwhile may be lost.
    fn shutdown(&mut self) -> impl Future<Output = ()> + Send;

    /// Moves the queue along and comes back with what arrives next.
    ///
    /// May be dropped and called again at any time without losing anything.
    fn next(&mut self) -> impl Future<Output = Result<TransportEvent, CloseReason>> + Send;
}

/// A way past the task that owns a link, for questions whose answer is all that comes back: no task has to be woken then.
pub trait FastPath: fmt::Debug + Send + Sync {
    /// Takes a question, or gives it back where it has to go the usual way. Dropping the future takes the question back.
    fn try_send(
        self: Arc<Self>,
        outgoing: OutgoingMessage,
    ) -> Result<BoxFuture<'static, FastPathOutcome>, OutgoingMessage>;
}

/// What became of a question on the shortcut.
#[derive(Debug)]
pub enum FastPathOutcome {
    /// It was answered.
    Response(Result<Payload, RpcError>),
    /// It was not delivered, or its answer can no longer come.
    Failed(TransportError),
    /// More than an answer comes back: the link's own task goes on with it, and the answer arrives over the link.
    HandedOff,
}

/// A message on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The message.
    pub message: Message,
    /// What is said beside it where the transport has headers; others pass it over.
    pub headers: Option<Box<HeaderMap>>,
}

impl From<Message> for OutgoingMessage {
    fn from(message: Message) -> OutgoingMessage {
        OutgoingMessage { message, headers: None }
    }
}

/// What arrives over a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportEvent {
    /// A message.
    Message(Message),
    /// A message that came on the way to the answer of a question of ours, and so on account of it.
    RelatedMessage {
        /// The question.
        request_id: RequestId,
        /// The message.
        message: Message,
    },
    /// One message that was pushed could not be delivered, or its answer can no longer come. The link lives on.
    DeliveryFailed {
        /// The question that gets no answer; absent where what was lost was no question.
        id: Option<RequestId>,
        /// What happened to it.
        error: TransportError,
    },
    /// Something that is none, and is passed over: servers print to the wrong stream.
    Malformed(ParseError),
}

impl TransportEvent {
    /// Everything that one frame, line or event holds.
    pub(crate) fn parse_all(bytes: &Bytes) -> Vec<TransportEvent> {
        match message::parse(bytes) {
            Ok(Messages::One(message)) => vec![TransportEvent::Message(message)],
            Ok(Messages::Batch(parts)) => parts.into_iter().map(TransportEvent::from).collect(),
            Err(malformed) => vec![TransportEvent::Malformed(malformed)],
        }
    }

    /// The messages in a server-sent event. Servers also send events without any, to open a stream or to keep it open.
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
            Err(malformed) => TransportEvent::Malformed(malformed),
        }
    }
}

/// Why a link ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CloseReason {
    /// The other side closed it.
    #[error("the other side closed the connection")]
    Closed,
    /// The other side stopped in the middle of a message.
    #[error("the other side stopped in the middle of a message")]
    Truncated,
    /// A message was larger than we take.
    #[error("a message was larger than {limit} bytes")]
    TooLarge {
        /// The most we take.
        limit: usize,
    },
    /// Reading or writing failed.
    #[error("the connection failed: {0}")]
    Io(std::io::ErrorKind),
    /// What the link stands on could not be had, or was taken away.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

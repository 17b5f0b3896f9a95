//! The port to a client while one of its requests runs. Each front implements it for its own transport.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use switchboard_wire::jsonrpc::message::{Message, Payload, RpcError};
use tokio::sync::mpsc::error::TrySendError;

/// Sends messages to a client while one of its requests runs.
pub(crate) trait ClientChannel: fmt::Debug + Send + Sync {
    /// Sends a notification that belongs to the request, before its response. Must not block.
    fn notify(&self, method: Cow<'static, str>, params: Option<Payload>) -> NotifyOutcome;

    /// Sends a request to the client. Its user may have to answer, so that there is no timeout.
    fn request<'a>(&'a self, method: &'a str, params: Option<Payload>) -> ClientResponse<'a>;
}

/// The result of sending a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotifyOutcome {
    /// The notification was sent, or dropped because the queue is full.
    Sent,
    /// The request has ended.
    RequestEnded,
}

impl NotifyOutcome {
    /// Converts the result of sending to a queue.
    pub(crate) fn from_send(sent: Result<(), TrySendError<Message>>) -> NotifyOutcome {
        match sent {
            Ok(()) | Err(TrySendError::Full(_)) => NotifyOutcome::Sent,
            Err(TrySendError::Closed(_)) => NotifyOutcome::RequestEnded,
        }
    }
}

/// A client's response that has not arrived yet.
pub(crate) type ClientResponse<'a> =
    Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>>;

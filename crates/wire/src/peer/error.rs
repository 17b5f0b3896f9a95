//! Why a call has no result.

use std::time::Duration;

use thiserror::Error;

use crate::jsonrpc::message::RpcError;
use crate::transport::CloseReason;
use crate::transport_error::TransportError;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The peer responded with an error.
    #[error(transparent)]
    Remote(#[from] RpcError),
    /// No response arrived in time; the peer was sent a cancellation.
    #[error("no response within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The request was not delivered, or its response can no longer arrive. The connection stays open.
    #[error("the request got no response")]
    Transport(#[source] TransportError),
    /// The connection closed before the response arrived.
    #[error("the connection closed before the response arrived")]
    Closed {
        /// Why it closed.
        #[source]
        reason: CloseReason,
        /// Whether the request may have been delivered.
        delivery: Delivery,
    },
}

impl CallError {
    /// The kind of error for logs, without anything that the peer sent.
    pub fn log_label(&self) -> &'static str {
        match self {
            CallError::Remote(_) => "error response",
            CallError::Timeout(_) => "timeout",
            CallError::Transport(error) => error.log_label(),
            CallError::Closed { reason, .. } => reason.log_label(),
        }
    }
}

/// Whether a request may have reached the peer. One that was not sent can be repeated safely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The request was not sent.
    NotSent,
    /// The request may have been delivered.
    Unknown,
}

//! Why a call has no result.

use std::time::Duration;

use thiserror::Error;

use crate::jsonrpc::message::RpcError;
use crate::transport::CloseReason;
use crate::transport_error::TransportError;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CallError {
    /// The other side answered with an error.
    #[error(transparent)]
    Remote(#[from] RpcError),
    /// No answer came in time; the other side was told to stop.
    #[error("no answer came within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The question was not delivered, or its answer can no longer come; the connection lives on.
    #[error("the question got no answer")]
    Transport(#[source] TransportError),
    /// The connection ended first. `sent` says whether the question may have reached the other side.
    #[error("the connection ended before the answer came")]
    Closed {
        /// How it ended.
        #[source]
        reason: CloseReason,
        /// Had the question left us?
        delivery: Delivery,
    },
}

/// Whether a question may have reached the other side: what never left can be asked again safely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// It never left.
    NotSent,
    /// It may have.
    Unknown,
}

//! Why a request has no result.

use std::sync::Arc;
use std::time::Duration;

use switchboard_wire::jsonrpc::message::RpcError;
use switchboard_wire::peer::CallError;
use thiserror::Error;

use crate::connection::status::{ServerView, Status};

/// Why a request has no result.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The method is `tools/call`, which needs a permit.
    #[error("`tools/call` needs a permit: call tools with `Host::call`")]
    PermitRequired,
    /// There is no such server.
    #[error("there is no server `{0}`")]
    UnknownServer(String),
    /// The client has as many connections of its own as it may have.
    #[error("too many sessions use `{server}` at once; end other sessions, or try again later")]
    TooManyConnections {
        /// The server.
        server: String,
    },
    /// The server is not connected; the view contains the reason.
    #[error("`{}` is not connected", .0.name)]
    NotConnected(Arc<ServerView>),
    /// The server returned an error.
    #[error(transparent)]
    ErrorResponse(RpcError),
    /// The timeout elapsed.
    #[error("`{server}` did not answer within {} s", .after.as_secs_f64())]
    Timeout {
        /// The server.
        server: String,
        /// The timeout.
        after: Duration,
    },
    /// The response is larger than the limit. The server has run the request, so it is not sent again.
    #[error(
        "the response of `{server}` exceeds the limit of {} MB; the request was executed",
        .limit / (1024 * 1024)
    )]
    TooLarge {
        /// The server.
        server: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The server requires a URL elicitation, and it was not completed.
    #[error("`{server}` requires you to open a page first: {reason}")]
    UrlElicitationDeclined {
        /// The server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The connection broke. Whether the server has run the request is not known, so it was not sent again.
    #[error(
        "the connection to `{server}` was lost before the response; the request may have been executed and was not retried"
    )]
    Interrupted {
        /// The server.
        server: String,
        /// The error of the connection.
        #[source]
        error: CallError,
    },
    /// The connection broke, also on the last retry.
    #[error("the connection to `{server}` was lost before the response")]
    ConnectionLost {
        /// The server.
        server: String,
        /// The error of the connection.
        #[source]
        error: CallError,
    },
}

impl RequestError {
    /// The server's status, where it is not connected.
    pub fn status(&self) -> Option<&Status> {
        match self {
            RequestError::NotConnected(view) => Some(&view.status),
            RequestError::PermitRequired
            | RequestError::UnknownServer(_)
            | RequestError::TooManyConnections { .. }
            | RequestError::ErrorResponse(_)
            | RequestError::Timeout { .. }
            | RequestError::TooLarge { .. }
            | RequestError::UrlElicitationDeclined { .. }
            | RequestError::Interrupted { .. }
            | RequestError::ConnectionLost { .. } => None,
        }
    }
}

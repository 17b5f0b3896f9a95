//! What goes wrong between us and a server at a URL, in kinds that can be decided upon.

use std::fmt;

use thiserror::Error;

/// Why a message was not delivered, or its answer did not come.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TransportError {
    /// The server could not be reached.
    #[error("{reason}")]
    Unreachable {
        /// In which way.
        reason: UnreachableReason,
        /// The system's or the library's own words.
        detail: String,
    },
    /// The server answered with a status that is no success.
    #[error("the server answered with {0}")]
    Status(Box<HttpErrorResponse>),
    /// The server sent us to another origin, where we do not follow.
    #[error("the server redirects to another origin, {to}")]
    CrossOriginRedirect {
        /// The other origin.
        to: String,
    },
    /// What answered does not speak the protocol.
    #[error("what answered is no MCP server: it sent `{content_type}`")]
    NotMcp {
        /// The kind of content it sent.
        content_type: String,
        /// The beginning of it.
        body_prefix: String,
    },
    /// The answer's stream ended before the answer came.
    #[error("the server closed the stream before it answered")]
    IncompleteResponse,
    /// The server was silent for too long.
    #[error("the server did not answer within {} s", .0.as_secs())]
    Timeout(std::time::Duration),
    /// The answer was larger than we take.
    #[error("the answer was larger than {limit} bytes")]
    TooLarge {
        /// The most we take.
        limit: usize,
    },
}

/// In which way a server could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreachableReason {
    /// Its name leads nowhere.
    NameResolution,
    /// Nothing listens there.
    Refused,
    /// The connection was reset or broke.
    Reset,
    /// Nothing answered in time.
    Timeout,
    /// No secure connection could be made.
    Tls,
    /// The proxy did not let us through.
    Proxy,
    /// Anything else.
    Other,
}

impl fmt::Display for UnreachableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnreachableReason::NameResolution => "the host name cannot be resolved",
            UnreachableReason::Refused => "the connection was refused",
            UnreachableReason::Reset => "the connection was reset",
            UnreachableReason::Timeout => "the connection timed out",
            UnreachableReason::Tls => "no secure connection could be made",
            UnreachableReason::Proxy => "the proxy did not let us through",
            UnreachableReason::Other => "the server could not be reached",
        })
    }
}

/// An HTTP answer that is no success, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpErrorResponse {
    /// The status code.
    pub status: u16,
    /// The beginning of the body, where it is text.
    pub body: String,
    /// Every `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// `Retry-After`
    pub retry_after: Option<String>,
}

impl fmt::Display for HttpErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match http::StatusCode::from_u16(self.status).ok().and_then(|it| it.canonical_reason()) {
            Some(reason) => write!(f, "HTTP {} {reason}", self.status),
            None => write!(f, "HTTP {}", self.status),
        }
    }
}

impl TransportError {
    /// The status, where there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            TransportError::Status(response) => Some(response.status),
            TransportError::Unreachable { .. }
            | TransportError::CrossOriginRedirect { .. }
            | TransportError::NotMcp { .. }
            | TransportError::IncompleteResponse
            | TransportError::Timeout(_)
            | TransportError::TooLarge { .. } => None,
        }
    }

    /// Is it certain that the server never saw the message?
    pub fn is_before_delivery(&self) -> bool {
        match self {
            TransportError::Unreachable { reason: why, .. } => match why {
                UnreachableReason::NameResolution
                | UnreachableReason::Refused
                | UnreachableReason::Tls
                | UnreachableReason::Proxy => true,
                UnreachableReason::Reset
                | UnreachableReason::Timeout
                | UnreachableReason::Other => false,
            },
            // It was read and turned away before anything was done with it.
            TransportError::Status(response) => {
                matches!(response.status, 401 | 403 | 404 | 405 | 429)
            }
            TransportError::CrossOriginRedirect { .. } => true,
            TransportError::NotMcp { .. }
            | TransportError::IncompleteResponse
            | TransportError::Timeout(_)
            | TransportError::TooLarge { .. } => false,
        }
    }
}

//! What goes wrong between us and a server at a URL, in kinds that can be decided upon.

use std::fmt;

use thiserror::Error;

/// Why a message was not delivered, or its answer did not come.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// The server could not be reached.
    #[error("{why}")]
    Unreachable {
        /// In which way.
        why: Unreachable,
        /// The system's or the library's own words.
        detail: String,
    },
    /// The server answered with a status that is no success.
    #[error("the server answered with {0}")]
    Status(Box<HttpAnswer>),
    /// The server sent us to another origin, where we do not follow.
    #[error("the server redirects to another origin, {to}")]
    RedirectedAway {
        /// The other origin.
        to: String,
    },
    /// What answered does not speak the protocol.
    #[error("what answered is no MCP server: it sent `{content_type}`")]
    NotMcp {
        /// The kind of content it sent.
        content_type: String,
        /// The beginning of it.
        beginning: String,
    },
    /// The answer's stream ended before the answer came.
    #[error("the server closed the stream before it answered")]
    CutShort,
    /// The server was silent for too long.
    #[error("the server did not answer within {} s", .0.as_secs())]
    Silent(std::time::Duration),
    /// The answer was larger than we take.
    #[error("the answer was larger than {limit} bytes")]
    TooLarge {
        /// The most we take.
        limit: usize,
    },
}

/// In which way a server could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// Its name leads nowhere.
    Name,
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

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unreachable::Name => "the host name cannot be resolved",
            Unreachable::Refused => "the connection was refused",
            Unreachable::Reset => "the connection was reset",
            Unreachable::Timeout => "the connection timed out",
            Unreachable::Tls => "no secure connection could be made",
            Unreachable::Proxy => "the proxy did not let us through",
            Unreachable::Other => "the server could not be reached",
        })
    }
}

/// An HTTP answer that is no success, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status code.
    pub status: u16,
    /// The beginning of the body, where it is text.
    pub body: String,
    /// Every `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// `Retry-After`
    pub retry_after: Option<String>,
}

impl fmt::Display for HttpAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match http::StatusCode::from_u16(self.status).ok().and_then(|it| it.canonical_reason()) {
            Some(reason) => write!(f, "HTTP {} {reason}", self.status),
            None => write!(f, "HTTP {}", self.status),
        }
    }
}

impl Fault {
    /// The status, where there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Fault::Status(answer) => Some(answer.status),
            Fault::Unreachable { .. }
            | Fault::RedirectedAway { .. }
            | Fault::NotMcp { .. }
            | Fault::CutShort
            | Fault::Silent(_)
            | Fault::TooLarge { .. } => None,
        }
    }

    /// Is it certain that the server never saw the message?
    pub fn is_before_delivery(&self) -> bool {
        match self {
            Fault::Unreachable { why, .. } => match why {
                Unreachable::Name
                | Unreachable::Refused
                | Unreachable::Tls
                | Unreachable::Proxy => true,
                Unreachable::Reset | Unreachable::Timeout | Unreachable::Other => false,
            },
            // It was read and turned away before anything was done with it.
            Fault::Status(answer) => matches!(answer.status, 401 | 403 | 404 | 405 | 429),
            Fault::RedirectedAway { .. } => true,
            Fault::NotMcp { .. } | Fault::CutShort | Fault::Silent(_) | Fault::TooLarge { .. } => {
                false
            }
        }
    }
}

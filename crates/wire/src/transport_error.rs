//! Errors between us and a server at a URL, by kind, so that callers can decide on a retry.

use std::fmt;

use thiserror::Error;

/// Why a message was not delivered, or its response did not arrive.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TransportError {
    /// The server could not be reached.
    #[error("{reason}")]
    Unreachable {
        /// The cause.
        reason: UnreachableReason,
        /// The text of the system or the HTTP library.
        detail: String,
    },
    /// The server responded with a status other than success.
    #[error("the server responded with {0}")]
    Status(Box<HttpErrorResponse>),
    /// The server redirected to another origin. Such redirects are not followed.
    #[error("the server redirects to another origin, {to}")]
    CrossOriginRedirect {
        /// The other origin.
        to: String,
    },
    /// The server does not speak MCP.
    #[error("this is not an MCP server: it sent `{content_type}`")]
    NotMcp {
        /// The `Content-Type` of its response.
        content_type: String,
        /// The start of its response body.
        body_prefix: String,
    },
    /// The response stream ended before the response arrived.
    #[error("the server closed the stream before it responded")]
    IncompleteResponse,
    /// The server sent nothing for too long.
    #[error("the server did not answer within {} s", .0.as_secs())]
    Timeout(std::time::Duration),
    /// The response exceeds the size limit.
    #[error("the response exceeds {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
}

/// Why a server could not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnreachableReason {
    /// The host name could not be resolved.
    NameResolution,
    /// The host refused the connection.
    Refused,
    /// The connection was reset or closed.
    Reset,
    /// The connection attempt timed out.
    Timeout,
    /// The TLS handshake failed.
    Tls(TlsProblem),
    /// The proxy refused the connection.
    Proxy,
    /// Any other cause.
    Other,
}

/// Why a TLS handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsProblem {
    /// The certificate is self-signed, or its issuer is not trusted here.
    UntrustedCertificate,
    /// The certificate has expired.
    ExpiredCertificate,
    /// The certificate is valid only later.
    CertificateNotYetValid,
    /// The certificate is for another host.
    WrongHost,
    /// The other side does not speak TLS; nearly always plain HTTP.
    NotTls,
    /// Any other cause.
    Other,
}

impl TlsProblem {
    fn as_str(self) -> &'static str {
        match self {
            TlsProblem::UntrustedCertificate => {
                "the server's certificate is self-signed, or its issuer is not trusted here"
            }
            TlsProblem::ExpiredCertificate => "the server's certificate has expired",
            TlsProblem::CertificateNotYetValid => "the server's certificate is not valid yet",
            TlsProblem::WrongHost => "the server's certificate is for another host name",
            TlsProblem::NotTls => "the server does not use TLS on this port",
            TlsProblem::Other => "the TLS connection could not be established",
        }
    }
}

impl UnreachableReason {
    fn as_str(self) -> &'static str {
        match self {
            UnreachableReason::NameResolution => "the host name cannot be resolved",
            UnreachableReason::Refused => "the connection was refused",
            UnreachableReason::Reset => "the connection was reset",
            UnreachableReason::Timeout => "the connection timed out",
            UnreachableReason::Tls(problem) => problem.as_str(),
            UnreachableReason::Proxy => "the proxy refused the connection",
            UnreachableReason::Other => "the server could not be reached",
        }
    }
}

impl fmt::Display for UnreachableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An HTTP response with an error status, reduced to the parts that callers need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpErrorResponse {
    /// The status code.
    pub status: u16,
    /// The start of the body, with control characters replaced.
    pub body: String,
    /// Every `WWW-Authenticate` header.
    pub challenges: Vec<String>,
    /// The `Retry-After` header.
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
    /// The kind of error for logs, without anything that the server sent.
    pub(crate) fn log_label(&self) -> &'static str {
        match self {
            TransportError::Unreachable { reason, .. } => reason.as_str(),
            TransportError::Status(_) => "error status",
            TransportError::CrossOriginRedirect { .. } => "redirect to another origin",
            TransportError::NotMcp { .. } => "not an MCP server",
            TransportError::IncompleteResponse => "incomplete response",
            TransportError::Timeout(_) => "timeout",
            TransportError::TooLarge { .. } => "response too large",
        }
    }

    /// The HTTP status, if the server responded with one.
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

    /// Whether the server certainly did not process the message.
    pub fn is_before_delivery(&self) -> bool {
        match self {
            TransportError::Unreachable { reason, .. } => match reason {
                UnreachableReason::NameResolution
                | UnreachableReason::Refused
                | UnreachableReason::Tls(_)
                | UnreachableReason::Proxy => true,
                UnreachableReason::Reset
                | UnreachableReason::Timeout
                | UnreachableReason::Other => false,
            },
            // The server rejects requests with these statuses before it processes them.
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

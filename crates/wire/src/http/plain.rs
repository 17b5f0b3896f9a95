//! A client for plain HTTP/1.1 between programs of ours: no redirects, no proxy, no TLS. Connections stay on the thread that
//! opened them.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::http1::{Http1Client, Http1Response};
use super::request::HttpRequest;
use crate::transport_error::{TransportError, UnreachableReason};

/// A client. Clones share connections.
#[derive(Clone)]
pub struct PlainClient(Http1Client);

impl fmt::Debug for PlainClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainClient")
    }
}

/// A response, of which the body is read in chunks. Dropping it before its end closes the connection.
pub struct PlainResponse(Http1Response);

impl fmt::Debug for PlainResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlainResponse({})", self.0.status)
    }
}

/// Why there is no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainError {
    /// The host refuses connections at this port: nothing listens there.
    Refused,
    /// The host was not reached for another reason. Nothing was sent.
    Unreachable,
    /// The request was sent, at least in part, and the other side may have received it.
    MaybeSent,
}

impl PlainClient {
    /// A client whose attempts to connect may take this long.
    pub fn new(user_agent: &str, connect_timeout: Duration) -> PlainClient {
        PlainClient(Http1Client::new(user_agent, connect_timeout))
    }

    /// Sends a POST request.
    pub async fn post(&self, url: &Url, body: Bytes) -> Result<PlainResponse, PlainError> {
        let headers = HeaderMap::new();
        let request = HttpRequest { method: Method::POST, url: Cow::Borrowed(url), headers, body };
        self.0.try_send(&request).await.map(PlainResponse).map_err(|failed| {
            let refused = UnreachableReason::Refused;
            match failed.error {
                _ if failed.is_sent => PlainError::MaybeSent,
                TransportError::Unreachable { reason, .. } if reason == refused => {
                    PlainError::Refused
                }
                TransportError::Unreachable { .. }
                | TransportError::Status(_)
                | TransportError::CrossOriginRedirect { .. }
                | TransportError::NotMcp { .. }
                | TransportError::IncompleteResponse
                | TransportError::Timeout(_)
                | TransportError::TooLarge { .. } => PlainError::Unreachable,
            }
        })
    }
}

impl PlainResponse {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The next chunk of the body; None after the last one.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, PlainError> {
        self.0.chunk().await.map_err(|_| PlainError::MaybeSent)
    }
}

//! An HTTP/1.1 client for plain HTTP without a proxy. The task that sends a request drives its connection, so no
//! other task is woken. All other requests go through `reqwest`.
//! `head` and `framing` parse messages, `connection` sends them, `pool` keeps idle connections.

mod connect;
mod connection;
mod framing;
mod head;
mod pool;

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::AsyncReadExt;
use tracing::debug;
use url::{Position, Url};

use self::connection::{EncodedRequest, PooledConnection, SendError};
use self::framing::{BodyFraming, BodyPart, ReadMode};
use self::head::{ConnectionReuse, Http1Head};
use self::pool::Pool;
use super::error::{self, FailurePhase};
use super::request::HttpRequest;
use crate::transport_error::TransportError;

pub(super) use self::pool::{IDLE_TIMEOUT, MAX_IDLE_PER_HOST};

/// A client for plain HTTP. Clones share connections.
#[derive(Clone)]
pub(crate) struct Http1Client {
    user_agent: Option<HeaderValue>,
    connect_timeout: Duration,
    pool: Arc<Pool>,
}

/// A response whose body is read from its connection. Dropping it before its end closes the connection.
pub(crate) struct Http1Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    framing: BodyFraming,
    mode: ReadMode,
    reuse: ConnectionReuse,
    connection: Option<PooledConnection>,
    pool: Weak<Pool>,
}

/// A request without a response.
pub(crate) struct FailedSend {
    /// May the server have received it?
    pub(crate) is_sent: bool,
    pub(crate) error: TransportError,
}

/// Whether the scheme is plain HTTP.
pub(crate) fn is_plaintext(url: &Url) -> bool {
    url.scheme() == "http"
}

impl Http1Client {
    pub(crate) fn new(user_agent: &str, connect_timeout: Duration) -> Http1Client {
        let user_agent = HeaderValue::from_str(user_agent).ok();
        Http1Client { user_agent, connect_timeout, pool: Arc::default() }
    }

    /// Sends a request. If a pooled connection was closed while it was idle, the request goes out on another one,
    /// because nothing of it was sent.
    pub(crate) async fn send(
        &self,
        request: &HttpRequest<'_>,
    ) -> Result<Http1Response, TransportError> {
        self.try_send(request).await.map_err(|failed| failed.error)
    }

    /// The same; an error tells whether the server may have received the request.
    pub(crate) async fn try_send(
        &self,
        request: &HttpRequest<'_>,
    ) -> Result<Http1Response, FailedSend> {
        let not_sent = |error| FailedSend { is_sent: false, error };
        let origin = &request.url[..Position::BeforePath];
        let encoded = EncodedRequest::new(request, self.user_agent.as_ref()).map_err(not_sent)?;
        loop {
            let (mut connection, is_new) = match self.pool.checkout(origin) {
                Some(connection) => (connection, false),
                None => {
                    let opening = PooledConnection::open(&request.url, self.connect_timeout);
                    (opening.await.map_err(not_sent)?, true)
                }
            };
            match connection.send(&encoded).await {
                Ok(head) => return Ok(self.to_response(head, connection)),
                Err(SendError { is_sent: false, .. }) if !is_new => {
                    debug!("request retried: the idle connection was closed");
                }
                Err(SendError { is_sent, error }) => {
                    let error = error::from_error(&error, FailurePhase::Exchange);
                    return Err(FailedSend { is_sent, error });
                }
            }
        }
    }

    fn to_response(&self, head: Http1Head, connection: PooledConnection) -> Http1Response {
        let Http1Head { status, headers, framing, reuse } = head;
        let mut response = Http1Response {
            status,
            headers,
            framing,
            mode: ReadMode::AsReceived,
            reuse,
            connection: Some(connection),
            pool: Arc::downgrade(&self.pool),
        };
        if framing.is_complete() {
            response.return_to_pool();
        }
        response
    }
}

impl Http1Response {
    /// The length of the body, if the head states it.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.framing.remaining()
    }

    /// Asks for the body in one chunk, if possible.
    pub(crate) fn prefer_single_chunk(&mut self) {
        self.mode = ReadMode::Whole;
    }

    /// The next chunk of the body. After the last one, the connection returns to the pool.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, TransportError> {
        loop {
            let Some(connection) = &mut self.connection else { return Ok(None) };
            match self.framing.next(&mut connection.read_buffer, self.mode) {
                Ok(BodyPart::Bytes(bytes)) => {
                    if self.framing.is_complete() {
                        self.return_to_pool();
                    }
                    return Ok(Some(bytes));
                }
                Ok(BodyPart::End) => {
                    self.return_to_pool();
                    return Ok(None);
                }
                Ok(BodyPart::NeedMore(room)) => {
                    connection.read_buffer.reserve(room);
                    let read = connection.stream.read_buf(&mut connection.read_buffer).await;
                    match (read, self.framing) {
                        (Ok(0), BodyFraming::UntilClose) => self.connection = None,
                        (Ok(0) | Err(_), _) => return Err(TransportError::IncompleteResponse),
                        (Ok(_), _) => {}
                    }
                }
                Err(framing::InvalidChunk) => return Err(TransportError::IncompleteResponse),
            }
        }
    }

    fn return_to_pool(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let is_reusable =
            self.reuse == ConnectionReuse::Reusable && connection.read_buffer.is_empty();
        if let Some(pool) = self.pool.upgrade().filter(|_| is_reusable) {
            pool.checkin(connection);
        }
    }
}

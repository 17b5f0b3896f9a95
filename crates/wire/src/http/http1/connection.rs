//! One HTTP/1.1 connection: writes a request and reads the head of its response.
//! The task that sends the request also drives the connection, so no other task is woken.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::timeout;
use tracing::debug;
use url::{Position, Url};

use super::connect::resolve_and_connect;
use super::head::{self, ConnectionReuse, HeadProgress, Http1Head};
use crate::http::error::{self, FailurePhase};
use crate::http::request::HttpRequest;
use crate::transport_error::{TransportError, UnreachableReason};

/// The largest body that is copied behind its head, so that both are sent in one write.
const MAX_INLINE_BODY: usize = 16 * 1024;
/// The initial size of the read buffer, and the most that an idle connection keeps.
pub(super) const READ_BUFFER: usize = 8 * 1024;

/// The thread whose runtime drives a connection, if there is only one. Another thread would wait for it on each
/// use.
pub(super) type DriverThread = Option<ThreadId>;

/// A connection.
pub(super) struct PooledConnection {
    pub(super) origin: Arc<str>,
    pub(super) thread: DriverThread,
    pub(super) stream: TcpStream,
    /// Received bytes that were not consumed.
    pub(super) read_buffer: BytesMut,
}

/// A request in wire format.
pub(super) struct EncodedRequest {
    /// The head, followed by a small body.
    head: Vec<u8>,
    /// A large body.
    body: Bytes,
}

/// Why there is no response.
pub(super) struct SendError {
    pub(super) is_sent: bool,
    pub(super) error: io::Error,
}

impl EncodedRequest {
    pub(super) fn new(
        request: &HttpRequest<'_>,
        user_agent: Option<&HeaderValue>,
    ) -> Result<EncodedRequest, TransportError> {
        let is_small = request.body.len() <= MAX_INLINE_BODY;
        let mut head = Vec::with_capacity(512 + if is_small { request.body.len() } else { 0 });
        let written = head::write_request_head(request, user_agent, &mut head);
        written.map_err(|detail| TransportError::Unreachable {
            reason: UnreachableReason::Other,
            detail: detail.into(),
        })?;
        let body = match is_small {
            true => {
                head.extend_from_slice(&request.body);
                Bytes::new()
            }
            false => request.body.clone(),
        };
        Ok(EncodedRequest { head, body })
    }
}

/// The driver thread of a connection that is opened here.
pub(super) fn driver_thread() -> DriverThread {
    let is_one_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
    is_one_thread.then(|| thread::current().id())
}

impl PooledConnection {
    /// Connects to the host of a URL.
    pub(super) async fn open(
        url: &Url,
        limit: Duration,
    ) -> Result<PooledConnection, TransportError> {
        let connected = timeout(limit, resolve_and_connect(url)).await;
        let timed_out = || io::Error::from(io::ErrorKind::TimedOut);
        let stream = connected.unwrap_or_else(|_| Err((timed_out(), FailurePhase::Connect)));
        let stream = stream.map_err(|(error, phase)| error::from_error(&error, phase))?;
        let _slower_then = stream.set_nodelay(true);
        let (host, port) = (url.host_str(), url.port_or_known_default());
        debug!(host, port, "HTTP connection opened");
        Ok(PooledConnection {
            origin: url[..Position::BeforePath].into(),
            thread: driver_thread(),
            stream,
            read_buffer: BytesMut::new(),
        })
    }

    /// Whether the connection is open and has no unexpected data. A non-blocking read.
    pub(super) fn is_reusable(&mut self) -> bool {
        let mut byte = [0];
        let noop_context = &mut Context::from_waker(Waker::noop());
        self.read_buffer.is_empty()
            && Pin::new(&mut self.stream)
                .poll_read(noop_context, &mut ReadBuf::new(&mut byte))
                .is_pending()
    }

    /// Sends a request and waits for the head of the response, which may arrive before everything is sent.
    pub(super) async fn send(&mut self, encoded: &EncodedRequest) -> Result<Http1Head, SendError> {
        if !self.is_reusable() {
            return Err(SendError { is_sent: false, error: connection_closed() });
        }
        let (mut sent, mut progress) = (0, HeadProgress::default());
        poll_fn(|task| {
            let is_sent = match self.poll_send(encoded, &mut sent, task) {
                Poll::Ready(Err(error)) if sent == 0 => {
                    return Poll::Ready(Err(SendError { is_sent: false, error }));
                }
                Poll::Ready(sending) => sending.is_ok(),
                Poll::Pending => false,
            };
            // A server that closes early may have sent a response that says why.
            let head = std::task::ready!(self.poll_head(&mut progress, task));
            let head = head.map(|mut head| {
                if !is_sent {
                    head.reuse = ConnectionReuse::Close;
                }
                head
            });
            Poll::Ready(head.map_err(|error| SendError { is_sent: true, error }))
        })
        .await
    }

    fn poll_send(
        &mut self,
        encoded: &EncodedRequest,
        sent: &mut usize,
        task: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let EncodedRequest { head, body } = encoded;
        while *sent < head.len() + body.len() {
            let stream = Pin::new(&mut self.stream);
            let written = match (head.get(*sent..), body.is_empty()) {
                (Some(first), true) => stream.poll_write(task, first),
                (Some(first), false) => {
                    stream.poll_write_vectored(task, &[IoSlice::new(first), IoSlice::new(body)])
                }
                (None, _) => stream.poll_write(task, &body[*sent - head.len()..]),
            };
            match std::task::ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                length => *sent += length,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_head(
        &mut self,
        progress: &mut HeadProgress,
        task: &mut Context<'_>,
    ) -> Poll<io::Result<Http1Head>> {
        loop {
            if let Some(head) = head::read_response_head(&mut self.read_buffer, progress)
                .map_err(io::Error::other)?
            {
                return Poll::Ready(Ok(head));
            }
            self.read_buffer.reserve(READ_BUFFER);
            let read = pin!(self.stream.read_buf(&mut self.read_buffer)).poll(task);
            if std::task::ready!(read)? == 0 {
                return Poll::Ready(Err(connection_closed()));
            }
        }
    }
}

fn connection_closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed before message completed")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_request_on_a_closed_connection_fails_as_not_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}/mcp")).expect("a URL");
        let opening = PooledConnection::open(&url, Duration::from_secs(5));
        let (connection, accepted) = tokio::join!(opening, listener.accept());
        let mut connection = connection.expect("a connection");
        let mut stream = accepted.expect("a connection").0;
        let request = EncodedRequest { head: b"request".to_vec(), body: Bytes::new() };
        let empty_response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let responding = async {
            // Unread data would make the close a reset.
            let mut received = Vec::new();
            while !received.ends_with(b"request") {
                stream.read_buf(&mut received).await.expect("a request");
            }
            stream.write_all(empty_response).await.expect("it is read");
        };
        let (first, ()) = tokio::join!(connection.send(&request), responding);
        assert!(first.is_ok());
        drop(stream);
        // The close has arrived, but has not been read.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let outcome =
            timeout(Duration::from_secs(10), connection.send(&request)).await.expect("an end");
        let Err(SendError { is_sent, error }) = outcome else { panic!("the connection is closed") };
        assert!(!is_sent);
        let error = error::from_error(&error, FailurePhase::Exchange);
        let TransportError::Unreachable { reason, .. } = error else {
            panic!("it broke: {error:?}")
        };
        assert_eq!(reason, UnreachableReason::Reset);
    }
}

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
use url::{Position, Url};

use super::connect::resolve_and_connect;
use super::head::{self, ConnectionReuse, Http1Head};
use crate::http::error::{self, FailurePhase};
use crate::http::request::HttpRequest;
use crate::transport_error::{TransportError, UnreachableReason};

/// How much of a body is copied behind its head, so that both go out as one.
const MAX_INLINE_BODY: usize = 16 * 1024;
/// How much room there is for an answer at first, and how much a connection that waits may hold.
pub(super) const READ_BUFFER: usize = 8 * 1024;

/// The thread that hears of what happens on a connection, where it is always the same one. Whoever else used the
/// connection would wait for that thread each time.
pub(super) type DriverThread = Option<ThreadId>;

/// A connection.
pub(super) struct PooledConnection {
    pub(super) origin: Arc<str>,
    pub(super) thread: DriverThread,
    pub(super) stream: TcpStream,
    /// What was read and belongs to nothing yet.
    pub(super) read_buffer: BytesMut,
}

/// A request as it is sent.
pub(super) struct EncodedRequest {
    /// Its head, and a small body behind it.
    head: Vec<u8>,
    /// A large body.
    body: Bytes,
}

/// Why there is no answer.
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

/// Who would hear of a connection that was made here.
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
        Ok(PooledConnection {
            origin: url[..Position::BeforePath].into(),
            thread: driver_thread(),
            stream,
            read_buffer: BytesMut::new(),
        })
    }

    /// Is the connection still there, with nothing on it that nobody asked for? Costs nothing while nothing came.
    pub(super) fn is_reusable(&mut self) -> bool {
        let mut byte = [0];
        let noop_context = &mut Context::from_waker(Waker::noop());
        self.read_buffer.is_empty()
            && Pin::new(&mut self.stream)
                .poll_read(noop_context, &mut ReadBuf::new(&mut byte))
                .is_pending()
    }

    /// Asks something, and waits for the head of the answer. It may come before everything is sent.
    pub(super) async fn send(&mut self, encoded: &EncodedRequest) -> Result<Http1Head, SendError> {
        if !self.is_reusable() {
            return Err(SendError { is_sent: false, error: connection_closed() });
        }
        let (mut sent, mut searched) = (0, 0);
        poll_fn(|task| {
            let is_sent = match self.poll_send(encoded, &mut sent, task) {
                Poll::Ready(Err(error)) if sent == 0 => {
                    return Poll::Ready(Err(SendError { is_sent: false, error }));
                }
                Poll::Ready(sending) => sending.is_ok(),
                Poll::Pending => false,
            };
            // Who closes while we still talk may have said why.
            let head = std::task::ready!(self.poll_head(&mut searched, task));
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
        searched: &mut usize,
        task: &mut Context<'_>,
    ) -> Poll<io::Result<Http1Head>> {
        loop {
            if let Some(head) = head::read_response_head(&mut self.read_buffer, searched)
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
        let mut connection = connection.expect("somebody listens");
        let mut stream = accepted.expect("one comes").0;
        let question = EncodedRequest { head: b"question".to_vec(), body: Bytes::new() };
        let nothing = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let answered = async {
            // What is left unread when it is closed would break it, instead of ending it.
            let mut heard = Vec::new();
            while !heard.ends_with(b"question") {
                stream.read_buf(&mut heard).await.expect("it is asked");
            }
            stream.write_all(nothing).await.expect("it is read");
        };
        let (first, ()) = tokio::join!(connection.send(&question), answered);
        assert!(first.is_ok());
        drop(stream);
        // The end is there, and nobody has looked at it.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let asked =
            timeout(Duration::from_secs(10), connection.send(&question)).await.expect("an end");
        let Err(SendError { is_sent, error }) = asked else { panic!("nobody is there") };
        assert!(!is_sent);
        let error = error::from_error(&error, FailurePhase::Exchange);
        let TransportError::Unreachable { reason, .. } = error else {
            panic!("it broke: {error:?}")
        };
        assert_eq!(reason, UnreachableReason::Reset);
    }
}

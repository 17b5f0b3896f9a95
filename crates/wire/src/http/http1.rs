//! Plain HTTP/1.1 with no proxy in between, as cheaply as can be: a connection is driven by whoever uses it and by
//! nobody else, so that a request wakes no other task. Everything else goes through the library's client.
//! How messages look is left to `head` and `framing`.

mod framing;
mod head;

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use url::{Host, Position, Url};

use self::framing::{BodyFraming, BodyPart, ReadMode};
use self::head::{ConnectionReuse, Http1Head};
use super::client::{HttpRequest, IDLE_TIMEOUT, MAX_IDLE_PER_HOST};
use super::error;
use super::error::FailurePhase;
use crate::transport_error::{TransportError, UnreachableReason};

/// How long one address of a host is waited for before the next is tried beside it (RFC 8305 has the figure).
const HAPPY_EYEBALLS_DELAY: Duration = Duration::from_millis(250);
/// How often connections that wait are looked at.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);
/// How much of a body is copied behind its head, so that both go out as one.
const MAX_INLINE_BODY: usize = 16 * 1024;
/// How much room there is for an answer at first, and how much a connection that waits may hold.
const READ_BUFFER: usize = 8 * 1024;

/// The way to servers that are spoken to plainly. Clones share connections.
#[derive(Clone)]
pub(crate) struct Http1Client(Arc<Pool>);

struct Pool {
    user_agent: Option<HeaderValue>,
    connect_timeout: Duration,
    idle: Mutex<IdleConnections>,
}

/// Connections that wait for another use, by the thread that hears of them and by origin.
#[derive(Default)]
struct IdleConnections {
    by_thread: HashMap<DriverThread, HashMap<Arc<str>, IdleList>>,
    /// Closes those that nobody comes for.
    sweeper: Option<AbortHandle>,
}

/// Connections, each with the time since when it waits.
type IdleList = Vec<(Instant, PooledConnection)>;

/// The thread that hears of what happens on a connection, where it is always the same one. Whoever else used the
/// connection would wait for that thread each time.
type DriverThread = Option<ThreadId>;

/// A connection.
struct PooledConnection {
    origin: Arc<str>,
    thread: DriverThread,
    stream: TcpStream,
    /// What was read and belongs to nothing yet.
    read_buffer: BytesMut,
}

/// A request as it is sent.
struct EncodedRequest {
    /// Its head, and a small body behind it.
    head: Vec<u8>,
    /// A large body.
    body: Bytes,
}

/// Why there is no answer.
struct SendError {
    is_sent: bool,
    error: io::Error,
}

/// An answer whose body is read from its connection. Dropped before its end, it closes the connection.
pub(crate) struct Http1Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    framing: BodyFraming,
    mode: ReadMode,
    reuse: ConnectionReuse,
    connection: Option<PooledConnection>,
    pool: Weak<Pool>,
}

/// Only what is spoken plainly: the scheme decides.
pub(crate) fn is_plaintext(url: &Url) -> bool {
    url.scheme() == "http"
}

impl Http1Client {
    pub(crate) fn new(user_agent: &str, connect_timeout: Duration) -> Http1Client {
        let user_agent = HeaderValue::from_str(user_agent).ok();
        Http1Client(Arc::new(Pool { user_agent, connect_timeout, idle: Mutex::default() }))
    }

    /// Makes a request. A connection that was closed while it waited is no reason to fail: what never left goes out on
    /// another one.
    pub(crate) async fn send(
        &self,
        request: &HttpRequest<'_>,
    ) -> Result<Http1Response, TransportError> {
        let origin = &request.url[..Position::BeforePath];
        let encoded = self.encode(request)?;
        loop {
            let (mut connection, is_new) = match self.0.checkout(origin) {
                Some(connection) => (connection, false),
                None => (self.connect(&request.url).await?, true),
            };
            match connection.send(&encoded).await {
                Ok(head) => return Ok(self.to_response(head, connection)),
                Err(SendError { is_sent: false, .. }) if !is_new => {}
                Err(SendError { error, .. }) => {
                    return Err(error::from_error(&error, FailurePhase::Exchange));
                }
            }
        }
    }

    fn encode(&self, request: &HttpRequest<'_>) -> Result<EncodedRequest, TransportError> {
        let is_small = request.body.len() <= MAX_INLINE_BODY;
        let mut beginning = Vec::with_capacity(512 + if is_small { request.body.len() } else { 0 });
        let written = head::write_request_head(request, self.0.user_agent.as_ref(), &mut beginning);
        let unfit = |detail: &str| TransportError::Unreachable {
            reason: UnreachableReason::Other,
            detail: detail.into(),
        };
        written.map_err(unfit)?;
        let rest = match is_small {
            true => {
                beginning.extend_from_slice(&request.body);
                Bytes::new()
            }
            false => request.body.clone(),
        };
        Ok(EncodedRequest { head: beginning, body: rest })
    }

    fn to_response(&self, head: Http1Head, connection: PooledConnection) -> Http1Response {
        let Http1Head { status, headers, framing, reuse: afterwards } = head;
        let home = Arc::downgrade(&self.0);
        let (mode, connection) = (ReadMode::AsReceived, Some(connection));
        let mut answer = Http1Response {
            status,
            headers,
            framing,
            mode,
            reuse: afterwards,
            connection,
            pool: home,
        };
        if framing.is_complete() {
            answer.return_to_pool();
        }
        answer
    }

    async fn connect(&self, url: &Url) -> Result<PooledConnection, TransportError> {
        let limit = self.0.connect_timeout;
        let connected = timeout(limit, resolve_and_connect(url)).await;
        let timed_out = || io::Error::from(io::ErrorKind::TimedOut);
        let stream = connected.unwrap_or_else(|_| Err((timed_out(), FailurePhase::Connect)));
        let stream = stream.map_err(|(error, phase)| error::from_error(&error, phase))?;
        let _slower_then = stream.set_nodelay(true);
        let origin = url[..Position::BeforePath].into();
        Ok(PooledConnection {
            origin,
            thread: driver_thread(),
            stream,
            read_buffer: BytesMut::new(),
        })
    }
}

/// Who would hear of a connection that was made here.
fn driver_thread() -> DriverThread {
    let is_one_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
    is_one_thread.then(|| thread::current().id())
}

/// Connects to a host.
async fn resolve_and_connect(url: &Url) -> Result<TcpStream, (io::Error, FailurePhase)> {
    const PORT: u16 = 80;
    let port = url.port().unwrap_or(PORT);
    let addresses: Vec<SocketAddr> = match url.host() {
        Some(Host::Ipv4(address)) => vec![(address, port).into()],
        Some(Host::Ipv6(address)) => vec![(address, port).into()],
        Some(Host::Domain(name)) => {
            let found = lookup_host((name, port)).await;
            found.map_err(|error| (error, FailurePhase::Resolve))?.collect()
        }
        None => Vec::new(),
    };
    connect_first(addresses).await
}

/// Connects to the first address that answers.
async fn connect_first(addresses: Vec<SocketAddr>) -> Result<TcpStream, (io::Error, FailurePhase)> {
    let mut attempts = FuturesUnordered::new();
    let mut left = addresses.into_iter();
    let no_address = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut last = (no_address, FailurePhase::Resolve);
    loop {
        match left.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let wait = if left.len() == 0 { Duration::MAX } else { HAPPY_EYEBALLS_DELAY };
        match timeout(wait, attempts.next()).await {
            Ok(Some(Ok(stream))) => return Ok(stream),
            Ok(Some(Err(error))) => last = (error, FailurePhase::Connect),
            Ok(None) | Err(_) => {}
        }
    }
}

impl PooledConnection {
    /// Is the connection still there, with nothing on it that nobody asked for? Costs nothing while nothing came.
    fn is_reusable(&mut self) -> bool {
        let mut byte = [0];
        let noop_context = &mut Context::from_waker(Waker::noop());
        self.read_buffer.is_empty()
            && Pin::new(&mut self.stream)
                .poll_read(noop_context, &mut ReadBuf::new(&mut byte))
                .is_pending()
    }

    /// Asks something, and waits for the head of the answer. It may come before everything is sent.
    async fn send(&mut self, encoded: &EncodedRequest) -> Result<Http1Head, SendError> {
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
        let EncodedRequest { head: beginning, body: rest } = encoded;
        while *sent < beginning.len() + rest.len() {
            let stream = Pin::new(&mut self.stream);
            let written = match (beginning.get(*sent..), rest.is_empty()) {
                (Some(first), true) => stream.poll_write(task, first),
                (Some(first), false) => {
                    stream.poll_write_vectored(task, &[IoSlice::new(first), IoSlice::new(rest)])
                }
                (None, _) => stream.poll_write(task, &rest[*sent - beginning.len()..]),
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

impl Pool {
    /// The lock is held for a push, a pop or a sweep, and never while anything is waited for.
    fn idle(&self) -> MutexGuard<'_, IdleConnections> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that waited, and is still good.
    fn checkout(&self, origin: &str) -> Option<PooledConnection> {
        let here = driver_thread();
        loop {
            // The one that waited shortest is the least likely to be closed.
            let (since, mut connection) =
                self.idle().by_thread.get_mut(&here)?.get_mut(origin)?.pop()?;
            if since.elapsed() < IDLE_TIMEOUT && connection.is_reusable() {
                return Some(connection);
            }
        }
    }

    fn checkin(self: &Arc<Pool>, mut connection: PooledConnection) {
        if connection.read_buffer.capacity() > READ_BUFFER {
            connection.read_buffer = BytesMut::new();
        }
        let mut idle = self.idle();
        let connections = idle.by_thread.entry(connection.thread).or_default();
        let connections = match connections.get_mut(&connection.origin) {
            Some(connections) => connections,
            None => connections.entry(connection.origin.clone()).or_default(),
        };
        if connections.len() >= MAX_IDLE_PER_HOST {
            connections.remove(0);
        }
        connections.push((Instant::now(), connection));
        // One that was begun on a runtime that is gone is gone as well.
        if idle.sweeper.as_ref().is_none_or(AbortHandle::is_finished) {
            let sweeping = tokio::spawn(sweep(Arc::downgrade(self)));
            idle.sweeper = Some(sweeping.abort_handle());
        }
    }
}

/// Closes what nobody came for and what the other side closed, until there is nothing left.
async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        idle.by_thread.retain(|_, origins| {
            origins.retain(|_, connections| {
                connections.retain_mut(|(since, connection)| {
                    since.elapsed() < IDLE_TIMEOUT && connection.is_reusable()
                });
                !connections.is_empty()
            });
            !origins.is_empty()
        });
        if idle.by_thread.is_empty() {
            idle.sweeper = None;
            return;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(sweeper) = &self.idle().sweeper {
            sweeper.abort();
        }
    }
}

impl Http1Response {
    /// How much the body will be, where that was said.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.framing.remaining()
    }

    /// Whoever reads wants all of it at once.
    pub(crate) fn prefer_single_chunk(&mut self) {
        self.mode = ReadMode::Whole;
    }

    /// The next piece of the body. With the last one, the connection is free for others.
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
        if let Some(home) = self.pool.upgrade().filter(|_| is_reusable) {
            home.checkin(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// An address that refuses whoever comes.
    async fn refusing_address() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address")
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_skipped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let good = listener.local_addr().expect("an address");
        let (one, other) = (refusing_address().await, refusing_address().await);
        for addresses in [vec![one, good], vec![one, other, good], vec![good, one]] {
            let reached = connect_first(addresses).await.expect("somebody listens");
            assert_eq!(reached.peer_addr().expect("it is connected"), good);
        }
    }

    #[tokio::test]
    async fn a_request_on_a_closed_connection_fails_as_not_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}/mcp")).expect("a URL");
        let http1 = Http1Client::new("test", Duration::from_secs(5));
        let (connection, accepted) = tokio::join!(http1.connect(&url), listener.accept());
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

    #[tokio::test]
    async fn idle_connections_are_closed_by_the_server_or_the_sweeper() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}/mcp")).expect("a URL");
        let http1 = Http1Client::new("test", Duration::from_secs(5));
        let mut others = Vec::new();
        for _ in 0..2 {
            let (connection, accepted) = tokio::join!(http1.connect(&url), listener.accept());
            http1.0.checkin(connection.expect("somebody listens"));
            others.push(accepted.expect("one comes").0);
        }
        let waiting =
            || http1.0.idle().by_thread.values().flat_map(HashMap::values).map(Vec::len).sum();
        drop(others.pop());
        tokio::time::pause();
        let mut counts: Vec<usize> = vec![waiting()];
        for _ in 0..5 {
            tokio::time::advance(SWEEP_INTERVAL).await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            counts.push(waiting());
        }
        counts.dedup();
        assert_eq!(counts, [2, 1, 0]);
        assert!(http1.0.idle().sweeper.is_none(), "nobody sweeps an empty room");
    }

    #[tokio::test]
    async fn the_error_is_that_of_the_last_address() {
        let (one, other) = (refusing_address().await, refusing_address().await);
        let (error, phase) = connect_first(vec![one, other]).await.expect_err("nobody listens");
        assert_eq!(
            (error.kind(), phase),
            (io::ErrorKind::ConnectionRefused, FailurePhase::Connect)
        );
        let (_, phase) = connect_first(Vec::new()).await.expect_err("there is nowhere to go");
        assert_eq!(phase, FailurePhase::Resolve);
    }
}

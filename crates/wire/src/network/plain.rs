//! Plain HTTP/1.1 with no proxy in between, as cheaply as can be: a connection is driven by whoever uses it and by
//! nobody else, so that a request wakes no other task. Everything else goes through the library's client.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use url::{Host, Position, Url};

use super::unreachable::{self, Unreached};
use super::{IDLE, IDLE_CONNECTIONS, Request};
use crate::fault::{Fault, Unreachable};

/// How long one address of a host is waited for before the next is tried beside it (RFC 8305 has the figure).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// The way to servers that are spoken to plainly. Clones share connections.
#[derive(Clone)]
pub(super) struct Plain(Arc<Pool>);

struct Pool {
    agent: Option<HeaderValue>,
    connect_timeout: Duration,
    idle: Mutex<Idle>,
}

/// Connections that wait for another use, by origin.
#[derive(Default)]
struct Idle {
    lines: HashMap<String, Vec<(Instant, Line)>>,
    /// Closes those that nobody comes for.
    sweeper: Option<AbortHandle>,
}

/// A connection.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    driver: Option<Driver>,
}

/// What makes a connection work. It is dropped when it is over: a question that it never took comes back only then.
type Driver = Box<Connection<TokioIo<TcpStream>, Full<Bytes>>>;

/// An answer whose body is read from its connection. Dropped before its end, it closes the connection.
pub(super) struct PlainAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Incoming,
    line: Option<Line>,
    origin: String,
    home: Weak<Pool>,
}

/// Only what is spoken plainly: the scheme decides.
pub(super) fn is_plain(url: &Url) -> bool {
    url.scheme() == "http"
}

impl Plain {
    pub(super) fn new(agent: &str, connect_timeout: Duration) -> Plain {
        let agent = HeaderValue::from_str(agent).ok();
        Plain(Arc::new(Pool { agent, connect_timeout, idle: Mutex::default() }))
    }

    /// Makes a request. A connection that was closed while it waited is no reason to fail: what never left goes out on
    /// another one.
    pub(super) async fn send(&self, request: &Request<'_>) -> Result<PlainAnswer, Fault> {
        let origin = &request.url[..Position::BeforePath];
        let mut message = self.message(request)?;
        loop {
            let (mut line, is_new) = match self.0.take(origin) {
                Some(line) => (line, false),
                None => (self.connect(&request.url).await?, true),
            };
            match line.ask(message).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    return Ok(PlainAnswer {
                        status: head.status,
                        headers: head.headers,
                        body,
                        line: Some(line),
                        origin: origin.to_owned(),
                        home: Arc::downgrade(&self.0),
                    });
                }
                Err((Some(unsent), _)) if !is_new => message = *unsent,
                Err((_, error)) => return Err(unreachable::fault_of(&error, Unreached::Talking)),
            }
        }
    }

    fn message(&self, request: &Request<'_>) -> Result<http::Request<Full<Bytes>>, Fault> {
        let url = &request.url;
        let unfit = |detail| Fault::Unreachable { why: Unreachable::Other, detail };
        let target = &url[Position::BeforePath..Position::AfterQuery];
        let target = http::Uri::try_from(target).map_err(|error| unfit(error.to_string()))?;
        let host = &url[Position::BeforeHost..Position::AfterPort];
        let host = HeaderValue::from_str(host).map_err(|error| unfit(error.to_string()))?;
        let mut message = http::Request::new(Full::new(request.body.clone()));
        *message.method_mut() = request.method.clone();
        *message.uri_mut() = target;
        let headers = message.headers_mut();
        headers.clone_from(&request.headers);
        headers.insert(header::HOST, host);
        // Nothing here unpacks anything.
        let as_it_is = HeaderValue::from_static("identity");
        headers.insert(header::ACCEPT_ENCODING, as_it_is);
        if let Some(agent) = &self.0.agent
            && !headers.contains_key(header::USER_AGENT)
        {
            headers.insert(header::USER_AGENT, agent.clone());
        }
        Ok(message)
    }

    async fn connect(&self, url: &Url) -> Result<Line, Fault> {
        let limit = self.0.connect_timeout;
        let connected = timeout(limit, reach(url)).await;
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        let stream = connected.unwrap_or_else(|_| Err((late(), Unreached::Connecting)));
        let stream = stream.map_err(|(error, when)| unreachable::fault_of(&error, when))?;
        let _slower_then = stream.set_nodelay(true);
        let talking = |error: hyper::Error| unreachable::fault_of(&error, Unreached::Talking);
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(talking)?;
        Ok(Line { sender, driver: Some(Box::new(driver)) })
    }
}

/// Connects to a host.
async fn reach(url: &Url) -> Result<TcpStream, (io::Error, Unreached)> {
    const PORT: u16 = 80;
    let port = url.port().unwrap_or(PORT);
    let addresses: Vec<SocketAddr> = match url.host() {
        Some(Host::Ipv4(address)) => vec![(address, port).into()],
        Some(Host::Ipv6(address)) => vec![(address, port).into()],
        Some(Host::Domain(name)) => {
            let found = lookup_host((name, port)).await;
            found.map_err(|error| (error, Unreached::Naming))?.collect()
        }
        None => Vec::new(),
    };
    first_of(addresses).await
}

/// Connects to the first address that answers.
async fn first_of(addresses: Vec<SocketAddr>) -> Result<TcpStream, (io::Error, Unreached)> {
    let mut attempts = FuturesUnordered::new();
    let mut left = addresses.into_iter();
    let nowhere = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut last = (nowhere, Unreached::Naming);
    loop {
        match left.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let wait = if left.len() == 0 { Duration::MAX } else { NEXT_ADDRESS };
        match timeout(wait, attempts.next()).await {
            Ok(Some(Ok(stream))) => return Ok(stream),
            Ok(Some(Err(error))) => last = (error, Unreached::Connecting),
            Ok(None) | Err(_) => {}
        }
    }
}

impl Line {
    /// Lets the connection work.
    fn drive(&mut self, task: &mut Context<'_>) {
        drive(&mut self.driver, task);
    }

    fn is_over(&self) -> bool {
        self.driver.is_none()
    }

    /// Asks something. Gives it back where it never left.
    async fn ask(
        &mut self,
        message: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<Incoming>, (Option<Box<http::Request<Full<Bytes>>>>, hyper::Error)>
    {
        let Line { sender, driver } = self;
        let mut asked = pin!(sender.try_send_request(message));
        let answered = poll_fn(|task| {
            drive(driver, task);
            asked.as_mut().poll(task)
        });
        answered.await.map_err(|mut error| {
            let unsent = error.take_message().map(Box::new);
            (unsent, error.into_error())
        })
    }
}

fn drive(driver: &mut Option<Driver>, task: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|it| Pin::new(it).poll(task).is_ready()) {
        *driver = None;
    }
}

impl Pool {
    /// The lock is held for a push, a pop or a sweep; whether a connection still lives is looked at outside it.
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that waited, and is still good.
    fn take(&self, origin: &str) -> Option<Line> {
        loop {
            // The one that waited shortest is the least likely to be closed.
            let (since, mut line) = self.idle().lines.get_mut(origin)?.pop()?;
            // Nobody looked at it while it waited, so nobody heard its end.
            line.drive(&mut Context::from_waker(std::task::Waker::noop()));
            if !line.is_over() && line.sender.is_ready() && since.elapsed() < IDLE {
                return Some(line);
            }
        }
    }

    fn keep(self: &Arc<Pool>, origin: String, line: Line) {
        let mut idle = self.idle();
        let lines = idle.lines.entry(origin).or_default();
        if lines.len() >= IDLE_CONNECTIONS {
            lines.remove(0);
        }
        lines.push((Instant::now(), line));
        if idle.sweeper.is_none() {
            let sweeping = tokio::spawn(sweep(Arc::downgrade(self)));
            idle.sweeper = Some(sweeping.abort_handle());
        }
    }
}

/// Closes what nobody came for, until there is nothing left.
async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(IDLE).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        idle.lines.retain(|_, lines| {
            lines.retain(|(since, _)| since.elapsed() < IDLE);
            !lines.is_empty()
        });
        if idle.lines.is_empty() {
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

impl PlainAnswer {
    /// How much the body will be, where that was said.
    pub(super) fn content_length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The next piece of the body. With the last one, the connection is free for others.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        let piece = poll_fn(|task| self.poll_chunk(task)).await;
        if self.body.is_end_stream() || matches!(piece, Ok(None)) {
            self.give_back();
        }
        piece
    }

    fn poll_chunk(&mut self, task: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        if self.body.is_end_stream() {
            return Poll::Ready(Ok(None));
        }
        let mut is_wanted = false;
        loop {
            if let Some(line) = &mut self.line {
                line.drive(task);
            }
            match Pin::new(&mut self.body).poll_frame(task) {
                Poll::Ready(None) => return Poll::Ready(Ok(None)),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Fault::CutShort)),
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                }
                Poll::Pending if is_wanted => return Poll::Pending,
                // The body has said that it wants something; the connection, looked at after that, gives it.
                Poll::Pending => is_wanted = true,
            }
        }
    }

    fn give_back(&mut self) {
        let Some(mut line) = self.line.take() else { return };
        let Some(home) = self.home.upgrade() else { return };
        line.drive(&mut Context::from_waker(std::task::Waker::noop()));
        if !line.is_over() {
            home.keep(std::mem::take(&mut self.origin), line);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// An address that refuses whoever comes.
    async fn refusing() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address")
    }

    #[tokio::test]
    async fn of_several_addresses_one_that_refuses_is_passed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let good = listener.local_addr().expect("an address");
        let (one, other) = (refusing().await, refusing().await);
        for addresses in [vec![one, good], vec![one, other, good], vec![good, one]] {
            let reached = first_of(addresses).await.expect("somebody listens");
            assert_eq!(reached.peer_addr().expect("it is connected"), good);
        }
    }

    #[tokio::test]
    async fn a_question_on_a_connection_that_was_just_closed_comes_back_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}/mcp")).expect("a URL");
        let plain = Plain::new("test", Duration::from_secs(5));
        let (line, accepted) = tokio::join!(plain.connect(&url), listener.accept());
        let mut line = line.expect("somebody listens");
        let mut stream = accepted.expect("one comes").0;
        let question = || http::Request::new(Full::new(Bytes::from_static(b"question")));
        let nothing = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let answered = async {
            // What is left unread when it is closed would break it, instead of ending it.
            let mut heard = Vec::new();
            while !heard.ends_with(b"question") {
                stream.read_buf(&mut heard).await.expect("it is asked");
            }
            stream.write_all(nothing).await.expect("it is read");
        };
        let (first, ()) = tokio::join!(line.ask(question()), answered);
        assert!(first.is_ok());
        drop(stream);
        // The end is there, and nobody has looked at it.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let asked = timeout(Duration::from_secs(10), line.ask(question())).await.expect("an end");
        let (unsent, error) = asked.expect_err("nobody is there");
        assert!(unsent.is_some(), "it never left");
        let fault = unreachable::fault_of(&error, Unreached::Talking);
        let Fault::Unreachable { why, .. } = fault else { panic!("it broke: {fault:?}") };
        assert_eq!(why, Unreachable::Reset);
    }

    #[tokio::test]
    async fn who_cannot_be_reached_at_any_address_has_the_last_ones_reason() {
        let (one, other) = (refusing().await, refusing().await);
        let (error, when) = first_of(vec![one, other]).await.expect_err("nobody listens");
        assert_eq!((error.kind(), when), (io::ErrorKind::ConnectionRefused, Unreached::Connecting));
        let (_, when) = first_of(Vec::new()).await.expect_err("there is nowhere to go");
        assert_eq!(when, Unreached::Naming);
    }
}

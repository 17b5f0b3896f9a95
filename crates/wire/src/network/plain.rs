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

use self::framing::{Framing, Piece, Pieces};
use self::head::{Afterwards, Head};
use super::unreachable::{self, Unreached};
use super::{IDLE, IDLE_CONNECTIONS, Request};
use crate::fault::{Fault, Unreachable};

/// How long one address of a host is waited for before the next is tried beside it (RFC 8305 has the figure).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// How often connections that wait are looked at.
const SWEEP: Duration = Duration::from_secs(15);
/// How much of a body is copied behind its head, so that both go out as one.
const COPIED: usize = 16 * 1024;
/// How much room there is for an answer at first, and how much a connection that waits may hold.
const ROOM: usize = 8 * 1024;

/// The way to servers that are spoken to plainly. Clones share connections.
#[derive(Clone)]
pub(super) struct Plain(Arc<Pool>);

struct Pool {
    agent: Option<HeaderValue>,
    connect_timeout: Duration,
    idle: Mutex<Idle>,
}

/// Connections that wait for another use, by the thread that hears of them and by origin.
#[derive(Default)]
struct Idle {
    lines: HashMap<Listener, HashMap<Arc<str>, Waiting>>,
    /// Closes those that nobody comes for.
    sweeper: Option<AbortHandle>,
}

/// Connections, each with the time since when it waits.
type Waiting = Vec<(Instant, Line)>;

/// The thread that hears of what happens on a connection, where it is always the same one. Whoever else used the
/// connection would wait for that thread each time.
type Listener = Option<ThreadId>;

/// A connection.
struct Line {
    origin: Arc<str>,
    listener: Listener,
    stream: TcpStream,
    /// What was read and belongs to nothing yet.
    heard: BytesMut,
}

/// A request as it is sent.
struct Letter {
    /// Its head, and a small body behind it.
    beginning: Vec<u8>,
    /// A large body.
    rest: Bytes,
}

/// Why there is no answer.
struct Unanswered {
    has_left: bool,
    error: io::Error,
}

/// An answer whose body is read from its connection. Dropped before its end, it closes the connection.
pub(super) struct PlainAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    framing: Framing,
    pieces: Pieces,
    afterwards: Afterwards,
    line: Option<Line>,
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
        let letter = self.letter(request)?;
        loop {
            let (mut line, is_new) = match self.0.take(origin) {
                Some(line) => (line, false),
                None => (self.connect(&request.url).await?, true),
            };
            match line.ask(&letter).await {
                Ok(head) => return Ok(self.answer(head, line)),
                Err(Unanswered { has_left: false, .. }) if !is_new => {}
                Err(Unanswered { error, .. }) => {
                    return Err(unreachable::fault_of(&error, Unreached::Talking));
                }
            }
        }
    }

    fn letter(&self, request: &Request<'_>) -> Result<Letter, Fault> {
        let is_small = request.body.len() <= COPIED;
        let mut beginning = Vec::with_capacity(512 + if is_small { request.body.len() } else { 0 });
        let written = head::write(request, self.0.agent.as_ref(), &mut beginning);
        let unfit =
            |detail: &str| Fault::Unreachable { why: Unreachable::Other, detail: detail.into() };
        written.map_err(unfit)?;
        let rest = match is_small {
            true => {
                beginning.extend_from_slice(&request.body);
                Bytes::new()
            }
            false => request.body.clone(),
        };
        Ok(Letter { beginning, rest })
    }

    fn answer(&self, head: Head, line: Line) -> PlainAnswer {
        let Head { status, headers, framing, afterwards } = head;
        let home = Arc::downgrade(&self.0);
        let (pieces, line) = (Pieces::Several, Some(line));
        let mut answer = PlainAnswer { status, headers, framing, pieces, afterwards, line, home };
        if framing.is_over() {
            answer.give_back();
        }
        answer
    }

    async fn connect(&self, url: &Url) -> Result<Line, Fault> {
        let limit = self.0.connect_timeout;
        let connected = timeout(limit, reach(url)).await;
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        let stream = connected.unwrap_or_else(|_| Err((late(), Unreached::Connecting)));
        let stream = stream.map_err(|(error, when)| unreachable::fault_of(&error, when))?;
        let _slower_then = stream.set_nodelay(true);
        let origin = url[..Position::BeforePath].into();
        Ok(Line { origin, listener: here(), stream, heard: BytesMut::new() })
    }
}

/// Who would hear of a connection that was made here.
fn here() -> Listener {
    let is_one_thread = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
    is_one_thread.then(|| thread::current().id())
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
    /// Is the connection still there, with nothing on it that nobody asked for? Costs nothing while nothing came.
    fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let nobody = &mut Context::from_waker(Waker::noop());
        self.heard.is_empty()
            && Pin::new(&mut self.stream)
                .poll_read(nobody, &mut ReadBuf::new(&mut byte))
                .is_pending()
    }

    /// Asks something, and waits for the head of the answer. It may come before everything is sent.
    async fn ask(&mut self, letter: &Letter) -> Result<Head, Unanswered> {
        if !self.is_quiet() {
            return Err(Unanswered { has_left: false, error: hung_up() });
        }
        let (mut sent, mut searched) = (0, 0);
        poll_fn(|task| {
            let is_sent = match self.poll_send(letter, &mut sent, task) {
                Poll::Ready(Err(error)) if sent == 0 => {
                    return Poll::Ready(Err(Unanswered { has_left: false, error }));
                }
                Poll::Ready(sending) => sending.is_ok(),
                Poll::Pending => false,
            };
            // Who closes while we still talk may have said why.
            let head = std::task::ready!(self.poll_head(&mut searched, task));
            let head = head.map(|mut head| {
                if !is_sent {
                    head.afterwards = Afterwards::Closed;
                }
                head
            });
            Poll::Ready(head.map_err(|error| Unanswered { has_left: true, error }))
        })
        .await
    }

    fn poll_send(
        &mut self,
        letter: &Letter,
        sent: &mut usize,
        task: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let Letter { beginning, rest } = letter;
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
    ) -> Poll<io::Result<Head>> {
        loop {
            if let Some(head) = head::read(&mut self.heard, searched).map_err(io::Error::other)? {
                return Poll::Ready(Ok(head));
            }
            self.heard.reserve(ROOM);
            let read = pin!(self.stream.read_buf(&mut self.heard)).poll(task);
            if std::task::ready!(read)? == 0 {
                return Poll::Ready(Err(hung_up()));
            }
        }
    }
}

fn hung_up() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed before message completed")
}

impl Pool {
    /// The lock is held for a push, a pop or a sweep, and never while anything is waited for.
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that waited, and is still good.
    fn take(&self, origin: &str) -> Option<Line> {
        let here = here();
        loop {
            // The one that waited shortest is the least likely to be closed.
            let (since, mut line) = self.idle().lines.get_mut(&here)?.get_mut(origin)?.pop()?;
            if since.elapsed() < IDLE && line.is_quiet() {
                return Some(line);
            }
        }
    }

    fn keep(self: &Arc<Pool>, mut line: Line) {
        if line.heard.capacity() > ROOM {
            line.heard = BytesMut::new();
        }
        let mut idle = self.idle();
        let lines = idle.lines.entry(line.listener).or_default();
        let lines = match lines.get_mut(&line.origin) {
            Some(lines) => lines,
            None => lines.entry(line.origin.clone()).or_default(),
        };
        if lines.len() >= IDLE_CONNECTIONS {
            lines.remove(0);
        }
        lines.push((Instant::now(), line));
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
        sleep(SWEEP).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        idle.lines.retain(|_, origins| {
            origins.retain(|_, lines| {
                lines.retain_mut(|(since, line)| since.elapsed() < IDLE && line.is_quiet());
                !lines.is_empty()
            });
            !origins.is_empty()
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
        self.framing.left()
    }

    /// Whoever reads wants all of it at once.
    pub(super) fn wanted_whole(&mut self) {
        self.pieces = Pieces::One;
    }

    /// The next piece of the body. With the last one, the connection is free for others.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let Some(line) = &mut self.line else { return Ok(None) };
            match self.framing.next(&mut line.heard, self.pieces) {
                Ok(Piece::Bytes(bytes)) => {
                    if self.framing.is_over() {
                        self.give_back();
                    }
                    return Ok(Some(bytes));
                }
                Ok(Piece::Over) => {
                    self.give_back();
                    return Ok(None);
                }
                Ok(Piece::Wanting(room)) => {
                    line.heard.reserve(room);
                    let read = line.stream.read_buf(&mut line.heard).await;
                    match (read, self.framing) {
                        (Ok(0), Framing::ToTheEnd) => self.line = None,
                        (Ok(0) | Err(_), _) => return Err(Fault::CutShort),
                        (Ok(_), _) => {}
                    }
                }
                Err(framing::Malformed) => return Err(Fault::CutShort),
            }
        }
    }

    fn give_back(&mut self) {
        let Some(line) = self.line.take() else { return };
        let is_kept = self.afterwards == Afterwards::Kept && line.heard.is_empty();
        if let Some(home) = self.home.upgrade().filter(|_| is_kept) {
            home.keep(line);
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
        let question = Letter { beginning: b"question".to_vec(), rest: Bytes::new() };
        let nothing = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let answered = async {
            // What is left unread when it is closed would break it, instead of ending it.
            let mut heard = Vec::new();
            while !heard.ends_with(b"question") {
                stream.read_buf(&mut heard).await.expect("it is asked");
            }
            stream.write_all(nothing).await.expect("it is read");
        };
        let (first, ()) = tokio::join!(line.ask(&question), answered);
        assert!(first.is_ok());
        drop(stream);
        // The end is there, and nobody has looked at it.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let asked = timeout(Duration::from_secs(10), line.ask(&question)).await.expect("an end");
        let Err(Unanswered { has_left, error }) = asked else { panic!("nobody is there") };
        assert!(!has_left);
        let fault = unreachable::fault_of(&error, Unreached::Talking);
        let Fault::Unreachable { why, .. } = fault else { panic!("it broke: {fault:?}") };
        assert_eq!(why, Unreachable::Reset);
    }

    #[tokio::test]
    async fn connections_that_wait_are_closed_when_the_other_side_closes_or_nobody_comes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}/mcp")).expect("a URL");
        let plain = Plain::new("test", Duration::from_secs(5));
        let mut others = Vec::new();
        for _ in 0..2 {
            let (line, accepted) = tokio::join!(plain.connect(&url), listener.accept());
            plain.0.keep(line.expect("somebody listens"));
            others.push(accepted.expect("one comes").0);
        }
        let waiting =
            || plain.0.idle().lines.values().flat_map(HashMap::values).map(Vec::len).sum();
        drop(others.pop());
        tokio::time::pause();
        let mut counts: Vec<usize> = vec![waiting()];
        for _ in 0..5 {
            tokio::time::advance(SWEEP).await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            counts.push(waiting());
        }
        counts.dedup();
        assert_eq!(counts, [2, 1, 0]);
        assert!(plain.0.idle().sweeper.is_none(), "nobody sweeps an empty room");
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

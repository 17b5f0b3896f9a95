//! Messages over a WebSocket, one per frame. The handshake uses [`HttpClient`], so that proxies, certificates and
//! redirects work as for HTTP; the library does the framing.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{Sink, Stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::Upgraded;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message as Frame, Utf8Bytes};
use url::Url;

use crate::http::body::{not_mcp_error, status_error};
use crate::http::client::HttpClient;
use crate::http::request::HttpRequest;
use crate::http::send::{Endpoint, Via};
use crate::http::target::Target;
use crate::transport::{CloseReason, OutgoingMessage, Transport, TransportEvent};
use crate::transport_error::{TransportError, UnreachableReason};

/// How long the handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// The name of the subprotocol.
const SUBPROTOCOL: &str = "mcp";

/// How a dead connection is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// How often a ping is sent.
    pub ping_interval: Duration,
    /// How long the server may send nothing at all.
    pub timeout: Duration,
}

impl Default for KeepAlive {
    fn default() -> KeepAlive {
        KeepAlive { ping_interval: Duration::from_secs(30), timeout: Duration::from_secs(60) }
    }
}

/// The transport to a server at a `ws:` or `wss:` URL. Dropping it closes the connection.
pub struct WebSocketTransport {
    target: Target,
    keep_alive: KeepAlive,
    state: State,
    /// Messages to send. Bounded by the peer through [`Transport::queued_bytes`].
    write_queue: VecDeque<Bytes>,
    queued: usize,
    ready_events: VecDeque<TransportEvent>,
}

enum State {
    Connecting(BoxFuture<'static, Result<WebSocketStream<Upgraded>, CloseReason>>),
    Open(Box<OpenSocket>),
    Closed(CloseReason),
}

struct OpenSocket {
    socket: WebSocketStream<Upgraded>,
    ticker: Interval,
    last_received: Instant,
    /// A ping to send.
    ping: Option<Frame>,
    /// Whether all written frames have been flushed.
    is_flushed: bool,
}

impl WebSocketTransport {
    /// A transport that connects at the first call of [`Transport::next`].
    pub fn new(client: HttpClient, target: Target) -> WebSocketTransport {
        let connecting = connect(Endpoint { client, target: target.clone() });
        WebSocketTransport {
            target,
            keep_alive: KeepAlive::default(),
            state: State::Connecting(Box::pin(connecting)),
            write_queue: VecDeque::new(),
            queued: 0,
            ready_events: VecDeque::new(),
        }
    }

    /// Replaces the default keep-alive settings.
    pub fn keep_alive(mut self, keep_alive: KeepAlive) -> WebSocketTransport {
        self.keep_alive = keep_alive;
        self
    }

    fn poll_event(&mut self, task: &mut Task<'_>) -> Poll<Result<TransportEvent, CloseReason>> {
        loop {
            if let Some(event) = self.ready_events.pop_front() {
                return Poll::Ready(Ok(event));
            }
            let open = match &mut self.state {
                State::Connecting(connecting) => {
                    self.state = match ready!(connecting.as_mut().poll(task)) {
                        Ok(socket) => {
                            State::Open(Box::new(OpenSocket::new(socket, self.keep_alive)))
                        }
                        Err(end) => State::Closed(end),
                    };
                    continue;
                }
                State::Open(open) => open,
                State::Closed(end) => return Poll::Ready(Err(end.clone())),
            };
            let limit = self.target.max_message_size;
            if let Err(end) = open.tick(task, self.keep_alive.timeout) {
                self.state = State::Closed(end);
                continue;
            }
            let mut written = 0;
            let flushed = open.poll_write(task, &mut self.write_queue, &mut written);
            self.queued -= written;
            if let Poll::Ready(Err(error)) = flushed {
                self.state = State::Closed(close_reason(&error, limit));
                continue;
            }
            match ready!(Pin::new(&mut open.socket).poll_next(task)) {
                Some(Ok(frame)) => {
                    open.last_received = Instant::now();
                    match frame {
                        Frame::Text(text) => {
                            self.ready_events.extend(TransportEvent::parse_all(&text.into()))
                        }
                        Frame::Binary(bytes) => {
                            self.ready_events.extend(TransportEvent::parse_all(&bytes))
                        }
                        Frame::Close(_) => self.state = State::Closed(CloseReason::Closed),
                        // The library sends the pong when it is next polled.
                        Frame::Ping(_) => open.is_flushed = false,
                        Frame::Pong(_) | Frame::Frame(_) => {}
                    }
                }
                Some(Err(error)) => self.state = State::Closed(close_reason(&error, limit)),
                None => self.state = State::Closed(CloseReason::Closed),
            }
        }
    }
}

impl OpenSocket {
    fn new(socket: WebSocketStream<Upgraded>, keep_alive: KeepAlive) -> OpenSocket {
        let now = Instant::now();
        let mut ticker = interval_at(now + keep_alive.ping_interval, keep_alive.ping_interval);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        OpenSocket { socket, ticker, last_received: now, ping: None, is_flushed: true }
    }

    /// Sends a ping when it is due, and fails if nothing was received for too long.
    fn tick(&mut self, task: &mut Task<'_>, silent_for: Duration) -> Result<(), CloseReason> {
        while self.ticker.poll_tick(task).is_ready() {
            if self.last_received.elapsed() >= silent_for {
                return Err(CloseReason::Transport(TransportError::Timeout(silent_for)));
            }
            self.ping = Some(Frame::Ping(Bytes::new()));
        }
        Ok(())
    }

    /// Writes the queue. `written` is increased by the bytes that left it, also if more remain.
    fn poll_write(
        &mut self,
        task: &mut Task<'_>,
        write_queue: &mut VecDeque<Bytes>,
        written: &mut usize,
    ) -> Poll<Result<(), Error>> {
        while self.ping.is_some() || !write_queue.is_empty() {
            let mut socket = Pin::new(&mut self.socket);
            ready!(socket.as_mut().poll_ready(task))?;
            let next = match self.ping.take() {
                Some(ping) => ping,
                None => {
                    let Some(body) = write_queue.pop_front() else { break };
                    *written += body.len();
                    to_frame(body)
                }
            };
            self.is_flushed = false;
            socket.start_send(next)?;
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.socket).poll_flush(task))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl Transport for WebSocketTransport {
    fn push(&mut self, outgoing: OutgoingMessage) {
        let mut body = Vec::with_capacity(256);
        outgoing.message.write_to(&mut body);
        self.queued += body.len();
        self.write_queue.push_back(body.into());
    }

    fn queued_bytes(&self) -> usize {
        self.queued
    }

    async fn shutdown(&mut self) {
        let State::Open(open) = &mut self.state else { return };
        let write_queue = &mut self.write_queue;
        let mut written = 0;
        if poll_fn(|task| open.poll_write(task, write_queue, &mut written)).await.is_ok() {
            let _other_side_gone = open.socket.close(None).await;
        }
    }

    async fn next(&mut self) -> Result<TransportEvent, CloseReason> {
        poll_fn(|task| self.poll_event(task)).await
    }
}

impl fmt::Debug for WebSocketTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketTransport")
            .field("target", &self.target)
            .field("queued", &self.queued)
            .finish_non_exhaustive()
    }
}

/// Sends JSON as a text frame, and invalid UTF-8 as a binary frame that the server may reject.
fn to_frame(body: Bytes) -> Frame {
    match Utf8Bytes::try_from(body.clone()) {
        Ok(text) => Frame::Text(text),
        Err(_) => Frame::Binary(body),
    }
}

fn close_reason(error: &Error, limit: usize) -> CloseReason {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => CloseReason::Closed,
        Error::Io(error) => CloseReason::Io(error.kind()),
        Error::Capacity(_) => CloseReason::TooLarge { limit },
        // Nearly always a connection that was closed without a close frame.
        Error::Protocol(_) => CloseReason::Transport(TransportError::IncompleteResponse),
        Error::Tls(_)
        | Error::WriteBufferFull(_)
        | Error::Utf8(_)
        | Error::AttackAttempt
        | Error::Url(_)
        | Error::Http(_)
        | Error::HttpFormat(_) => CloseReason::Io(std::io::ErrorKind::InvalidData),
    }
}

async fn connect(endpoint: Endpoint) -> Result<WebSocketStream<Upgraded>, CloseReason> {
    let upgraded = match timeout(HANDSHAKE_TIMEOUT, upgrade(&endpoint)).await {
        Ok(upgraded) => upgraded?,
        Err(_) => return Err(CloseReason::Transport(TransportError::Timeout(HANDSHAKE_TIMEOUT))),
    };
    let config = WebSocketConfig::default()
        .read_buffer_size(16 * 1024)
        .max_message_size(Some(endpoint.target.max_message_size))
        .max_frame_size(Some(endpoint.target.max_message_size));
    Ok(WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await)
}

/// The opening handshake of RFC 6455, section 4.1.
async fn upgrade(endpoint: &Endpoint) -> Result<Upgraded, TransportError> {
    let target = &endpoint.target;
    let key = generate_key();
    let mut headers = target.headers.clone();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
    }
    let url = Cow::Owned(http_url(&target.url));
    let mut request = HttpRequest { method: Method::GET, url, headers, body: Bytes::new() };
    let response = endpoint.send(&mut request, Via::Upgrade).await?;
    let status = response.status();
    if status.is_success() {
        return Err(not_mcp_error(response).await);
    }
    if status != StatusCode::SWITCHING_PROTOCOLS {
        return Err(status_error(response).await);
    }
    check_upgrade(response.headers(), &key)?;
    response.upgrade().await
}

/// Checks the server's part of the handshake.
fn check_upgrade(headers: &HeaderMap, key: &str) -> Result<(), TransportError> {
    let has_header = |name, expected: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.eq_ignore_ascii_case(expected))
    };
    let accept = headers.get(header::SEC_WEBSOCKET_ACCEPT);
    let is_accepted =
        accept.is_some_and(|it| it.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes());
    if !has_header(header::UPGRADE, "websocket")
        || !has_header(header::CONNECTION, "upgrade")
        || !is_accepted
    {
        let detail = "the server's WebSocket handshake does not follow RFC 6455".to_owned();
        return Err(TransportError::Unreachable { reason: UnreachableReason::Other, detail });
    }
    match headers.get(header::SEC_WEBSOCKET_PROTOCOL) {
        // Many servers do not support subprotocols.
        None => Ok(()),
        Some(protocol) if protocol == SUBPROTOCOL => Ok(()),
        Some(protocol) => Err(TransportError::NotMcp {
            content_type: String::from_utf8_lossy(protocol.as_bytes()).chars().take(100).collect(),
            body_prefix: String::new(),
        }),
    }
}

/// The URL with the scheme of HTTP: `ws` becomes `http`, `wss` becomes `https`.
fn http_url(url: &Url) -> Url {
    let mut url = url.clone();
    let scheme = match url.scheme() {
        "wss" => "https",
        "ws" => "http",
        _ => return url,
    };
    let _both_are_special = url.set_scheme(scheme);
    url
}

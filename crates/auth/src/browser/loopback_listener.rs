//! The HTTP listener for the redirect, on loopback only, for one path and one login. It returns the query and
//! sends a page; `flow::callback` interprets the query.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use url::Url;

pub use crate::browser::result_page::ResultPage;
use crate::registration::CALLBACK_PATH;

/// Limits for concurrent connections of each address and for callbacks that wait.
const MAX_CONNECTIONS: usize = 16;
const MAX_PENDING_CALLBACKS: usize = 4;
/// Timeouts for the request headers, for the page, and for closing.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How many ports are tried, where a port is free for only one of IPv4 and IPv6.
const MAX_BIND_ATTEMPTS: u32 = 16;

/// The port of the redirect URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallbackPort {
    /// Any free port.
    Any,
    /// The port that is registered with the authorization server.
    Fixed(u16),
}

/// The host of the redirect URI. Some authorization servers accept only one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopbackHost {
    /// `127.0.0.1`, as RFC 8252 recommends.
    Ipv4,
    /// `localhost`.
    Localhost,
}

/// Why the listener could not be opened.
#[derive(Debug, Error)]
#[error("cannot listen on port {port} for the redirect of the browser")]
pub struct ListenError {
    /// The port; 0 for any.
    pub port: u16,
    /// The cause.
    #[source]
    pub source: io::Error,
}

/// The listener. Dropping it closes all connections.
#[derive(Debug)]
pub struct LoopbackListener {
    port: u16,
    callbacks: mpsc::Receiver<CallbackRequest>,
    tasks: JoinSet<()>,
}

/// A browser request to the redirect URI. Dropping it sends a page without a result.
#[derive(Debug)]
pub struct CallbackRequest {
    query: String,
    reply: oneshot::Sender<ResultPage>,
}

impl CallbackRequest {
    /// The query of the request.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Sends the page.
    pub fn respond(self, page: ResultPage) {
        let _browser_gone = self.reply.send(page);
    }
}

impl LoopbackListener {
    /// Listens on 127.0.0.1 and, where available, on ::1.
    pub async fn bind(port: CallbackPort) -> Result<LoopbackListener, ListenError> {
        let requested = match port {
            CallbackPort::Any => 0,
            CallbackPort::Fixed(port) => port,
        };
        let sockets = bind_dual_stack(port)
            .await
            .map_err(|source| ListenError { port: requested, source })?;
        let bound =
            sockets[0].local_addr().map_err(|source| ListenError { port: requested, source })?;
        let (sender, callbacks) = mpsc::channel(MAX_PENDING_CALLBACKS);
        let mut tasks = JoinSet::new();
        for socket in sockets {
            let callback_service =
                CallbackService { port: bound.port(), callbacks: sender.clone() };
            tasks.spawn(accept(socket, callback_service));
        }
        Ok(LoopbackListener { port: bound.port(), callbacks, tasks })
    }

    /// The redirect URI.
    pub fn redirect_uri(&self, host: LoopbackHost) -> Url {
        redirect_uri(self.port, host)
    }

    /// The next callback. There may be several: any local process can send one.
    pub async fn next_callback(&mut self) -> Option<CallbackRequest> {
        self.callbacks.recv().await
    }

    /// Closes the listener after the last page is sent.
    pub async fn close(mut self) {
        self.callbacks.close();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let _browser_slow = timeout(CLOSE_TIMEOUT, ended).await;
    }
}

/// The redirect URI for a port.
pub(crate) fn redirect_uri(port: u16, host: LoopbackHost) -> Url {
    let host = match host {
        LoopbackHost::Ipv4 => "127.0.0.1",
        LoopbackHost::Localhost => "localhost",
    };
    let text = format!("http://{host}:{port}{CALLBACK_PATH}");
    Url::parse(&text).expect("a host, a port and a path make a URL")
}

/// Binds the same port for IPv4 and IPv6, because browsers resolve `localhost` to either.
async fn bind_dual_stack(port: CallbackPort) -> io::Result<Vec<TcpListener>> {
    let number = match port {
        CallbackPort::Any => 0,
        CallbackPort::Fixed(number) => number,
    };
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..MAX_BIND_ATTEMPTS {
        let ipv4 = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, number))).await?;
        let got = ipv4.local_addr()?.port();
        match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, got))).await {
            Ok(ipv6) => return Ok(vec![ipv4, ipv6]),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
            // No IPv6 on this machine.
            Err(_) => return Ok(vec![ipv4]),
        }
        if let CallbackPort::Fixed(_) = port {
            break;
        }
    }
    Err(last)
}

#[derive(Clone)]
struct CallbackService {
    port: u16,
    callbacks: mpsc::Sender<CallbackRequest>,
}

/// An open connection.
struct OpenConnection {
    task: AbortHandle,
    /// Whether it has sent a request.
    has_request: Arc<AtomicBool>,
}

/// The open connections, the oldest first.
#[derive(Default)]
struct OpenConnections(VecDeque<OpenConnection>);

impl OpenConnections {
    /// Makes room for one more. A connection that has sent no request has to give way, the oldest first: any local
    /// process can open many and leave them idle. `false` if all have sent one.
    fn make_room(&mut self) -> bool {
        self.0.retain(|it| !it.task.is_finished());
        if self.0.len() < MAX_CONNECTIONS {
            return true;
        }
        let idle = self.0.iter().position(|it| !it.has_request.load(Ordering::Relaxed));
        let Some(connection) = idle.and_then(|index| self.0.remove(index)) else { return false };
        connection.task.abort();
        true
    }
}

/// Accepts connections until the listener is closed, then waits for the open ones.
async fn accept(socket: TcpListener, callback_service: CallbackService) {
    let mut connections = JoinSet::new();
    let mut open = OpenConnections::default();
    loop {
        while connections.try_join_next().is_some() {}
        let stream = tokio::select! {
            () = callback_service.callbacks.closed() => break,
            accepted = socket.accept() => accepted,
        };
        let Ok((stream, _)) = stream else { continue };
        if !open.make_room() {
            continue;
        }
        let callback_service = callback_service.clone();
        let has_request = Arc::new(AtomicBool::new(false));
        let request_seen = has_request.clone();
        let task = connections.spawn(async move {
            let service = service_fn(move |request| {
                request_seen.store(true, Ordering::Relaxed);
                callback_service.clone().serve(request)
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).keep_alive(false);
            let served = server.serve_connection(TokioIo::new(stream), service);
            let _browser_gone = timeout(HEADER_TIMEOUT + RESPONSE_TIMEOUT, served).await;
        });
        open.0.push_back(OpenConnection { task, has_request });
    }
    drop(socket);
    while connections.join_next().await.is_some() {}
}

impl CallbackService {
    async fn serve(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        if !self.is_loopback_host(&request) {
            return Ok(ResultPage::Forbidden.response(StatusCode::FORBIDDEN));
        }
        if request.method() != Method::GET || request.uri().path() != CALLBACK_PATH {
            return Ok(ResultPage::NotFound.response(StatusCode::NOT_FOUND));
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let (reply, replied) = oneshot::channel();
        if self.callbacks.try_send(CallbackRequest { query, reply }).is_err() {
            return Ok(ResultPage::NotFound.response(StatusCode::SERVICE_UNAVAILABLE));
        }
        let page = match timeout(RESPONSE_TIMEOUT, replied).await {
            Ok(Ok(page)) => page,
            Ok(Err(_)) | Err(_) => ResultPage::Unknown,
        };
        Ok(page.response(StatusCode::OK))
    }

    /// Whether `Host` names this machine. Refuses other names that resolve to loopback (DNS rebinding).
    fn is_loopback_host(&self, request: &Request<Incoming>) -> bool {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let ours = ["127.0.0.1", "localhost", "[::1]"];
        ours.iter().any(|name| host.as_bytes() == format!("{name}:{}", self.port).as_bytes())
    }
}

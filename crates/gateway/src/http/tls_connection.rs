//! A connection over TLS: the handshake within its time, the client's certificate, and then HTTP/2 or HTTP/1.1, whichever
//! the handshake has chosen.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use switchboard_auth::resource_server::ClientCertificate;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info};

use crate::http::body::Body;
use crate::http::tls::{HTTP_2, LoadedTls, TlsServer};
use crate::http::write_timeout::WriteTimeout;

/// The most requests at the same time on one HTTP/2 connection.
const MAX_STREAMS: u32 = 256;
/// The largest headers of an HTTP/2 request, as HTTP/1.1 allows them.
const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// How often a silent HTTP/2 client is asked whether it is still there, and how long it may take to respond.
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a client may take to close its end of a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// The first byte of a TLS handshake.
const HANDSHAKE_RECORD: u8 = 22;
/// The response to a client that speaks plain HTTP.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: text/plain; charset=utf-8\r\ncontent-length: 42\r\n\r\n\
    this port speaks TLS: use an https:// URL\n";

/// The timeouts of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionTimeouts {
    pub(crate) header_read: Duration,
    pub(crate) write: Duration,
}

/// How a connection over TLS ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsEnd {
    /// There was no handshake, or it failed.
    Refused,
    /// It was served.
    Served,
}

/// A client's certificate, set by the handshake.
pub(crate) type CertificateSlot = OnceLock<ClientCertificate>;

/// Responds to requests. Boxed, so that the type of a connection does not contain that of every handler.
pub(crate) type Responder = Arc<dyn Fn(Request<Incoming>) -> ResponseFuture + Send + Sync>;
/// The response to a request.
pub(crate) type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Serves a connection until it ends, or until `evicted` completes. After `shutdown` completes, requests in flight are
/// finished.
pub(crate) async fn serve(
    (tls, stream): (&TlsServer, TcpStream),
    timeouts: ConnectionTimeouts,
    (responder, certificate): (Responder, &CertificateSlot),
    evicted: impl Future<Output = ()>,
    shutdown: impl Future<Output = ()>,
) -> TlsEnd {
    let mut evicted = pin!(evicted);
    let mut changes = tls.watch();
    let loaded = changes.borrow_and_update().clone();
    // The time without an authenticated request includes the handshake.
    let stream = tokio::select! {
        stream = handshake(&loaded, stream) => stream,
        () = &mut evicted => None,
    };
    let Some(stream) = stream else { return TlsEnd::Refused };
    let chain: Vec<CertificateDer<'static>> =
        stream.get_ref().1.peer_certificates().unwrap_or_default().to_vec();
    let mut expires = None;
    if let Some(client) = chain.first() {
        match ClientCertificate::parse(client) {
            Ok(parsed) => {
                expires = Some(parsed.expires);
                let _set_only_here = certificate.set(parsed);
            }
            Err(error) => {
                info!(reason = "tls", cause = %error, "client rejected");
                return TlsEnd::Refused;
            }
        }
    }
    let no_longer_accepted = async {
        if chain.is_empty() {
            std::future::pending::<()>().await;
        }
        tokio::select! {
            () = expiry(expires) => {}
            () = rejection(&mut changes, &chain) => {}
        }
    };
    let closing = async {
        tokio::select! {
            () = evicted => {}
            () = no_longer_accepted => debug!("a client certificate is no longer valid"),
        }
    };
    let is_http_2 = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
    let stream = TokioIo::new(WriteTimeout::new(stream, timeouts.write));
    match is_http_2 {
        true => serve_http_2(stream, responder, closing, shutdown).await,
        false => serve_http_1((stream, timeouts), responder, closing, shutdown).await,
    }
    TlsEnd::Served
}

type TlsIo = TokioIo<WriteTimeout<TlsStream<TcpStream>>>;

async fn serve_http_1(
    (stream, timeouts): (TlsIo, ConnectionTimeouts),
    responder: Responder,
    closing: impl Future<Output = ()>,
    shutdown: impl Future<Output = ()>,
) {
    let service = service_fn(move |request| responder(request));
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(timeouts.header_read)
            .serve_connection(stream, service)
    );
    tokio::select! {
        _connection_failed = &mut connection => {}
        () = closing => {}
        () = shutdown => {
            connection.as_mut().graceful_shutdown();
            let _connection_failed = connection.await;
        }
    }
}

async fn serve_http_2(
    stream: TlsIo,
    responder: Responder,
    closing: impl Future<Output = ()>,
    shutdown: impl Future<Output = ()>,
) {
    let service = service_fn(move |request| responder(request));
    let (spawner, mut spawned) = StreamSpawner::new();
    let mut connection = pin!(
        http2::Builder::new(spawner)
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADER_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            .serve_connection(stream, service)
    );
    let (mut closing, mut shutdown) = (pin!(closing), pin!(shutdown));
    let mut streams = FuturesUnordered::new();
    let mut is_shutting_down = false;
    loop {
        tokio::select! {
            _connection_failed = &mut connection => return,
            Some(stream) = spawned.recv() => streams.push(stream),
            Some(()) = streams.next() => {}
            () = &mut closing => return,
            () = &mut shutdown, if !is_shutting_down => {
                // Tells the client which of its requests are still served.
                is_shutting_down = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// The handshake. A client that speaks plain HTTP gets a response that it can read.
async fn handshake(tls: &LoadedTls, mut stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let mut first = [0];
    let received = stream.peek(&mut first).await;
    match received {
        Ok(1) if first[0] == HANDSHAKE_RECORD => {}
        Ok(1) if first[0].is_ascii_uppercase() => {
            let _client_gone = stream.write_all(PLAIN_HTTP).await;
            let _client_gone = stream.shutdown().await;
            // Unread data would reset the connection before the client has read the response.
            let mut sink = tokio::io::sink();
            let discard = tokio::io::copy(&mut stream, &mut sink);
            let _slow = tokio::time::timeout(CLOSE_TIMEOUT, discard).await;
            return None;
        }
        Ok(_) | Err(_) => return None,
    }
    match tls.acceptor().accept(stream).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            // The text is of the TLS library, and contains nothing that the client sent.
            info!(reason = "tls", cause = %error, "client rejected");
            None
        }
    }
}

/// Completes when a certificate expires.
async fn expiry(expires: Option<SystemTime>) {
    match expires.map(|it| it.duration_since(SystemTime::now()).unwrap_or_default()) {
        Some(remaining) => sleep(remaining).await,
        None => std::future::pending().await,
    }
}

/// Completes when new files no longer accept a client's certificates.
async fn rejection(
    changes: &mut watch::Receiver<Arc<LoadedTls>>,
    chain: &[CertificateDer<'static>],
) {
    while changes.changed().await.is_ok() {
        if !changes.borrow_and_update().accepts(chain) {
            return;
        }
    }
    std::future::pending().await
}

/// Hands the futures of HTTP/2 streams to the task of their connection, so that they end with it.
#[derive(Debug, Clone)]
struct StreamSpawner {
    /// Unbounded, but a connection has at most [`MAX_STREAMS`].
    streams: mpsc::UnboundedSender<StreamFuture>,
}

type StreamFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl StreamSpawner {
    fn new() -> (StreamSpawner, mpsc::UnboundedReceiver<StreamFuture>) {
        let (streams, spawned) = mpsc::unbounded_channel();
        (StreamSpawner { streams }, spawned)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamSpawner {
    fn execute(&self, stream: F) {
        let _connection_ended = self.streams.send(Box::pin(stream));
    }
}

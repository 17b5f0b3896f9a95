//! Clients that come over HTTP: guards every request before anything else is looked at, says where things are, and
//! hands what is for the protocol to `posting`. No route takes a command or a configuration.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use switchboard_auth::resource_server::{Authenticator, RequestHead};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::gateway::Gateway;
use crate::http::body::Body;
use crate::http::host_origin_check::HostOriginCheck;
use crate::http::response::{json, preflight, refuse, text, text_of_type};
use crate::http::session_table::SessionTable;
use crate::http::stream_delay::StreamDelay;
use crate::http::workers::Workers;
use crate::telemetry::metrics::GaugeGuard;
use crate::telemetry::prometheus::Format;

/// The path that clients speak the protocol at.
pub const MCP_PATH: &str = "/mcp";
/// Where Prometheus reads.
const METRICS_PATH: &str = "/metrics";
/// How many connections there may be at once.
const MAX_CONNECTIONS: usize = 8192;
/// How long the head of a request may take to arrive.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(15);
/// How long to wait when no connection can be taken.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// How long requests under way have to end when we do.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Whom the door is open for.
#[derive(Debug)]
pub struct HttpOptions {
    /// Looks at every request's head.
    pub host_origin_check: HostOriginCheck,
    /// Says who a request comes from.
    pub authenticator: Authenticator,
    /// The most bytes that a request may have.
    pub max_request_bytes: usize,
    /// How long a session lives on which nothing happens.
    pub session_idle_timeout: Duration,
    /// Who may read the metrics.
    pub metrics_access: MetricsAccess,
    /// How many threads of their own serve clients. With none, clients are served where [`Gateway::serve_http`] runs.
    pub worker_threads: usize,
}

/// Who may read the metrics. They name every server and say how much it is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Those whom the doorkeeper lets in. Prometheus sends a token where it is told to.
    #[default]
    Authenticated,
    /// Everybody whose request the guard lets through.
    Public,
}

impl HttpOptions {
    /// The most that a request may have, unless told otherwise.
    pub const DEFAULT_MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;
    /// How long a session lives on which nothing happens, unless told otherwise.
    pub const DEFAULT_SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
}

/// What every connection shares.
#[derive(Debug)]
pub(crate) struct HttpServer {
    pub(crate) gateway: Gateway,
    pub(crate) options: HttpOptions,
    pub(crate) sessions: SessionTable,
    pub(crate) stream_delay: StreamDelay,
    /// Are we ending?
    pub(crate) shutdown: watch::Receiver<bool>,
}

impl Gateway {
    /// Serves everybody who connects, until somebody wants it to end; then requests under way may finish.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        options: HttpOptions,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut stop = pin!(stop);
        let (shutdown_sender, shutdown) = watch::channel(false);
        let (sessions, background) =
            SessionTable::new(self.relay.clone(), options.session_idle_timeout, shutdown.clone());
        let (stream_delay, ticking) = StreamDelay::new(shutdown.clone());
        let background = tokio::spawn(async move { tokio::join!(background, ticking) });
        let server = Arc::new(HttpServer {
            gateway: self.clone(),
            options,
            sessions,
            stream_delay,
            shutdown,
        });
        let connection_slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let shared = server.clone();
        let serve = move |stream| serve_connection(shared.clone(), stream);
        let workers = match server.options.worker_threads {
            0 => None,
            threads => Some(Workers::start(threads, DRAIN_TIMEOUT, serve.clone())?),
        };
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => accepted,
            };
            // A client that went away again, or too many open files: a moment later the next one may do better.
            let Ok((stream, _)) = accepted else {
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let Ok(slot) = connection_slots.clone().try_acquire_owned() else { continue };
            match &workers {
                Some(workers) => workers.assign(stream, slot),
                None => {
                    let serving = serve(stream);
                    connections.spawn(async move {
                        serving.await;
                        drop(slot);
                    });
                }
            }
        }
        drop((listener, serve));
        shutdown_sender.send_replace(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        let _some_are_slow = timeout(DRAIN_TIMEOUT, drained).await;
        connections.shutdown().await;
        if let Some(workers) = workers {
            workers.shutdown().await;
        }
        if let Some(server) = Arc::into_inner(server) {
            server.options.authenticator.close().await;
        }
        let _panicked = background.await;
        Ok(())
    }
}

async fn serve_connection(server: Arc<HttpServer>, stream: TcpStream) {
    let relay = server.gateway.relay.clone();
    let _open_connection = GaugeGuard::increment(&relay.metrics.connections);
    let _nagle_stays_on = stream.set_nodelay(true);
    let mut shutdown = server.shutdown.clone();
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(server.respond(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _it_broke = &mut connection => {}
        () = wait_until_true(&mut shutdown) => {
            connection.as_mut().graceful_shutdown();
            let _it_broke = connection.await;
        }
    }
}

/// Waits until somebody has said so, or nobody is left who could.
pub(crate) async fn wait_until_true(signal: &mut watch::Receiver<bool>) {
    let _said_or_gone = signal.wait_for(|it| *it).await.is_ok();
}

impl HttpServer {
    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let metrics = &self.gateway.relay.metrics;
        let response = self.check_and_route(request).await;
        metrics.count_response(response.status());
        response
    }

    async fn check_and_route(&self, request: Request<Incoming>) -> Response<Body> {
        if let Err(error) = self.options.host_origin_check.check(&request) {
            self.gateway.relay.metrics.count_host_origin_refusal(&error.kind);
            return refuse(error.status, &error.kind.to_string());
        }
        if let Some(headers) = self.options.host_origin_check.preflight(&request) {
            return preflight(headers);
        }
        let mut shared = HeaderMap::new();
        self.options.host_origin_check.add_cors_headers(request.headers(), &mut shared);
        let mut response = self.route(request).await;
        response.headers_mut().extend(shared);
        response
    }

    async fn route(&self, request: Request<Incoming>) -> Response<Body> {
        match (request.method(), request.uri().path()) {
            (_, MCP_PATH) => self.mcp_endpoint(request).await,
            (&Method::GET, "/healthz") => text(StatusCode::OK, "ok\n"),
            (&Method::GET, "/readyz") => self.readiness(),
            (&Method::GET, METRICS_PATH) => self.metrics_endpoint(&request).await,
            (&Method::GET, path) if self.is_resource_metadata_path(path) => {
                self.resource_metadata()
            }
            (_, _) => refuse(StatusCode::NOT_FOUND, "there is nothing here"),
        }
    }

    async fn mcp_endpoint(&self, request: Request<Incoming>) -> Response<Body> {
        let principal = match self.authenticate(&request).await {
            Ok(principal) => principal,
            Err(response) => return *response,
        };
        match *request.method() {
            Method::POST => self.post(request, principal).await,
            Method::GET => Box::pin(self.get_stream(&request, &principal)).await,
            Method::DELETE => self.delete_session(&request, &principal).await,
            _ => {
                let mut response =
                    refuse(StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE");
                let allowed = http::HeaderValue::from_static("POST, GET, DELETE");
                response.headers_mut().insert(http::header::ALLOW, allowed);
                response
            }
        }
    }

    async fn metrics_endpoint(&self, request: &Request<Incoming>) -> Response<Body> {
        if self.options.metrics_access == MetricsAccess::Authenticated
            && let Err(response) = self.authenticate(request).await
        {
            return *response;
        }
        let format = Format::from_accept(request.headers());
        text_of_type(self.gateway.metrics_page(format), format.content_type())
    }

    /// Who a request comes from, or what they are told who may not come in.
    async fn authenticate(
        &self,
        request: &Request<Incoming>,
    ) -> Result<Arc<str>, Box<Response<Body>>> {
        let authenticator = &self.options.authenticator;
        let (headers, method, target) = (request.headers(), request.method(), request.uri());
        let verified = match authenticator.cached(headers) {
            Some(principal) => Ok(principal),
            None => authenticator.authenticate(RequestHead { headers, method, uri: target }).await,
        };
        verified.map(|it| it.to_string().into()).map_err(|refusal| {
            self.gateway.relay.metrics.count_auth_refusal(&refusal);
            let mut response = refuse(refusal.status(), &refusal.to_string());
            if let Some(challenge) = authenticator.challenge(&refusal) {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            Box::new(response)
        })
    }

    /// Is it where one reads how to sign in?
    fn is_resource_metadata_path(&self, path: &str) -> bool {
        let resource = self.options.authenticator.resource();
        resource.is_some_and(|it| it.metadata_url().path() == path)
    }

    fn resource_metadata(&self) -> Response<Body> {
        match self.options.authenticator.metadata_document() {
            Some(document) => json(StatusCode::OK, document.to_string().into()),
            None => refuse(StatusCode::NOT_FOUND, "there is nothing here"),
        }
    }

    /// Ready is who has looked at every server once, whatever came of it.
    fn readiness(&self) -> Response<Body> {
        match self.gateway.relay.host.snapshot().is_settled() {
            true => text(StatusCode::OK, "ready\n"),
            false => text(StatusCode::SERVICE_UNAVAILABLE, "servers are being connected to\n"),
        }
    }
}

//! Accepts connections, checks and authenticates each request, and routes it. `post` and `legacy` handle requests to the
//! MCP endpoint.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use switchboard_auth::resource_server::{AuthError, RequestHead};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::gateway::Gateway;
use crate::http::body::Body;
use crate::http::host_origin_check::HostOriginErrorKind;
use crate::http::options::{HttpOptions, MetricsAccess};
use crate::http::response::{json, preflight, refuse, text, text_of_type};
use crate::http::server_state::HttpState;
use crate::http::session_table::SessionTable;
use crate::http::shutdown::{DRAIN_TIMEOUT, wait_until_true};
use crate::http::stream_delay::StreamDelay;
use crate::http::workers::Workers;
use crate::http::{legacy, post};
use crate::telemetry::metrics::{GaugeGuard, RefusalReason};
use crate::telemetry::prometheus::Format;

/// The path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";
/// The path of the metrics page.
const METRICS_PATH: &str = "/metrics";
/// The largest number of open connections.
const MAX_CONNECTIONS: usize = 8192;
/// How long a request's head may take to arrive.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(15);
/// How long to wait after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

impl Gateway {
    /// Serves clients until `stop` completes; then running requests have 10 seconds to finish.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        options: HttpOptions,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut stop = pin!(stop);
        let (shutdown_sender, shutdown) = watch::channel(false);
        let (sessions, sessions_task) =
            SessionTable::new(self.relay.clone(), options.session_idle_timeout, shutdown.clone());
        let (stream_delay, delay_task) = StreamDelay::new(shutdown.clone());
        let background = tokio::spawn(async move { tokio::join!(sessions_task, delay_task) });
        let state = Arc::new(HttpState {
            gateway: self.clone(),
            options,
            sessions,
            stream_delay,
            shutdown,
        });
        let connection_slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let shared = state.clone();
        let serve = move |stream| serve_connection(shared.clone(), stream);
        let workers = match state.options.worker_threads {
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
            // The client has disconnected, or there are too many open files. Both pass.
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
        let _no_receivers = shutdown_sender.send(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        let _some_are_slow = timeout(DRAIN_TIMEOUT, drained).await;
        connections.shutdown().await;
        if let Some(workers) = workers {
            workers.shutdown().await;
        }
        if let Some(state) = Arc::into_inner(state) {
            state.options.authenticator.close().await;
        }
        let _panicked = background.await;
        Ok(())
    }
}

async fn serve_connection(state: Arc<HttpState>, stream: TcpStream) {
    let relay = state.gateway.relay.clone();
    let _open_connection = GaugeGuard::increment(&relay.metrics.connections);
    let _nagle_stays_on = stream.set_nodelay(true);
    let mut shutdown = state.shutdown.clone();
    let service = service_fn(move |request| {
        let state = state.clone();
        async move { Ok::<_, Infallible>(respond(&state, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _connection_failed = &mut connection => {}
        () = wait_until_true(&mut shutdown) => {
            connection.as_mut().graceful_shutdown();
            let _connection_failed = connection.await;
        }
    }
}

async fn respond(state: &HttpState, request: Request<Incoming>) -> Response<Body> {
    let response = check_and_route(state, request).await;
    state.gateway.relay.metrics.count_response(response.status());
    response
}

async fn check_and_route(state: &HttpState, request: Request<Incoming>) -> Response<Body> {
    let check = &state.options.host_origin_check;
    if let Err(error) = check.check(&request) {
        state.gateway.relay.metrics.count_refusal(host_origin_refusal(error.kind));
        return refuse(error.status, &error.kind.to_string());
    }
    if let Some(headers) = check.preflight(&request) {
        return preflight(headers);
    }
    let mut cors_headers = HeaderMap::new();
    check.add_cors_headers(request.headers(), &mut cors_headers);
    let mut response = route(state, request).await;
    response.headers_mut().extend(cors_headers);
    response
}

async fn route(state: &HttpState, request: Request<Incoming>) -> Response<Body> {
    match (request.method(), request.uri().path()) {
        (_, MCP_PATH) => mcp_endpoint(state, request).await,
        (&Method::GET, "/healthz") => text(StatusCode::OK, "ok\n"),
        (&Method::GET, "/readyz") => readiness(state),
        (&Method::GET, METRICS_PATH) => metrics_endpoint(state, &request).await,
        (&Method::GET, path) if is_resource_metadata_path(state, path) => resource_metadata(state),
        (_, _) => refuse(StatusCode::NOT_FOUND, "not found"),
    }
}

async fn mcp_endpoint(state: &HttpState, request: Request<Incoming>) -> Response<Body> {
    let principal = match authenticate(state, &request).await {
        Ok(principal) => principal,
        Err(response) => return *response,
    };
    match *request.method() {
        Method::POST => post::respond(state, request, principal).await,
        Method::GET => Box::pin(legacy::get_stream(state, request.headers(), &principal)).await,
        Method::DELETE => legacy::delete_session(state, request.headers(), &principal),
        _ => {
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE");
            let allowed = HeaderValue::from_static("POST, GET, DELETE");
            response.headers_mut().insert(header::ALLOW, allowed);
            response
        }
    }
}

async fn metrics_endpoint(state: &HttpState, request: &Request<Incoming>) -> Response<Body> {
    if state.options.metrics_access == MetricsAccess::Authenticated
        && let Err(response) = authenticate(state, request).await
    {
        return *response;
    }
    let format = Format::from_accept(request.headers());
    text_of_type(state.gateway.metrics_page(format), format.content_type())
}

/// The principal of a request, or the response that refuses it.
async fn authenticate(
    state: &HttpState,
    request: &Request<Incoming>,
) -> Result<Arc<str>, Box<Response<Body>>> {
    let authenticator = &state.options.authenticator;
    let (headers, method, uri) = (request.headers(), request.method(), request.uri());
    let verified = match authenticator.cached(headers) {
        Some(principal) => Ok(principal),
        None => authenticator.authenticate(RequestHead { headers, method, uri }).await,
    };
    verified.map(|it| it.to_string().into()).map_err(|error| {
        state.gateway.relay.metrics.count_refusal(auth_refusal(&error));
        let mut response = refuse(error.status(), &error.to_string());
        if let Some(challenge) = authenticator.challenge(&error) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        Box::new(response)
    })
}

fn host_origin_refusal(kind: HostOriginErrorKind) -> RefusalReason {
    match kind {
        HostOriginErrorKind::MissingHost
        | HostOriginErrorKind::MultipleHosts
        | HostOriginErrorKind::MalformedHost
        | HostOriginErrorKind::HostNotAllowed => RefusalReason::Host,
        HostOriginErrorKind::InvalidTarget => RefusalReason::Target,
        HostOriginErrorKind::MultipleOrigins
        | HostOriginErrorKind::NullOrigin
        | HostOriginErrorKind::OriginNotAllowed => RefusalReason::Origin,
    }
}

fn auth_refusal(error: &AuthError) -> RefusalReason {
    match error {
        AuthError::MissingToken => RefusalReason::NoToken,
        AuthError::Malformed => RefusalReason::Malformed,
        AuthError::Token(_) => RefusalReason::Token,
        AuthError::Proof(_) => RefusalReason::Proof,
        AuthError::InsufficientScope(_) => RefusalReason::Scopes,
        AuthError::IssuerUnavailable(_) => RefusalReason::Issuer,
    }
}

/// Is this the path of the protected resource metadata (RFC 9728)?
fn is_resource_metadata_path(state: &HttpState, path: &str) -> bool {
    let resource = state.options.authenticator.resource();
    resource.is_some_and(|it| it.metadata_url().path() == path)
}

fn resource_metadata(state: &HttpState) -> Response<Body> {
    match state.options.authenticator.metadata_document() {
        Some(document) => json(StatusCode::OK, document.to_string().into()),
        None => refuse(StatusCode::NOT_FOUND, "not found"),
    }
}

/// Ready once every server has connected or failed.
fn readiness(state: &HttpState) -> Response<Body> {
    match state.gateway.relay.host.snapshot().is_settled() {
        true => text(StatusCode::OK, "ready\n"),
        false => text(StatusCode::SERVICE_UNAVAILABLE, "servers are connecting\n"),
    }
}

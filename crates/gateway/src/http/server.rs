//! Accepts connections, checks and authenticates each request, and routes it. `post` and `legacy` handle requests to the
//! MCP endpoint.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use switchboard::audit::log::UnrecordedCalls;
use switchboard_auth::resource_server::{AuthError, Authenticator, RequestHead};
use switchboard_config::display::printable;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tracing::{debug, info, warn};

use crate::dashboard::Dashboard;
use crate::gateway::Gateway;
use crate::http::body::Body;
use crate::http::host_origin_check::HostOriginErrorKind;
use crate::http::limits::LimitExceeded;
use crate::http::limits::accounts::{Account, Accounts, Reservation};
use crate::http::limits::client_account::{ClientAccount, counted_address};
use crate::http::limits::connections::{Connections, OpenConnection};
use crate::http::options::{HttpOptions, MCP_PATH, MetricsAccess, ServedRoutes};
use crate::http::probes::Detail;
use crate::http::replica::Replicas;
use crate::http::response::{json, preflight, refuse, text, text_of_type};
use crate::http::revocation::Revocations;
use crate::http::server_state::{Arrival, Caller, HttpState, SharedReplicaSocket};
use crate::http::session::SessionTimeouts;
use crate::http::session_table::SessionTable;
use crate::http::shutdown::{StopReason, wait_until_true};
use crate::http::stream_delay::StreamDelay;
use crate::http::tls_connection::{CertificateSlot, ConnectionTimeouts, Responder, TlsEnd};
use crate::http::workers::Workers;
use crate::http::write_timeout::WriteTimeout;
use crate::http::{dashboard_endpoint, legacy, post, probes, replica_server, tls_connection};
use crate::shared::fleet::StoreStatus;
use crate::telemetry::limit_kind::LimitKind;
use crate::telemetry::metrics::{GaugeGuard, RefusalReason};
use crate::telemetry::prometheus::Format;

/// The path of the health probe.
const HEALTH_PATH: &str = "/healthz";
/// The path of the metrics page.
const METRICS_PATH: &str = "/metrics";
/// How long a request's head may take to arrive.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(15);
/// How long to wait after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
const CLOSE: HeaderValue = HeaderValue::from_static("close");

impl Gateway {
    /// Serves clients until `stop` completes; then in the steps of [`HttpOptions::drain`].
    pub async fn serve_http<Stop: Into<StopReason>>(
        &self,
        listener: TcpListener,
        mut options: HttpOptions,
        stop: impl Future<Output = Stop>,
    ) -> io::Result<()> {
        let drain = options.drain;
        let mut stop = pin!(stop);
        let (shutdown_sender, shutdown) = watch::channel(false);
        let accounts = Accounts::new(options.limits.clone());
        let address_accounts = Accounts::of_addresses(&options.limits);
        let of_clients = (options.authenticator.clone(), self.relay.revocations.clone());
        let (revocations, revocations_task) = Revocations::new(of_clients, shutdown.clone());
        let (sessions, sessions_task) = SessionTable::new(
            (self.relay.clone(), revocations.clone()),
            accounts.clone(),
            SessionTimeouts { idle: options.session_idle_timeout, drain: drain.timeout },
            shutdown.clone(),
        );
        let (stream_delay, delay_task) = StreamDelay::new(shutdown.clone());
        let background =
            tokio::spawn(async move { tokio::join!(sessions_task, delay_task, revocations_task) });
        let replica_listener = options.replica_listener.take();
        let state = Arc::new(HttpState {
            replicas: Replicas::default(),
            is_replica: replica_listener.is_some(),
            shared_socket: SharedReplicaSocket::new(replica_listener.as_ref(), drain),
            shares_rates: self.relay.shared.store().is_some(),
            gateway: self.clone(),
            options,
            sessions,
            stream_delay,
            accounts,
            address_accounts,
            connections: Connections::default(),
            revocations,
            started: Instant::now(),
            is_draining: AtomicBool::new(false),
            shutdown,
        });
        let (stop_replicas, replicas_stopped) = watch::channel(false);
        let replicas = replica_listener.map(|listener| {
            tokio::spawn(replica_server::serve(listener.listener, state.clone(), replicas_stopped))
        });
        let connection_slots = Arc::new(Semaphore::new(state.options.limits.connections.total));
        let shared = state.clone();
        let serve = move |stream| serve_connection(shared.clone(), stream);
        let workers = match state.options.worker_threads {
            0 => None,
            threads => Some(Workers::start(threads, drain.timeout, serve.clone())?),
        };
        let mut connections = JoinSet::new();
        let mut condition = AcceptCondition::Normal;
        info!(address = listener.local_addr().ok().map(display), "HTTP server started");
        let mut listener = Some(listener);
        let mut delay_over = pin!(None::<Sleep>);
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                reason = &mut stop, if delay_over.is_none() => {
                    let reason = reason.into();
                    match reason {
                        StopReason::Ended => {}
                        // The successor accepts at the same socket. A connection that came here now could be closed before
                        // its first request is read.
                        StopReason::HandedOver => {
                            listener = None;
                            state.shared_socket.hand_over();
                        }
                    }
                    let delay = drain.delay_after(reason);
                    if delay.is_zero() {
                        break;
                    }
                    info!(?delay, "HTTP server draining");
                    state.is_draining.store(true, Ordering::Relaxed);
                    delay_over.set(Some(sleep(delay)));
                    continue;
                }
                () = wait_if_set(delay_over.as_mut()) => break,
                accepted = accept(listener.as_ref()) => accepted,
            };
            // The client has disconnected, or there are too many open files. Both pass.
            let Ok((stream, _)) = accepted else {
                condition.change(AcceptCondition::Failing);
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let Ok(slot) = connection_slots.clone().try_acquire_owned() else {
                condition.change(AcceptCondition::Full);
                count_refused_connection(&state, LimitKind::Connections, None);
                continue;
            };
            condition.change(AcceptCondition::Normal);
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
        info!("HTTP server stopping");
        drop((listener, serve));
        let _no_receivers = shutdown_sender.send(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        let _some_are_slow = timeout(drain.timeout, drained).await;
        connections.shutdown().await;
        if let Some(workers) = workers {
            workers.shutdown().await;
        }
        let _panicked = background.await;
        // Until now, other replicas could still reach sessions that finished their calls.
        let _no_listener = stop_replicas.send(true);
        if let Some(replicas) = replicas {
            let _panicked = replicas.await;
        }
        if let Some(state) = Arc::into_inner(state) {
            state.options.authenticator.close().await;
        }
        Ok(())
    }
}

/// The next connection; never completes without a listener.
async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Completes when the timer expires; never without one.
async fn wait_if_set(timer: Pin<&mut Option<Sleep>>) {
    match timer.as_pin_mut() {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

/// Whether connections are accepted. Only changes are logged: a flood of clients must not become a flood of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcceptCondition {
    Normal,
    /// There are too many connections.
    Full,
    /// The system refuses more connections.
    Failing,
}

impl AcceptCondition {
    fn change(&mut self, now: AcceptCondition) {
        if *self == now {
            return;
        }
        *self = now;
        match now {
            AcceptCondition::Normal => info!("connections are accepted again"),
            AcceptCondition::Full => {
                warn!("connections are refused: too many are open");
            }
            AcceptCondition::Failing => {
                warn!("connections cannot be accepted; are there too many open files?");
            }
        }
    }
}

async fn serve_connection(state: Arc<HttpState>, stream: TcpStream) {
    let relay = state.gateway.relay.clone();
    let Ok(address) = stream.peer_addr().map(|it| counted_address(it.ip())) else { return };
    let open = match state.connections.admit(address, &state.options.limits) {
        Ok((open, evicted)) => {
            if let Some(limit) = evicted {
                count_refused_connection(&state, limit, Some(address));
            }
            open
        }
        Err(limit) => return count_refused_connection(&state, limit, Some(address)),
    };
    let (account, certificate) = (OnceLock::new(), CertificateSlot::new());
    let client = Arc::new(ClientConnection { open, account, certificate });
    let limits = state.options.limits.clone();
    let open_client = client.clone();
    let _open_connection = GaugeGuard::increment(&relay.metrics.connections);
    let _nagle_stays_on = stream.set_nodelay(true);
    let mut shutdown = state.shutdown.clone();
    let closing_client = client.clone();
    let closing = async move {
        wait_until_true(&mut shutdown).await;
        closing_client.open.first_request().await;
    };
    let write_timeout = state.options.write_timeout;
    if let Some(tls) = state.options.tls.clone() {
        let responder: Responder = Arc::new(move |request| {
            let (state, client) = (state.clone(), client.clone());
            Box::pin(async move { Ok(respond(&state, &client, request).await) })
        });
        let timeouts =
            ConnectionTimeouts { header_read: HEADER_READ_TIMEOUT, write: write_timeout };
        let evicted = open_client.open.unauthenticated_too_long(&limits);
        let certificate = (responder, &open_client.certificate);
        let serving =
            tls_connection::serve((&tls, stream), timeouts, certificate, evicted, closing);
        // Boxed, so that connections without TLS have no room for it.
        let serving: Pin<Box<dyn Future<Output = TlsEnd> + Send + '_>> = Box::pin(serving);
        if serving.await == TlsEnd::Refused {
            relay.metrics.count_refusal(RefusalReason::Tls);
        }
        return;
    }
    let service = service_fn(move |request| {
        let (state, client) = (state.clone(), client.clone());
        async move { Ok::<_, Infallible>(respond(&state, &client, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, write_timeout)), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _connection_failed = &mut connection => {}
        () = open_client.open.unauthenticated_too_long(&limits) => {}
        () = closing => {
            connection.as_mut().graceful_shutdown();
            let _connection_failed = connection.await;
        }
    }
}

/// A client's connection, the account of its first request, and the client's certificate.
#[derive(Debug)]
struct ClientConnection {
    open: OpenConnection,
    account: OnceLock<(ClientAccount, Reservation)>,
    certificate: CertificateSlot,
}

impl ClientConnection {
    /// The account of a request, remembered for the next one. Without authentication the address has the account.
    fn account(
        &self,
        state: &HttpState,
        principal: &str,
    ) -> Result<ClientAccount, (Arc<Account>, LimitExceeded)> {
        let is_counted_by_address =
            matches!(*state.options.authenticator, Authenticator::Disabled(_));
        let known = self.account.get().map(|it| &it.0);
        if let Some(account) =
            known.filter(|it| is_counted_by_address || *it.own.principal == *principal)
        {
            return Ok(account.clone());
        }
        let address = || self.open.address.to_string();
        // All clients of a proxy on this machine have the same address.
        let of_address = || {
            let is_local = self.open.address.is_loopback();
            (!is_local).then(|| state.address_accounts.account(&address()))
        };
        let account = match is_counted_by_address {
            true => ClientAccount { own: state.accounts.account(&address()), address: None },
            false => {
                ClientAccount { own: state.accounts.account(principal), address: of_address() }
            }
        };
        // A proxy may send the requests of several principals over one connection; only the first is remembered.
        if known.is_none() {
            let own = &account.own;
            let reserved = own.open_connection().map_err(|it| (own.clone(), it))?;
            if self.account.set((account.clone(), reserved)).is_ok() {
                self.open.authenticate();
            }
        }
        Ok(account)
    }
}

fn count_refused_connection(state: &HttpState, limit: LimitKind, address: Option<IpAddr>) {
    let address = address.map(|it| it.to_string()).unwrap_or_default();
    state.gateway.relay.metrics.count_limit(limit, &address, state.started.elapsed());
}

async fn respond(
    state: &HttpState,
    client: &ClientConnection,
    request: Request<Incoming>,
) -> Response<Body> {
    let _busy = client.open.start_request();
    let version = request.version();
    let mut response = check_and_route(state, client, request).await;
    if state.is_draining.load(Ordering::Relaxed) && version < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, CLOSE);
    }
    let status = response.status().as_u16();
    state.gateway.relay.metrics.count_response(response.status());
    if status >= 400 {
        debug!(status, "HTTP request refused");
    }
    response
}

async fn check_and_route(
    state: &HttpState,
    client: &ClientConnection,
    request: Request<Incoming>,
) -> Response<Body> {
    let check = &state.options.host_origin_check;
    if let Err(error) = check.check(&request) {
        let reason = host_origin_refusal(error.kind);
        info!(reason = reason.label(), "client rejected");
        state.gateway.relay.metrics.count_refusal(reason);
        return refuse(error.status, &error.kind.to_string());
    }
    if let Some(dashboard) = &state.options.dashboard
        && Dashboard::owns(request.uri().path())
    {
        let is_signed_in = dashboard.is_signed_in(request.headers()).await;
        if is_signed_in {
            client.open.authenticate();
        }
        return Box::pin(dashboard_endpoint::respond(state, dashboard, request)).await;
    }
    if state.options.routes == ServedRoutes::DashboardOnly && request.uri().path() != HEALTH_PATH {
        return refuse(StatusCode::NOT_FOUND, "not found");
    }
    if let Some(headers) = check.preflight(&request) {
        return preflight(headers);
    }
    let mut cors_headers = HeaderMap::new();
    check.add_cors_headers(request.headers(), &mut cors_headers);
    let mut response = route(state, client, request).await;
    response.headers_mut().extend(cors_headers);
    response
}

async fn route(
    state: &HttpState,
    client: &ClientConnection,
    request: Request<Incoming>,
) -> Response<Body> {
    match (request.method(), request.uri().path()) {
        (_, MCP_PATH) => mcp_endpoint(state, client, request).await,
        (&Method::GET, HEALTH_PATH) => text(StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET, "/readyz") => {
            let is_open = matches!(*state.options.authenticator, Authenticator::Disabled(_));
            // Probes without a token are no refused clients.
            let has_token = request.headers().contains_key(header::AUTHORIZATION)
                || client.certificate.get().is_some();
            let is_known =
                is_open || (has_token && authenticate(state, client, &request).await.is_ok());
            let detail = if is_known { Detail::Names } else { Detail::Count };
            match probes::is_verbose(request.uri()) {
                true => probes::readiness_by_part(state, detail),
                false => readiness(state, detail),
            }
        }
        (&Method::GET, METRICS_PATH) => metrics_endpoint(state, client, &request).await,
        (&Method::GET, path) if is_resource_metadata_path(state, path) => resource_metadata(state),
        (_, _) => refuse(StatusCode::NOT_FOUND, "not found"),
    }
}

async fn mcp_endpoint(
    state: &HttpState,
    client: &ClientConnection,
    request: Request<Incoming>,
) -> Response<Body> {
    let caller = match authenticate(state, client, &request).await {
        Ok(caller) => caller,
        Err(response) => return *response,
    };
    match *request.method() {
        Method::POST => post::respond(state, request, caller).await,
        Method::GET => {
            let arrival = Arrival::FromClient;
            Box::pin(legacy::get_stream(state, request.headers(), &caller, arrival)).await
        }
        Method::DELETE => {
            let arrival = Arrival::FromClient;
            Box::pin(legacy::delete_session(state, request.headers(), &caller, arrival)).await
        }
        _ => {
            let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE");
            let allowed = HeaderValue::from_static("POST, GET, DELETE");
            response.headers_mut().insert(header::ALLOW, allowed);
            response
        }
    }
}

async fn metrics_endpoint(
    state: &HttpState,
    client: &ClientConnection,
    request: &Request<Incoming>,
) -> Response<Body> {
    if state.options.metrics_access == MetricsAccess::Authenticated
        && let Err(response) = authenticate(state, client, request).await
    {
        return *response;
    }
    let format = Format::from_accept(request.headers());
    let expires = state.options.tls.as_ref().map(|it| it.expires());
    text_of_type(state.gateway.metrics_page(format, expires), format.content_type())
}

/// The sender of a request, or the response that refuses it.
async fn authenticate(
    state: &HttpState,
    client: &ClientConnection,
    request: &Request<Incoming>,
) -> Result<Caller, Box<Response<Body>>> {
    let authenticator = &state.options.authenticator;
    let (headers, method, uri) = (request.headers(), request.method(), request.uri());
    // A token takes precedence: it may be that of another client behind a proxy with a certificate.
    let certificate =
        client.certificate.get().filter(|_| !headers.contains_key(header::AUTHORIZATION));
    let known = match certificate {
        Some(certificate) => Some(certificate.principal.clone()),
        None => authenticator.cached(headers),
    };
    let verified = match known {
        Some(principal) => Ok(principal),
        None => authenticator.authenticate(RequestHead { headers, method, uri }).await,
    };
    let verified = verified.and_then(|it| state.revocations.check(&it).map(|()| it));
    let error = match verified {
        Ok(verified) => {
            let principal: Arc<str> = verified.to_string().into();
            let account = client.account(state, &principal).map_err(|(account, exceeded)| {
                let mut response = state.refuse_over_limit(None, &account, &exceeded);
                response.headers_mut().insert(header::CONNECTION, CLOSE);
                Box::new(response)
            })?;
            return Ok(Caller { account, principal });
        }
        Err(error) => error,
    };
    // The error contains nothing of the request.
    info!(reason = auth_refusal(&error).label(), cause = %error, "client rejected");
    state.gateway.relay.metrics.count_refusal(auth_refusal(&error));
    let mut response = refuse(error.status(), &error.to_string());
    if error == AuthError::RevocationsUnknown {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    }
    if let Some(challenge) = authenticator.challenge(&error) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    Err(Box::new(response))
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
        AuthError::MissingCertificate => RefusalReason::NoCertificate,
        AuthError::Malformed => RefusalReason::Malformed,
        AuthError::Token(_) => RefusalReason::Token,
        AuthError::Proof(_) => RefusalReason::Proof,
        AuthError::InsufficientScope(_) => RefusalReason::Scopes,
        AuthError::IssuerUnavailable(_) => RefusalReason::Issuer,
        AuthError::RevocationsUnknown => RefusalReason::Revocations,
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

/// Ready once every server has connected or failed, unless calls are refused because they cannot be recorded. The other
/// lines say what is missing.
fn readiness(state: &HttpState, detail: Detail) -> Response<Body> {
    let relay = &state.gateway.relay;
    if state.is_draining.load(Ordering::Relaxed) {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    if !relay.host.snapshot().is_settled() {
        let missing = missing_lines(state, detail);
        let lines = format!("servers are connecting\n{missing}");
        return text(StatusCode::SERVICE_UNAVAILABLE, lines);
    }
    let (status, first) = match (relay.audit.status().failure, relay.audit.unrecorded_calls()) {
        (None, _) => (StatusCode::OK, "ready\n"),
        (Some(_), UnrecordedCalls::Allow) => {
            (StatusCode::OK, "ready\nthe audit log cannot be written: calls are not recorded\n")
        }
        (Some(_), UnrecordedCalls::Refuse) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the audit log cannot be written: calls are refused\n",
        ),
    };
    let store = match relay.shared.fleet().store {
        // Balancers read the status: if it said otherwise, they would take all replicas out at once.
        StoreStatus::Away { .. } => "store: away\n",
        StoreStatus::None | StoreStatus::Starting | StoreStatus::Connected => "",
    };
    text(status, format!("{first}{store}{}", missing_lines(state, detail)))
}

/// The servers that are missing, one per line.
fn missing_lines(state: &HttpState, detail: Detail) -> String {
    let missing = state.gateway.missing_servers();
    match detail {
        Detail::Count if missing.is_empty() => String::new(),
        Detail::Count => format!("missing servers: {}\n", missing.len()),
        Detail::Names => missing
            .iter()
            .map(|it| format!("missing: {}: {}\n", printable(&it.name), printable(&it.reason)))
            .collect(),
    }
}

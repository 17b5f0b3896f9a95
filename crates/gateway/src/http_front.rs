//! Clients that come over HTTP: guards every request before anything else is looked at, says where things are, and
//! hands what is for the protocol to `posting`. No route takes a command or a configuration.

mod body;
mod crew;
mod legacy_session;
mod lobby;
mod posting;
mod pulse;
mod responses;

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
use switchboard_auth::verify::{Asked as Shown, Doorkeeper};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::gateway::Gateway;
use crate::head_guard::HeadGuard;
use crate::metering::Present;
use crate::metrics_page::Format;
use body::Body;
use crew::Crew;
use lobby::Lobby;
use pulse::Pulse;
use responses::{json, page, plain, preflight, refused};

/// The path that clients speak the protocol at.
pub const PATH: &str = "/mcp";
/// Where Prometheus reads.
const METRICS: &str = "/metrics";
/// How many connections there may be at once.
const CONNECTIONS: usize = 8192;
/// How long the head of a request may take to arrive.
const HEAD: Duration = Duration::from_secs(15);
/// How long to wait when no connection can be taken.
const AFTER_FAILURE: Duration = Duration::from_millis(50);
/// How long requests under way have to end when we do.
const DRAIN: Duration = Duration::from_secs(10);

/// Whom the door is open for.
#[derive(Debug)]
pub struct Door {
    /// Looks at every request's head.
    pub guard: HeadGuard,
    /// Says who a request comes from.
    pub doorkeeper: Doorkeeper,
    /// The most bytes that a request may have.
    pub largest_request: usize,
    /// How long a session lives on which nothing happens.
    pub idle: Duration,
    /// Who may read the metrics.
    pub metrics: MetricsReaders,
    /// How many threads of their own serve clients. With none, clients are served where [`Gateway::serve_http`] runs.
    pub threads: usize,
}

/// Who may read the metrics. They name every server and say how much it is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsReaders {
    /// Those whom the doorkeeper lets in. Prometheus sends a token where it is told to.
    #[default]
    Admitted,
    /// Everybody whose request the guard lets through.
    Everybody,
}

impl Door {
    /// The most that a request may have, unless told otherwise.
    pub const LARGEST_REQUEST: usize = 16 * 1024 * 1024;
    /// How long a session lives on which nothing happens, unless told otherwise.
    pub const IDLE: Duration = Duration::from_secs(3600);
}

/// What every connection shares.
#[derive(Debug)]
pub(crate) struct HttpFront {
    gateway: Gateway,
    door: Door,
    lobby: Lobby,
    pulse: Pulse,
    /// Are we ending?
    ending: watch::Receiver<bool>,
}

impl Gateway {
    /// Serves everybody who connects, until somebody wants it to end; then requests under way may finish.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        door: Door,
        stop: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let mut stop = pin!(stop);
        let (end, ending) = watch::channel(false);
        let (lobby, keeping) = Lobby::new(self.relay.clone(), door.idle, ending.clone());
        let (pulse, beating) = Pulse::new(ending.clone());
        let keeping = tokio::spawn(async move { tokio::join!(keeping, beating) });
        let front = Arc::new(HttpFront { gateway: self.clone(), door, lobby, pulse, ending });
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let shared = front.clone();
        let serve = move |stream| serve_connection(shared.clone(), stream);
        let crew = match front.door.threads {
            0 => None,
            threads => Some(Crew::start(threads, DRAIN, serve.clone())?),
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
                sleep(AFTER_FAILURE).await;
                continue;
            };
            let Ok(place) = room.clone().try_acquire_owned() else { continue };
            match &crew {
                Some(crew) => crew.take(stream, place),
                None => {
                    let serving = serve(stream);
                    connections.spawn(async move {
                        serving.await;
                        drop(place);
                    });
                }
            }
        }
        drop((listener, serve));
        end.send_replace(true);
        let drained = async { while connections.join_next().await.is_some() {} };
        let _some_are_slow = timeout(DRAIN, drained).await;
        connections.shutdown().await;
        if let Some(crew) = crew {
            crew.end().await;
        }
        if let Some(front) = Arc::into_inner(front) {
            front.door.doorkeeper.close().await;
        }
        let _panicked = keeping.await;
        Ok(())
    }
}

async fn serve_connection(front: Arc<HttpFront>, stream: TcpStream) {
    let counted = front.gateway.relay.clone();
    let _present = Present::at(&counted.meters.connections);
    let _slower_then = stream.set_nodelay(true);
    let mut ending = front.ending.clone();
    let service = service_fn(move |request| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.respond(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _it_broke = &mut connection => {}
        () = told(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            let _it_broke = connection.await;
        }
    }
}

/// Waits until somebody has said so, or nobody is left who could.
async fn told(flag: &mut watch::Receiver<bool>) {
    let _said_or_gone = flag.wait_for(|it| *it).await.is_ok();
}

impl HttpFront {
    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let meters = &self.gateway.relay.meters;
        let response = self.guarded(request).await;
        meters.responded(response.status());
        response
    }

    async fn guarded(&self, request: Request<Incoming>) -> Response<Body> {
        if let Err(error) = self.door.guard.check(&request) {
            self.gateway.relay.meters.turned_away(&error.reason);
            return refused(error.status, &error.reason.to_string());
        }
        if let Some(headers) = self.door.guard.preflight(&request) {
            return preflight(headers);
        }
        let mut shared = HeaderMap::new();
        self.door.guard.share(request.headers(), &mut shared);
        let mut response = self.routed(request).await;
        response.headers_mut().extend(shared);
        response
    }

    async fn routed(&self, request: Request<Incoming>) -> Response<Body> {
        match (request.method(), request.uri().path()) {
            (_, PATH) => self.at_protocol(request).await,
            (&Method::GET, "/healthz") => plain(StatusCode::OK, "ok\n"),
            (&Method::GET, "/readyz") => self.readiness(),
            (&Method::GET, METRICS) => self.metrics(&request).await,
            (&Method::GET, path) if self.is_about_us(path) => self.document(),
            (_, _) => refused(StatusCode::NOT_FOUND, "there is nothing here"),
        }
    }

    async fn at_protocol(&self, request: Request<Incoming>) -> Response<Body> {
        let principal = match self.principal(&request).await {
            Ok(principal) => principal,
            Err(response) => return *response,
        };
        match *request.method() {
            Method::POST => self.posted(request, principal).await,
            Method::GET => Box::pin(self.opened_stream(&request, &principal)).await,
            Method::DELETE => self.ended_session(&request, &principal).await,
            _ => {
                let mut response =
                    refused(StatusCode::METHOD_NOT_ALLOWED, "use POST, GET or DELETE");
                let allowed = http::HeaderValue::from_static("POST, GET, DELETE");
                response.headers_mut().insert(http::header::ALLOW, allowed);
                response
            }
        }
    }

    async fn metrics(&self, request: &Request<Incoming>) -> Response<Body> {
        if self.door.metrics == MetricsReaders::Admitted
            && let Err(response) = self.principal(request).await
        {
            return *response;
        }
        let format = Format::wanted(request.headers());
        page(self.gateway.metrics(format), format.content_type())
    }

    /// Who a request comes from, or what they are told who may not come in.
    async fn principal(
        &self,
        request: &Request<Incoming>,
    ) -> Result<Arc<str>, Box<Response<Body>>> {
        let keeper = &self.door.doorkeeper;
        let (headers, method, target) = (request.headers(), request.method(), request.uri());
        let verified = match keeper.known(headers) {
            Some(principal) => Ok(principal),
            None => keeper.verify(Shown { headers, method, target }).await,
        };
        verified.map(|it| it.to_string().into()).map_err(|refusal| {
            self.gateway.relay.meters.kept_out(&refusal);
            let mut response = refused(refusal.status(), &refusal.to_string());
            if let Some(challenge) = keeper.challenge(&refusal) {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
            Box::new(response)
        })
    }

    /// Is it where one reads how to sign in?
    fn is_about_us(&self, path: &str) -> bool {
        let resource = self.door.doorkeeper.resource();
        resource.is_some_and(|it| it.metadata_url().path() == path)
    }

    fn document(&self) -> Response<Body> {
        match self.door.doorkeeper.document() {
            Some(document) => json(StatusCode::OK, document.to_string().into()),
            None => refused(StatusCode::NOT_FOUND, "there is nothing here"),
        }
    }

    /// Ready is who has looked at every server once, whatever came of it.
    fn readiness(&self) -> Response<Body> {
        match self.gateway.relay.host.snapshot().is_settled() {
            true => plain(StatusCode::OK, "ready\n"),
            false => plain(StatusCode::SERVICE_UNAVAILABLE, "servers are being connected to\n"),
        }
    }
}

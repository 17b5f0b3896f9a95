//! A server on a loopback port, on a thread of its own: it records every request, misbehaves the way HTTP servers do,
//! and hands the rest to the transport.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::serve::ListenerExt;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::streamable_http::HttpSession;
use super::{http_sse_2024, streamable_http, websocket};
use crate::scripted::client_channel::ClientChannel;
use crate::scripted::client_session::ClientSession;
use crate::scripted::protocol::Initialized;
use crate::scripted::quirk::Quirk;
use crate::scripted::script::Script;
use crate::scripted::server_state::{RecordedRequest, RunMode, ServerState};

/// How a server on the network is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP, at `/mcp`.
    Http,
    /// HTTP with server-sent events, at `/sse`.
    Sse,
    /// WebSocket, at `/mcp`.
    WebSocket,
}

impl Transport {
    fn url(self, port: u16) -> String {
        match self {
            Transport::Http => format!("http://127.0.0.1:{port}/mcp"),
            Transport::Sse => format!("http://127.0.0.1:{port}/sse"),
            Transport::WebSocket => format!("ws://127.0.0.1:{port}/mcp"),
        }
    }
}

/// A server that runs. Dropping it ends it and every connection to it.
#[derive(Debug)]
pub struct RunningServer {
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) server: Arc<ServerState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a server; port 0 is any free one.
pub fn spawn_server(
    transport: Transport,
    script: Script,
    run_mode: RunMode,
    port: u16,
) -> io::Result<RunningServer> {
    let actor = ServerState::new(script, run_mode);
    let (stop, stopped) = oneshot::channel();
    let (ready, started) = mpsc::sync_channel(1);
    let script_server = Arc::clone(&actor);
    let thread = std::thread::Builder::new().name("scripted".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        runtime.block_on(async move {
            let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                Ok(listener) => listener,
                Err(error) => return drop(ready.send(Err(error))),
            };
            let _starter_waits = ready.send(listener.local_addr().map(|it| it.port()));
            // Small frames are not to wait for each other.
            let listener = listener.tap_io(|stream| {
                let _only_slower = stream.set_nodelay(true);
            });
            let server = axum::serve(listener, router(transport, script_server));
            tokio::select! {
                served = server => served.expect("a server serves until it is stopped"),
                _ = stopped => {}
            }
        });
    })?;
    let port = started.recv().map_err(io::Error::other)??;
    Ok(RunningServer {
        url: transport.url(port),
        port,
        server: actor,
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl RunningServer {
    /// Where it is reached.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _has_ended = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// What the requests of one server share.
#[derive(Debug)]
pub struct HttpState {
    pub server: Arc<ServerState>,
    /// Conversations by session.
    pub sessions: Mutex<HashMap<String, Arc<HttpSession>>>,
    /// The conversation of everybody who has no session.
    pub shared_session: Arc<ClientSession>,
    transport: Transport,
    status_quirk_count: AtomicUsize,
}

/// One request, its body read.
#[derive(Debug)]
pub struct HttpRequest {
    pub parts: Parts,
    pub body: Option<Value>,
    /// Headers as JSON, for those who want to see them.
    pub headers: Value,
}

impl HttpRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name).and_then(|it| it.to_str().ok())
    }

    pub fn is_method(&self, method: &str) -> bool {
        self.parts.method == method
    }

    /// The message's method; without a message, HTTP's.
    pub fn rpc_method(&self) -> &str {
        let asked = self.body.as_ref().and_then(|it| it["method"].as_str());
        asked.unwrap_or(self.parts.method.as_str())
    }
}

/// A server as something that axum can serve.
pub fn router(transport: Transport, actor: Arc<ServerState>) -> Router {
    let shared = ClientSession::new(&actor, ClientChannel::discard(), Initialized::Yes);
    let sessions = Mutex::default();
    let refusals = AtomicUsize::new(0);
    let state = HttpState {
        server: actor,
        sessions,
        shared_session: shared,
        transport,
        status_quirk_count: refusals,
    };
    Router::new().fallback(respond).with_state(Arc::new(state))
}

async fn respond(State(state): State<Arc<HttpState>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return empty_response(StatusCode::BAD_REQUEST);
    };
    let headers = recorded_headers(&parts.headers);
    let body: Option<Value> = serde_json::from_slice(&bytes).ok();
    state.server.record(RecordedRequest {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: headers.clone(),
        body: body.clone(),
    });
    let headers: Map<String, Value> =
        headers.into_iter().map(|(name, value)| (name, Value::String(value))).collect();
    let http_request = HttpRequest { parts, body, headers: Value::Object(headers) };
    if let Some(refusal) = state.quirk_response(&http_request) {
        return refusal;
    }
    match state.transport {
        Transport::Http => streamable_http::handle(&state, http_request).await,
        Transport::Sse => http_sse_2024::respond(&state, http_request).await,
        Transport::WebSocket => websocket::respond(&state, http_request).await,
    }
}

/// Headers as they are recorded.
pub fn recorded_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

impl HttpState {
    /// The answer that a script gives instead of the right one.
    fn quirk_response(&self, http_request: &HttpRequest) -> Option<Response> {
        self.server.script.quirks.iter().find_map(|quirk| {
            if let Quirk::RequiresBearer { token } = quirk {
                return self.bearer_challenge(http_request, token);
            }
            if !self.server.script.quirks_apply_to(http_request.rpc_method()) {
                return None;
            }
            if let Quirk::RedirectsTo { url } = quirk {
                return Some(with_header(
                    empty_response(StatusCode::TEMPORARY_REDIRECT),
                    "location",
                    url,
                ));
            }
            self.status_quirk(quirk)
        })
    }

    fn bearer_challenge(&self, http_request: &HttpRequest, token: &str) -> Option<Response> {
        let challenge = match http_request.header("authorization") {
            Some(presented) if presented == format!("Bearer {token}") => return None,
            Some(_) => "Bearer realm=\"scripted\", error=\"invalid_token\"",
            None => "Bearer realm=\"scripted\"",
        };
        Some(with_header(empty_response(StatusCode::UNAUTHORIZED), "www-authenticate", challenge))
    }

    fn status_quirk(&self, quirk: &Quirk) -> Option<Response> {
        let Quirk::HttpStatus { status: code, body, headers, after, times } = quirk else {
            return None;
        };
        let number = self.status_quirk_count.fetch_add(1, Ordering::Relaxed);
        let last = times.map_or(usize::MAX, |it| after.saturating_add(it));
        if !(*after..last).contains(&number) {
            return None;
        }
        let mut response =
            empty_response(StatusCode::from_u16(*code).expect("a script has real statuses"));
        *response.body_mut() = Body::from(body.clone());
        Some(headers.iter().fold(response, |it, (name, value)| with_header(it, name, value)))
    }
}

/// An answer without a body.
pub fn empty_response(code: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// An answer with one document.
pub fn json_response(code: StatusCode, body: Body) -> Response {
    let mut response = empty_response(code);
    *response.body_mut() = body;
    with_header(response, "content-type", "application/json")
}

/// An answer with a stream of events.
pub fn event_stream_response(body: Body) -> Response {
    let mut response = Response::new(body);
    response = with_header(response, "cache-control", "no-cache");
    response = with_header(response, "content-type", "text/event-stream");
    response
}

pub fn with_header(mut response: Response, name: &str, value: &str) -> Response {
    let name = HeaderName::from_bytes(name.as_bytes()).expect("a script has real headers");
    let value = HeaderValue::from_str(value).expect("a script has real headers");
    response.headers_mut().insert(name, value);
    response
}

//! Starts a scripted server on a loopback port, on its own thread. Records every request, applies HTTP quirks, and
//! passes the rest to the transport.

use std::io;
use std::net::Ipv4Addr;
use std::process;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::serve::ListenerExt;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::http_state::{HttpRequest, HttpState};
use super::process_quirks::apply_startup_quirks;
use super::{http_sse_2024, streamable_http, websocket};
use crate::http::recorded_request::{RecordedRequest, recorded_headers};
use crate::http::response::empty_response;
use crate::scripted::script::Script;
use crate::scripted::server_state::{RunMode, ServerState};

/// A network transport.
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

/// A running server. Dropping it ends the server and every connection to it.
#[derive(Debug)]
pub struct RunningServer {
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) server: Arc<ServerState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a server; port 0 chooses a free one.
pub fn spawn_server(
    transport: Transport,
    script: Script,
    run_mode: RunMode,
    port: u16,
) -> io::Result<RunningServer> {
    let state = ServerState::new(script, run_mode);
    let (stop, stopped) = oneshot::channel();
    let (ready, started) = mpsc::sync_channel(1);
    let thread_state = Arc::clone(&state);
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
            // Small frames must not wait for each other.
            let listener = listener.tap_io(|stream| {
                let _only_slower = stream.set_nodelay(true);
            });
            let server = axum::serve(listener, router(transport, thread_state));
            tokio::select! {
                result = server => result.expect("a server runs until it is stopped"),
                _ = stopped => {}
            }
        });
    })?;
    let port = started.recv().map_err(io::Error::other)??;
    Ok(RunningServer {
        url: transport.url(port),
        port,
        server: state,
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl RunningServer {
    /// The URL.
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

/// An axum router for the server.
pub fn router(transport: Transport, server: Arc<ServerState>) -> Router {
    Router::new().fallback(respond).with_state((transport, Arc::new(HttpState::new(server))))
}

async fn respond(
    State((transport, state)): State<(Transport, Arc<HttpState>)>,
    request: Request,
) -> Response {
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
    if let Some(response) = state.quirk_response(&http_request) {
        return response;
    }
    match transport {
        Transport::Http => streamable_http::handle(&state, http_request).await,
        Transport::Sse => http_sse_2024::respond(&state, http_request).await,
        Transport::WebSocket => websocket::respond(&state, http_request).await,
    }
}

/// Runs a script on a free port of this process and prints the URL to stdout. Does not return.
pub fn serve_network(transport: Transport, script: Script) -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        apply_startup_quirks(&script);
        let running =
            spawn_server(transport, script, RunMode::NetworkProgram, 0).expect("a port is free");
        println!("listening on {}", running.url());
        std::future::pending::<()>().await;
    });
    process::exit(0)
}

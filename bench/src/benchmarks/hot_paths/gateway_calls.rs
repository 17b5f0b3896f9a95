//! Calls that a client makes of a gateway in this process, over a link and over a socket, to a server in this process.

use std::future::pending;
use std::io;
use std::path::Path;

use serde_json::{Value as Json, json};
use switchboard::auth::resource_server::Authenticator;
use switchboard_gateway::http::host_origin_check::HostOriginCheck;
use switchboard_gateway::{
    DrainOptions, ExposeOptions, Gateway, HttpOptions, Limits, MetricsAccess, ServedRoutes,
    SessionPolicy,
};
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::Peer;
use switchboard_wire::transport::in_memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::runtime;
use crate::benchmarks::call_pipeline;
use crate::benchmarks::call_pipeline::{InProcessHost, TIMEOUT};
use crate::failure::Failure;

const VERSION: &str = "2025-11-25";

fn gateway_error(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::client("the gateway", error)
}

fn initialize_params() -> Json {
    let client = json!({"name": "bench", "version": "1"});
    json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client})
}

fn call() -> Json {
    json!({"name": "mcp__linked__echo", "arguments": call_pipeline::arguments()})
}

/// A gateway before a server in this process.
async fn open(
    folder: &Path,
) -> Result<(InProcessHost, Gateway, tokio::task::JoinHandle<()>), Failure> {
    let fail = |error| Failure::file(folder, error);
    let linked = InProcessHost::open(folder, 2).await.map_err(fail)?;
    let (gateway, gateway_task) =
        Gateway::open(&linked.host, linked.context.clone(), ExposeOptions::default());
    gateway.wait_until_ready(TIMEOUT).await;
    Ok((linked, gateway, gateway_task))
}

/// Everything but HTTP.
pub fn in_memory(times: usize) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(gateway_error)?;
    runtime()?.block_on(async {
        let (linked, gateway, gateway_task) = open(folder.path()).await?;
        let (ours, theirs) = in_memory::pair();
        let serving = gateway.clone();
        let serving =
            tokio::spawn(async move { serving.serve_transport(theirs, "bench", pending()).await });
        let client = Peer::spawn(ours);
        let introduction = Payload::encode(&initialize_params()).map_err(Failure::InvalidJson)?;
        client.peer.call("initialize").params(introduction).await.map_err(gateway_error)?;
        client.peer.notify("notifications/initialized", None).await.map_err(gateway_error)?;
        let params = Payload::encode(&call()).map_err(Failure::InvalidJson)?;
        for _ in 0..times {
            let answer = client.peer.call("tools/call").params(params.clone()).await;
            check(answer.map_err(gateway_error)?.as_bytes())?;
        }
        drop(client);
        serving.await.map_err(gateway_error)?;
        drop(gateway);
        linked.close().await;
        gateway_task.await.map_err(gateway_error)
    })
}

/// All of it, with a client written by hand.
pub fn over_http(times: usize) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(gateway_error)?;
    runtime()?.block_on(async {
        let (linked, gateway, gateway_task) = open(folder.path()).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(gateway_error)?;
        let address = listener.local_addr().map_err(gateway_error)?;
        let http_options = HttpOptions {
            limits: Limits { requests_per_second: None, ..Limits::default() },
            host_origin_check: HostOriginCheck::new(address, &[], &[]).map_err(gateway_error)?,
            authenticator: Authenticator::disabled().into(),
            write_timeout: HttpOptions::DEFAULT_WRITE_TIMEOUT,
            max_request_bytes: HttpOptions::DEFAULT_MAX_REQUEST_BYTES,
            session_idle_timeout: HttpOptions::DEFAULT_SESSION_IDLE_TIMEOUT,
            metrics_access: MetricsAccess::Authenticated,
            sessions: SessionPolicy::default(),
            replica_listener: None,
            tls: None,
            drain: DrainOptions::default(),
            routes: ServedRoutes::All,
            dashboard: None,
            worker_threads: 0,
        };
        let (stop, mut stopped) = watch::channel(false);
        let serving = gateway.clone();
        let serving = tokio::spawn(async move {
            let stopped = async move {
                let _dropped = stopped.wait_for(|it| *it).await;
            };
            serving.serve_http(listener, http_options, stopped).await
        });
        let mut client = Client::connect(&address.to_string()).await.map_err(gateway_error)?;
        client.initialize().await.map_err(gateway_error)?;
        let request = client.request(&json!({
            "jsonrpc": "2.0", "id": 1234, "method": "tools/call", "params": call(),
        }));
        for _ in 0..times {
            check(client.exchange(&request).await.map_err(gateway_error)?)?;
        }
        drop(client);
        stop.send_replace(true);
        serving.await.map_err(gateway_error)?.map_err(gateway_error)?;
        drop(gateway);
        linked.close().await;
        gateway_task.await.map_err(gateway_error)
    })
}

/// Fails unless it is the result of a call that went well.
fn check(answer: &[u8]) -> Result<(), Failure> {
    match memchr::memmem::find(answer, b"\"content\"") {
        Some(_) => Ok(()),
        None => Err(gateway_error(String::from_utf8_lossy(answer).into_owned())),
    }
}

/// A client with one connection, which looks at no more of an answer than where it ends.
struct Client {
    stream: TcpStream,
    address: String,
    session: String,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(address: &str) -> io::Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (address, session) = (address.to_owned(), String::new());
        Ok(Client { stream, address, session, buffer: Vec::with_capacity(64 * 1024) })
    }

    async fn initialize(&mut self) -> io::Result<()> {
        let hello = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize_params(),
        });
        let hello = self.request(&hello);
        let answer = String::from_utf8_lossy(self.exchange(&hello).await?).into_owned();
        let key = "mcp-session-id: ";
        let session = answer.lines().find_map(|line| line.strip_prefix(key));
        self.session = format!("{key}{}\r\n", session.unwrap_or_default());
        let ready = self.request(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self.exchange(&ready).await?;
        Ok(())
    }

    fn request(&self, message: &Json) -> Vec<u8> {
        let (body, Client { address, session, .. }) = (message.to_string(), self);
        let length = body.len();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\n{session}MCP-Protocol-Version: {VERSION}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        head.into_bytes()
    }

    /// Sends a request and reads the whole answer.
    async fn exchange(&mut self, request: &[u8]) -> io::Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        while !is_whole(&self.buffer) {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(&self.buffer)
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = memchr::memmem::find(answer, b"\r\n\r\n") else { return false };
    let (head, body) = answer.split_at(head + 4);
    let key = b"content-length: ";
    match memchr::memmem::find(head, key) {
        Some(at) => {
            let digits = head[at + key.len()..].iter().take_while(|it| it.is_ascii_digit());
            let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
            body.len() >= length
        }
        None if memchr::memmem::find(head, b"chunked").is_some() => body.ends_with(b"0\r\n\r\n"),
        None => true,
    }
}

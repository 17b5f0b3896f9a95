//! Connects to a server at an address. The only module that knows every transport.
//! A new transport is a module of its own and one more arm of the `match` here.

mod shared_program;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tracing::info;

use crate::client::Client;
use crate::client::handshake::{self, EraHint, HandshakeError, HandshakeErrorKind, HandshakeStage};
use crate::http::{HttpClient, Target};
use crate::peer::{CallError, Peer, PeerEvent, SpawnedPeer, Statistics};
use crate::process::{
    self, DescendantSearch, Process, ProcessExit, ProcessOptions, Program, StartError,
};
use crate::protocol::capabilities::ClientDescription;
use crate::protocol::era::Era;
use crate::transport::CloseReason;
use crate::transport::http_sse_2024::HttpSseTransport;
use crate::transport::in_memory::{self, InMemoryTransport};
use crate::transport::stdio::StdioTransport;
use crate::transport::streamable_http::StreamableHttpTransport;
use crate::transport::websocket::WebSocketTransport;
use crate::transport_error::TransportError;

pub use shared_program::{
    AttachError, Attachment, NotSharedCause, SharedExit, SharedProcess, SharedProgram,
};

/// How long a program that closed its streams has to exit, so that its exit status is known.
const EXIT_GRACE: Duration = Duration::from_millis(300);
/// How long the last messages may take to be sent.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The address of a server.
#[derive(Clone)]
pub enum Address {
    /// A program to start.
    Stdio(Program),
    /// A program that another process of the user runs for several clients.
    Shared(Arc<dyn SharedProgram>),
    /// Streamable HTTP; if the server rejects it, the older HTTP transport at the same URL.
    Http(Target),
    /// The older HTTP transport with a separate event stream.
    Sse(Target),
    /// WebSocket.
    WebSocket(Target),
    /// A server in this process: each call of the function serves one connection over the other end of an in-memory
    /// pair.
    InProcess(Arc<dyn Fn(InMemoryTransport) -> ServeFuture + Send + Sync>),
}

/// The work of an in-process server. It ends with its transport; dropping it stops it at once.
pub type ServeFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Stdio(program) => program.fmt(f),
            Address::Shared(_) => f.write_str("Shared"),
            Address::Http(target) => write!(f, "Http({target:?})"),
            Address::Sse(target) => write!(f, "Sse({target:?})"),
            Address::WebSocket(target) => write!(f, "WebSocket({target:?})"),
            Address::InProcess(_) => f.write_str("InProcess"),
        }
    }
}

impl Address {
    fn transport_name(&self) -> &'static str {
        match self {
            Address::Stdio(_) => "stdio",
            Address::Shared(_) => "shared",
            Address::Http(_) => "http",
            Address::Sse(_) => "sse",
            Address::WebSocket(_) => "websocket",
            Address::InProcess(_) => "in-process",
        }
    }
}

/// Options for [`connect`].
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// How the client describes itself.
    pub client: ClientDescription,
    /// The known facts about the server's era.
    pub era_hint: EraHint,
    /// The time limit for the handshake, from the start of the program. A fallback gets it anew.
    pub timeout: Duration,
    /// Options for the process of a stdio server.
    pub process_options: ProcessOptions,
    /// The client for servers at URLs; programs need none.
    pub http_client: Option<HttpClient>,
}

/// An open connection and what carries it. Dropping it closes both at once and kills the program.
#[derive(Debug)]
pub struct Connection {
    /// The client for requests.
    pub client: Client,
    /// The fallback that was needed to connect.
    pub fallback: Option<Fallback>,
    events: mpsc::Receiver<PeerEvent>,
    task: JoinHandle<Statistics>,
    process: Option<Process>,
    shared_process: Option<Arc<dyn SharedProcess>>,
    in_process_server: Option<InProcessServer>,
    /// When to close the connection of a program that has exited.
    close_at: Option<Instant>,
}

/// A second attempt that succeeded after the first one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// The server exited on `server/discover` and was restarted as a legacy server.
    Restarted,
    /// The server rejected streamable HTTP; the older transport is used.
    HttpSse2024,
}

/// A server could not be reached, or the handshake failed.
#[derive(Debug, Error)]
#[error("could not connect to the server")]
pub struct ConnectError {
    /// The cause.
    #[source]
    pub kind: ConnectErrorKind,
    /// The end of the program's standard error output.
    pub stderr: Vec<u8>,
    /// The exit status, if the program exited by itself.
    pub exit: Option<ExitStatus>,
    /// The start of the first input that was not a message, as the server sent it.
    pub malformed: Option<String>,
}

/// Why a connection failed.
#[derive(Debug, Error)]
pub enum ConnectErrorKind {
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The program cannot be shared.
    #[error(transparent)]
    NotShared(AttachError),
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The server is at a URL, and the options have no HTTP client.
    #[error("no HTTP client is configured for remote servers")]
    NoHttpClient,
    /// The server did not respond in time.
    #[error("the server did not answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
}

impl From<AttachError> for ConnectErrorKind {
    fn from(error: AttachError) -> ConnectErrorKind {
        match error {
            AttachError::Start(error) => ConnectErrorKind::Start(error),
            not_shared @ AttachError::NotShared { .. } => ConnectErrorKind::NotShared(not_shared),
        }
    }
}

impl From<ConnectErrorKind> for ConnectError {
    fn from(kind: ConnectErrorKind) -> ConnectError {
        ConnectError { kind, stderr: Vec::new(), exit: None, malformed: None }
    }
}

/// Connects to a server and performs the handshake in its era, with the fallbacks of [`Fallback`].
pub async fn connect(
    address: &Address,
    options: &ConnectOptions,
) -> Result<Connection, ConnectError> {
    let error = match attempt(address, options, options.era_hint).await {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    if closed_on_probe(&error) {
        info!("the server closed the connection on `server/discover`: restarting it");
        let mut connection = attempt(address, options, EraHint::Legacy).await?;
        connection.fallback = Some(Fallback::Restarted);
        return Ok(connection);
    }
    if let Address::Http(target) = address
        && expects_http_sse_2024(&error)
        && let Ok(mut connection) =
            attempt(&Address::Sse(target.clone()), options, EraHint::Legacy).await
    {
        info!("the server rejected streamable HTTP: using the older transport");
        connection.fallback = Some(Fallback::HttpSse2024);
        return Ok(connection);
    }
    Err(error)
}

/// Whether the server closed the connection on `server/discover`.
fn closed_on_probe(error: &ConnectError) -> bool {
    let ConnectErrorKind::Handshake(error) = &error.kind else { return false };
    let is_closed = matches!(
        &error.kind,
        HandshakeErrorKind::Call(CallError::Closed {
            reason: CloseReason::Closed | CloseReason::Truncated | CloseReason::Io(_),
            ..
        })
    );
    error.stage == HandshakeStage::Discover && is_closed
}

/// Whether the status is one with which a server of the older transport rejects a POST to its stream URL.
fn expects_http_sse_2024(error: &ConnectError) -> bool {
    let ConnectErrorKind::Handshake(error) = &error.kind else { return false };
    match &error.kind {
        HandshakeErrorKind::Call(CallError::Transport(TransportError::Status(response))) => {
            matches!(response.status, 400 | 404 | 405 | 406 | 415)
        }
        HandshakeErrorKind::Call(_)
        | HandshakeErrorKind::NoCommonVersion { .. }
        | HandshakeErrorKind::InvalidResponse => false,
    }
}

/// Opens the transport and performs the handshake. The time limit runs from the moment at which the transport is
/// there: a program cannot respond before it was started.
async fn attempt(
    address: &Address,
    options: &ConnectOptions,
    hint: EraHint,
) -> Result<Connection, ConnectError> {
    let OpenTransport { spawned_peer, mut process, shared, in_process_server } =
        open_transport(address, options).await?;
    let (shared_process, hint) = match shared {
        // Another client has found out.
        Some((process, Some(Era::Legacy))) => (Some(process), EraHint::Legacy),
        Some((process, Some(Era::Modern) | None)) => (Some(process), hint),
        None => (None, hint),
    };
    let deadline = Instant::now() + options.timeout;
    let SpawnedPeer { peer, events, task } = spawned_peer;
    let mut close_at = None;
    let negotiated = {
        let opening = timeout_at(deadline, handshake::negotiate(&peer, &options.client, hint));
        tokio::pin!(opening);
        tokio::select! {
            biased;
            negotiated = &mut opening => negotiated,
            () = process_exit(&mut process, &mut close_at) => {
                peer.close();
                opening.await
            }
        }
    };
    let kind = match negotiated {
        Ok(Ok(client)) => {
            info!(transport = address.transport_name(), "connection opened");
            return Ok(Connection {
                client,
                fallback: None,
                events,
                task,
                process,
                shared_process,
                in_process_server,
                close_at,
            });
        }
        Ok(Err(error)) => ConnectErrorKind::Handshake(error),
        Err(_) => ConnectErrorKind::Timeout(options.timeout),
    };
    if let Some(process) = &mut process {
        process.note_descendants(DescendantSearch::Now).await;
    }
    let malformed = peer.first_malformed().map(str::to_owned);
    drop((peer, events));
    join_task(task, EXIT_GRACE).await;
    if let Some(in_process_server) = in_process_server {
        in_process_server.stop().await;
    }
    if let Some(shared_process) = shared_process {
        let exit = shared_process.exit().await.unwrap_or_default();
        let malformed = malformed.or(exit.malformed);
        return Err(ConnectError { kind, stderr: exit.stderr, exit: exit.status, malformed });
    }
    let error = with_process_exit(kind, process).await;
    Err(ConnectError { malformed, ..error })
}

/// Opens the transport. No caller knows which one it has.
async fn open_transport(
    address: &Address,
    options: &ConnectOptions,
) -> Result<OpenTransport, ConnectErrorKind> {
    let client = || options.http_client.clone().ok_or(ConnectErrorKind::NoHttpClient);
    let spawned_peer = match address {
        Address::Stdio(program) => {
            let (transport, process) = process::spawn(program, &options.process_options)?;
            let spawned_peer = Peer::spawn(transport);
            return Ok(OpenTransport {
                process: Some(process),
                ..OpenTransport::new(spawned_peer)
            });
        }
        Address::Shared(program) => {
            let Attachment { reader, writer, era, process } = program.attach().await?;
            if let Some(started) = &options.process_options.started {
                started.send_replace(process.pid());
            }
            let limit = options.process_options.max_message_size;
            let spawned_peer = Peer::spawn(StdioTransport::new(reader, writer, limit));
            let shared = Some((process, era));
            return Ok(OpenTransport { shared, ..OpenTransport::new(spawned_peer) });
        }
        Address::Http(target) => {
            Peer::spawn(StreamableHttpTransport::new(client()?, target.clone()))
        }
        Address::Sse(target) => Peer::spawn(HttpSseTransport::new(client()?, target.clone())),
        Address::WebSocket(target) => {
            Peer::spawn(WebSocketTransport::new(client()?, target.clone()))
        }
        Address::InProcess(serve) => {
            let (ours, theirs) = in_memory::pair();
            let in_process_server = InProcessServer(tokio::spawn(serve(theirs)));
            let spawned_peer = Peer::spawn(ours);
            let in_process_server = Some(in_process_server);
            return Ok(OpenTransport { in_process_server, ..OpenTransport::new(spawned_peer) });
        }
    };
    Ok(OpenTransport::new(spawned_peer))
}

/// A peer, and the process or task at its other end if we own it.
struct OpenTransport {
    spawned_peer: SpawnedPeer,
    process: Option<Process>,
    /// The process of another process, and the era that others agreed on with it.
    shared: Option<(Arc<dyn SharedProcess>, Option<Era>)>,
    in_process_server: Option<InProcessServer>,
}

impl OpenTransport {
    fn new(spawned_peer: SpawnedPeer) -> OpenTransport {
        OpenTransport { spawned_peer, process: None, shared: None, in_process_server: None }
    }
}

/// The task of an in-process server. Dropping it aborts the task.
#[derive(Debug)]
struct InProcessServer(JoinHandle<()>);

impl InProcessServer {
    /// Waits until the server has seen its connection close, and aborts it if that takes too long.
    async fn stop(mut self) {
        if timeout(SHUTDOWN_TIMEOUT, &mut self.0).await.is_err() {
            self.0.abort();
            let _aborted = (&mut self.0).await;
        }
    }
}

impl Drop for InProcessServer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the task that owns the transport, and aborts it after the time limit.
async fn join_task(mut task: JoinHandle<Statistics>, limit: Duration) -> Statistics {
    match timeout(limit, &mut task).await {
        Ok(exited) => exited.unwrap_or_default(),
        Err(_) => {
            task.abort();
            let _aborted = task.await;
            Statistics::default()
        }
    }
}

/// Waits until a program has exited and its last messages had time to arrive. Another process may hold its standard
/// output open, so the transport alone would not notice.
async fn process_exit(process: &mut Option<Process>, close_at: &mut Option<Instant>) {
    let Some(process) = process else { return std::future::pending().await };
    if close_at.is_none() && process.wait().await.is_err() {
        return std::future::pending().await;
    }
    let close_at = *close_at.get_or_insert_with(|| Instant::now() + EXIT_GRACE);
    sleep_until(close_at).await;
}

/// Adds standard error output and exit status of the program to an error, and stops the program.
async fn with_process_exit(kind: ConnectErrorKind, process: Option<Process>) -> ConnectError {
    let Some(mut process) = process else { return kind.into() };
    let exit = match timeout(EXIT_GRACE, process.wait()).await {
        Ok(Ok(status)) => Some(status),
        Ok(Err(_)) | Err(_) => None,
    };
    let stderr = process.stderr_tail().await;
    process.stop(DescendantSearch::Now).await;
    ConnectError { kind, stderr, exit, malformed: None }
}

impl Connection {
    /// The next request or notification of the server. Closes the connection once the program has exited, and waits
    /// forever when no more events can come. Cancel safe.
    pub async fn next_event(&mut self) -> PeerEvent {
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => event,
            () = process_exit(&mut self.process, &mut self.close_at) => {
                self.client.close();
                std::future::pending().await
            }
        }
    }

    /// The process id, if the server is a program that runs.
    pub fn pid(&self) -> Option<u32> {
        match &self.shared_process {
            Some(process) => process.pid(),
            None => self.process.as_ref().and_then(Process::pid),
        }
    }

    /// Whether another process runs the program, for other clients as well.
    pub fn is_shared(&self) -> bool {
        self.shared_process.is_some()
    }

    /// The end of the program's standard error output.
    pub async fn stderr_tail(&self) -> Vec<u8> {
        match (&self.process, &self.shared_process) {
            (Some(process), _) => process.stderr_tail().await,
            (None, Some(process)) => process.exit().await.unwrap_or_default().stderr,
            (None, None) => Vec::new(),
        }
    }

    /// The exit status, if the program exited by itself.
    pub async fn exit_status(&mut self) -> Option<ExitStatus> {
        if let Some(process) = &self.shared_process {
            return process.exit().await?.status;
        }
        let process = self.process.as_mut()?;
        timeout(EXIT_GRACE, process.wait()).await.ok()?.ok()
    }

    /// Closes the connection in order: sends queued messages, notifies the server, stops the program. All clones of
    /// the client are closed, too.
    pub async fn close(self, search: DescendantSearch) -> (Statistics, Option<ProcessExit>) {
        let Connection { client, events, task, mut process, in_process_server, .. } = self;
        if let Some(process) = &mut process {
            process.note_descendants(search).await;
        }
        client.close();
        drop((client, events));
        let statistics = join_task(task, SHUTDOWN_TIMEOUT).await;
        if let Some(in_process_server) = in_process_server {
            in_process_server.stop().await;
        }
        let exited = match process {
            Some(process) => Some(process.stop(search).await),
            None => None,
        };
        (statistics, exited)
    }
}

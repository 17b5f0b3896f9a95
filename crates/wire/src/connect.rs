//! From an address to a conversation: the one place that knows every transport.
//! A new one is a module of its own and one more arm of the `match` here.

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

use crate::client::Client;
use crate::client::handshake::{self, EraHint, HandshakeError, HandshakeErrorKind, HandshakeStage};
use crate::http::{HttpClient, Target};
use crate::peer::{CallError, Peer, PeerEvent, SpawnedPeer, Statistics};
use crate::process::{
    self, DescendantSearch, Process, ProcessExit, ProcessOptions, Program, StartError,
};
use crate::protocol::capabilities::ClientDescription;
use crate::transport::CloseReason;
use crate::transport::http_sse_2024::HttpSseTransport;
use crate::transport::in_memory::{self, InMemoryTransport};
use crate::transport::streamable_http::StreamableHttpTransport;
use crate::transport::websocket::WebSocketTransport;
use crate::transport_error::TransportError;

/// How long a program that closed its streams has to end, so that its exit code is known.
const EXIT_GRACE: Duration = Duration::from_millis(300);
/// How long the last messages may take to leave.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Where a server is.
#[derive(Clone)]
pub enum Address {
    /// A program that we start.
    Stdio(Program),
    /// Streamable HTTP; where that is refused, the older HTTP transport at the same URL.
    Http(Target),
    /// The older HTTP transport with a separate event stream.
    Sse(Target),
    /// WebSocket.
    WebSocket(Target),
    /// A server in this process: every call begins a conversation with it, over the other end of our link.
    InProcess(Arc<dyn Fn(InMemoryTransport) -> ServeFuture + Send + Sync>),
}

/// A server in this process at work. It ends with its link; dropping it ends it at once.
pub type ServeFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Stdio(program) => program.fmt(f),
            Address::Http(target) => write!(f, "Http({target:?})"),
            Address::Sse(target) => write!(f, "Sse({target:?})"),
            Address::WebSocket(target) => write!(f, "WebSocket({target:?})"),
            Address::InProcess(_) => f.write_str("Linked"),
        }
    }
}

/// How to dial.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// What we say of ourselves.
    pub client: ClientDescription,
    /// What is known of the server's era.
    pub era_hint: EraHint,
    /// How long all of it may take.
    pub timeout: Duration,
    /// How programs are kept.
    pub process_options: ProcessOptions,
    /// How remote servers are reached; programs need none.
    pub http_client: Option<HttpClient>,
}

/// A conversation that has begun, and what carries it. Dropping it ends both at once, programs by force.
#[derive(Debug)]
pub struct Connection {
    /// For asking.
    pub client: Client,
    /// What we had to do to get here.
    pub fallback: Option<Fallback>,
    events: mpsc::Receiver<PeerEvent>,
    task: JoinHandle<Statistics>,
    process: Option<Process>,
    in_process_server: Option<InProcessServer>,
    /// When the conversation ends whose program has ended already.
    close_at: Option<Instant>,
}

/// Something that did not work before something else did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// The server ended when it was asked about its era, and was started again.
    Restarted,
    /// Streamable HTTP was refused; the older transport was taken.
    HttpSse2024,
}

/// A server could not be reached, or did not take up the conversation.
#[derive(Debug, Error)]
#[error("no conversation with the server could begin")]
pub struct ConnectError {
    /// What went wrong.
    #[source]
    pub kind: ConnectErrorKind,
    /// The end of what it said on standard error, where it is a program.
    pub stderr: Vec<u8>,
    /// How it ended, where it is a program that ended by itself.
    pub exit: Option<ExitStatus>,
}

/// Why no conversation could begin.
#[derive(Debug, Error)]
pub enum ConnectErrorKind {
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The first question failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The server is remote, and there is no way out.
    #[error("there is no network to reach a remote server over")]
    NoHttpClient,
    /// The server was silent.
    #[error("the server did not answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
}

impl From<ConnectErrorKind> for ConnectError {
    fn from(kind: ConnectErrorKind) -> ConnectError {
        ConnectError { kind, stderr: Vec::new(), exit: None }
    }
}

/// Begins a conversation, in the server's own era and over whatever transport it has.
pub async fn connect(
    address: &Address,
    options: &ConnectOptions,
) -> Result<Connection, ConnectError> {
    let deadline = Instant::now() + options.timeout;
    let error = match attempt(address, options, options.era_hint, deadline).await {
        Ok(connection) => return Ok(connection),
        Err(error) => error,
    };
    if closed_on_probe(&error) {
        let mut connection = attempt(address, options, EraHint::Legacy, deadline).await?;
        connection.fallback = Some(Fallback::Restarted);
        return Ok(connection);
    }
    if let Address::Http(target) = address
        && expects_http_sse_2024(&error)
        && let Ok(mut connection) =
            attempt(&Address::Sse(target.clone()), options, EraHint::Legacy, deadline).await
    {
        connection.fallback = Some(Fallback::HttpSse2024);
        return Ok(connection);
    }
    Err(error)
}

/// Did it go away when it was asked what it may not know?
fn closed_on_probe(error: &ConnectError) -> bool {
    let ConnectErrorKind::Handshake(error) = &error.kind else { return false };
    let is_an_end = matches!(
        &error.kind,
        HandshakeErrorKind::Call(CallError::Closed {
            reason: CloseReason::Closed | CloseReason::Truncated | CloseReason::Io(_),
            ..
        })
    );
    error.stage == HandshakeStage::Discover && is_an_end
}

/// The statuses that a server of the older transport answers a POST to its stream with.
fn expects_http_sse_2024(error: &ConnectError) -> bool {
    let ConnectErrorKind::Handshake(error) = &error.kind else { return false };
    match &error.kind {
        HandshakeErrorKind::Call(CallError::Transport(TransportError::Status(answer))) => {
            matches!(answer.status, 400 | 404 | 405 | 406 | 415)
        }
        HandshakeErrorKind::Call(_)
        | HandshakeErrorKind::NoCommonVersion { .. }
        | HandshakeErrorKind::InvalidResponse => false,
    }
}

async fn attempt(
    address: &Address,
    options: &ConnectOptions,
    hint: EraHint,
    deadline: Instant,
) -> Result<Connection, ConnectError> {
    let OpenTransport { spawned_peer, mut process, in_process_server } =
        open_transport(address, options)?;
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
            return Ok(Connection {
                client,
                fallback: None,
                events,
                task,
                process,
                in_process_server,
                close_at,
            });
        }
        Ok(Err(error)) => ConnectErrorKind::Handshake(error),
        Err(_) => ConnectErrorKind::Timeout(options.timeout),
    };
    drop((peer, events));
    join_task(task, EXIT_GRACE).await;
    if let Some(in_process_server) = in_process_server {
        in_process_server.stop().await;
    }
    Err(with_process_exit(kind, process).await)
}

/// Makes the link. Nothing above knows which one it has.
fn open_transport(
    address: &Address,
    options: &ConnectOptions,
) -> Result<OpenTransport, ConnectErrorKind> {
    let client = || options.http_client.clone().ok_or(ConnectErrorKind::NoHttpClient);
    let spawned_peer = match address {
        Address::Stdio(program) => {
            let (transport, process) = process::spawn(program, &options.process_options)?;
            let spawned_peer = Peer::spawn(transport);
            return Ok(OpenTransport {
                spawned_peer,
                process: Some(process),
                in_process_server: None,
            });
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
            return Ok(OpenTransport {
                spawned_peer,
                process: None,
                in_process_server: Some(in_process_server),
            });
        }
    };
    Ok(OpenTransport { spawned_peer, process: None, in_process_server: None })
}

/// A connection, and what runs at its other end where that is ours to end.
struct OpenTransport {
    spawned_peer: SpawnedPeer,
    process: Option<Process>,
    in_process_server: Option<InProcessServer>,
}

/// The task of a server in this process. Dropping it ends the task.
#[derive(Debug)]
struct InProcessServer(JoinHandle<()>);

impl InProcessServer {
    /// Waits until the server noticed that nobody is there any more, and ends it where that takes too long.
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

/// Waits for the task that owns the link, and ends it where it takes too long.
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

/// Waits until a program has ended and what it said last has had time to arrive. Others may hold its standard
/// output open, so that the link alone would never tell.
async fn process_exit(process: &mut Option<Process>, close_at: &mut Option<Instant>) {
    let Some(process) = process else { return std::future::pending().await };
    if close_at.is_none() && process.wait().await.is_err() {
        return std::future::pending().await;
    }
    let when = *close_at.get_or_insert_with(|| Instant::now() + EXIT_GRACE);
    sleep_until(when).await;
}

/// What the program left behind: its last words and its exit code. Then it is over for good.
async fn with_process_exit(kind: ConnectErrorKind, process: Option<Process>) -> ConnectError {
    let Some(mut process) = process else { return kind.into() };
    let exit = match timeout(EXIT_GRACE, process.wait()).await {
        Ok(Ok(status)) => Some(status),
        Ok(Err(_)) | Err(_) => None,
    };
    let stderr = process.stderr_tail().await;
    process.stop(DescendantSearch::Now).await;
    ConnectError { kind, stderr, exit }
}

impl Connection {
    /// What the server asks or says next. Ends the conversation where the program has ended; waits for ever once
    /// there is nothing more to come. Nothing is lost when it is dropped unfinished.
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

    /// The program's process number, where the server is one and runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::pid)
    }

    /// The end of what the program said on standard error.
    pub async fn stderr_tail(&self) -> Vec<u8> {
        match &self.process {
            Some(process) => process.stderr_tail().await,
            None => Vec::new(),
        }
    }

    /// How the program ended, where it has ended by itself.
    pub async fn exit_status(&mut self) -> Option<ExitStatus> {
        let process = self.process.as_mut()?;
        timeout(EXIT_GRACE, process.wait()).await.ok()?.ok()
    }

    /// Ends the conversation in order: what was said leaves, the server is told, a program is stopped. Other
    /// clones of the client end with it.
    pub async fn close(self, search: DescendantSearch) -> (Statistics, Option<ProcessExit>) {
        let Connection { client, events, task, process, in_process_server, .. } = self;
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

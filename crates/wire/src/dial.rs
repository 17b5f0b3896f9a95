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
use crate::fault::Fault;
use crate::handshake::{self, HandshakeError, HandshakeErrorKind, Hint, Stage};
use crate::introduction::Offer;
use crate::link::LinkEnd;
use crate::memory::{self, MemoryLink};
use crate::network::{self, Network};
use crate::peer::{CallError, Connection, Event, Peer, Statistics};
use crate::process::{self, Ended, Keeping, Process, Program, Search, StartError};
use crate::sse::SseLink;
use crate::streamable::HttpLink;
use crate::websocket::WsLink;

/// How long a program that closed its streams has to end, so that its exit code is known.
const LAST_BREATH: Duration = Duration::from_millis(300);
/// How long the last messages may take to leave.
const GOODBYE: Duration = Duration::from_secs(2);

/// Where a server is.
#[derive(Clone)]
pub enum Address {
    /// A program that we start.
    Program(Program),
    /// Streamable HTTP; where that is refused, the older HTTP transport at the same URL.
    Http(network::Target),
    /// The older HTTP transport with a separate event stream.
    Sse(network::Target),
    /// WebSocket.
    WebSocket(network::Target),
    /// A server in this process: every call begins a conversation with it, over the other end of our link.
    Linked(Arc<dyn Fn(MemoryLink) -> Attending + Send + Sync>),
}

/// A server in this process at work. It ends with its link; dropping it ends it at once.
pub type Attending = Pin<Box<dyn Future<Output = ()> + Send>>;

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Program(program) => program.fmt(f),
            Address::Http(target) => write!(f, "Http({target:?})"),
            Address::Sse(target) => write!(f, "Sse({target:?})"),
            Address::WebSocket(target) => write!(f, "WebSocket({target:?})"),
            Address::Linked(_) => f.write_str("Linked"),
        }
    }
}

/// How to dial.
#[derive(Debug, Clone)]
pub struct Terms {
    /// What we say of ourselves.
    pub offer: Offer,
    /// What is known of the server's era.
    pub hint: Hint,
    /// How long all of it may take.
    pub within: Duration,
    /// How programs are kept.
    pub keeping: Keeping,
    /// How remote servers are reached; programs need none.
    pub network: Option<Network>,
}

/// A conversation that has begun, and what carries it. Dropping it ends both at once, programs by force.
#[derive(Debug)]
pub struct Line {
    /// For asking.
    pub client: Client,
    /// What we had to do to get here.
    pub detour: Option<Detour>,
    events: mpsc::Receiver<Event>,
    task: JoinHandle<Statistics>,
    process: Option<Process>,
    guest: Option<Guest>,
    /// When the conversation ends whose program has ended already.
    over_at: Option<Instant>,
}

/// Something that did not work before something else did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detour {
    /// The server ended when it was asked about its era, and was started again.
    StartedAgain,
    /// Streamable HTTP was refused; the older transport was taken.
    OlderTransport,
}

/// A server could not be reached, or did not take up the conversation.
#[derive(Debug, Error)]
#[error("no conversation with the server could begin")]
pub struct DialError {
    /// What went wrong.
    #[source]
    pub kind: DialErrorKind,
    /// The end of what it said on standard error, where it is a program.
    pub said: Vec<u8>,
    /// How it ended, where it is a program that ended by itself.
    pub exit: Option<ExitStatus>,
}

/// Why no conversation could begin.
#[derive(Debug, Error)]
pub enum DialErrorKind {
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The first question failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The server is remote, and there is no way out.
    #[error("there is no network to reach a remote server over")]
    NoNetwork,
    /// The server was silent.
    #[error("the server did not answer within {} s", .0.as_secs_f32())]
    Silent(Duration),
}

impl From<DialErrorKind> for DialError {
    fn from(kind: DialErrorKind) -> DialError {
        DialError { kind, said: Vec::new(), exit: None }
    }
}

/// Begins a conversation, in the server's own era and over whatever transport it has.
pub async fn dial(address: &Address, terms: &Terms) -> Result<Line, DialError> {
    let deadline = Instant::now() + terms.within;
    let error = match attempt(address, terms, terms.hint, deadline).await {
        Ok(line) => return Ok(line),
        Err(error) => error,
    };
    if ended_on_the_probe(&error) {
        let mut line = attempt(address, terms, Hint::Legacy, deadline).await?;
        line.detour = Some(Detour::StartedAgain);
        return Ok(line);
    }
    if let Address::Http(target) = address
        && wants_the_older_transport(&error)
        && let Ok(mut line) =
            attempt(&Address::Sse(target.clone()), terms, Hint::Legacy, deadline).await
    {
        line.detour = Some(Detour::OlderTransport);
        return Ok(line);
    }
    Err(error)
}

/// Did it go away when it was asked what it may not know?
fn ended_on_the_probe(error: &DialError) -> bool {
    let DialErrorKind::Handshake(error) = &error.kind else { return false };
    let is_an_end = matches!(
        &error.kind,
        HandshakeErrorKind::Call(CallError::Ended {
            how: LinkEnd::Closed | LinkEnd::Truncated | LinkEnd::Failed(_),
            ..
        })
    );
    error.stage == Stage::Discover && is_an_end
}

/// The statuses that a server of the older transport answers a POST to its stream with.
fn wants_the_older_transport(error: &DialError) -> bool {
    let DialErrorKind::Handshake(error) = &error.kind else { return false };
    match &error.kind {
        HandshakeErrorKind::Call(CallError::Lost(Fault::Status(answer))) => {
            matches!(answer.status, 400 | 404 | 405 | 406 | 415)
        }
        HandshakeErrorKind::Call(_)
        | HandshakeErrorKind::NoCommonVersion { .. }
        | HandshakeErrorKind::Unreadable => false,
    }
}

async fn attempt(
    address: &Address,
    terms: &Terms,
    hint: Hint,
    deadline: Instant,
) -> Result<Line, DialError> {
    let Begun { connection, mut process, guest } = connect(address, terms)?;
    let Connection { peer, events, task } = connection;
    let mut over_at = None;
    let opened = {
        let opening = timeout_at(deadline, handshake::open(&peer, &terms.offer, hint));
        tokio::pin!(opening);
        tokio::select! {
            biased;
            opened = &mut opening => opened,
            () = death(&mut process, &mut over_at) => {
                peer.hang_up();
                opening.await
            }
        }
    };
    let kind = match opened {
        Ok(Ok(client)) => {
            return Ok(Line { client, detour: None, events, task, process, guest, over_at });
        }
        Ok(Err(error)) => DialErrorKind::Handshake(error),
        Err(_) => DialErrorKind::Silent(terms.within),
    };
    drop((peer, events));
    finish(task, LAST_BREATH).await;
    if let Some(guest) = guest {
        guest.leave().await;
    }
    Err(post_mortem(kind, process).await)
}

/// Makes the link. Nothing above knows which one it has.
fn connect(address: &Address, terms: &Terms) -> Result<Begun, DialErrorKind> {
    let network = || terms.network.clone().ok_or(DialErrorKind::NoNetwork);
    let connection = match address {
        Address::Program(program) => {
            let (link, process) = process::start(program, &terms.keeping)?;
            let connection = Peer::start(link);
            return Ok(Begun { connection, process: Some(process), guest: None });
        }
        Address::Http(target) => Peer::start(HttpLink::new(network()?, target.clone())),
        Address::Sse(target) => Peer::start(SseLink::new(network()?, target.clone())),
        Address::WebSocket(target) => Peer::start(WsLink::new(network()?, target.clone())),
        Address::Linked(attend) => {
            let (ours, theirs) = memory::pair();
            let guest = Guest(tokio::spawn(attend(theirs)));
            let connection = Peer::start(ours);
            return Ok(Begun { connection, process: None, guest: Some(guest) });
        }
    };
    Ok(Begun { connection, process: None, guest: None })
}

/// A connection, and what runs at its other end where that is ours to end.
struct Begun {
    connection: Connection,
    process: Option<Process>,
    guest: Option<Guest>,
}

/// The task of a server in this process. Dropping it ends the task.
#[derive(Debug)]
struct Guest(JoinHandle<()>);

impl Guest {
    /// Waits until the server noticed that nobody is there any more, and ends it where that takes too long.
    async fn leave(mut self) {
        if timeout(GOODBYE, &mut self.0).await.is_err() {
            self.0.abort();
            let _aborted = (&mut self.0).await;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the task that owns the link, and ends it where it takes too long.
async fn finish(mut task: JoinHandle<Statistics>, patience: Duration) -> Statistics {
    match timeout(patience, &mut task).await {
        Ok(ended) => ended.unwrap_or_default(),
        Err(_) => {
            task.abort();
            let _aborted = task.await;
            Statistics::default()
        }
    }
}

/// Waits until a program has ended and what it said last has had time to arrive. Others may hold its standard
/// output open, so that the link alone would never tell.
async fn death(process: &mut Option<Process>, over_at: &mut Option<Instant>) {
    let Some(process) = process else { return std::future::pending().await };
    if over_at.is_none() && process.ended().await.is_err() {
        return std::future::pending().await;
    }
    let when = *over_at.get_or_insert_with(|| Instant::now() + LAST_BREATH);
    sleep_until(when).await;
}

/// What the program left behind: its last words and its exit code. Then it is over for good.
async fn post_mortem(kind: DialErrorKind, process: Option<Process>) -> DialError {
    let Some(mut process) = process else { return kind.into() };
    let exit = match timeout(LAST_BREATH, process.ended()).await {
        Ok(Ok(status)) => Some(status),
        Ok(Err(_)) | Err(_) => None,
    };
    let said = process.said().await;
    process.stop(Search::Now).await;
    DialError { kind, said, exit }
}

impl Line {
    /// What the server asks or says next. Ends the conversation where the program has ended; waits for ever once
    /// there is nothing more to come. Nothing is lost when it is dropped unfinished.
    pub async fn hear(&mut self) -> Event {
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => event,
            () = death(&mut self.process, &mut self.over_at) => {
                self.client.hang_up();
                std::future::pending().await
            }
        }
    }

    /// The program's process number, where the server is one and runs.
    pub fn process_number(&self) -> Option<u32> {
        self.process.as_ref().and_then(Process::number)
    }

    /// The end of what the program said on standard error.
    pub async fn said(&self) -> Vec<u8> {
        match &self.process {
            Some(process) => process.said().await,
            None => Vec::new(),
        }
    }

    /// How the program ended, where it has ended by itself.
    pub async fn exit(&mut self) -> Option<ExitStatus> {
        let process = self.process.as_mut()?;
        timeout(LAST_BREATH, process.ended()).await.ok()?.ok()
    }

    /// Ends the conversation in order: what was said leaves, the server is told, a program is stopped. Other
    /// clones of the client end with it.
    pub async fn hang_up(self, search: Search) -> (Statistics, Option<Ended>) {
        let Line { client, events, task, process, guest, .. } = self;
        client.hang_up();
        drop((client, events));
        let statistics = finish(task, GOODBYE).await;
        if let Some(guest) = guest {
            guest.leave().await;
        }
        let ended = match process {
            Some(process) => Some(process.stop(search).await),
            None => None,
        };
        (statistics, ended)
    }
}

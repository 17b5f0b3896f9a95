//! One program of a shared host: owns its process and its stream, and carries the messages of its clients. It ends when
//! the process ends, or when it has had no client for a while.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use switchboard_wire::jsonrpc::message::Message;
use switchboard_wire::process::{
    self, DescendantSearch, Process, ProcessOptions, ProcessSet, ProcessTransport, Program,
    Watchdog,
};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::transport::{Transport, TransportEvent};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use super::wait_until;
use crate::multiplexer::{Delivery, Multiplexer, SessionId};
use crate::protocol::{AttachRequest, ClientInfo, ExitLine, ProgramStatus};

/// While more bytes than this wait for the program, clients wait.
const HIGH_WATER: usize = 1024 * 1024;
/// How many messages may wait for a client. While the queue of a client is full, the program is not read.
const CLIENT_CAPACITY: usize = 1024;
/// How many places in the queues of all clients must be free to read the next message.
const RESERVE: usize = 16;
/// How long a client whose queue is full may hold up the others. Then it is detached.
const SLOW_CLIENT_LIMIT: Duration = Duration::from_secs(5);
/// How many messages of clients may wait for the program.
const MESSAGE_CAPACITY: usize = 256;
const COMMAND_CAPACITY: usize = 64;
/// How long a program that closed its output has to exit, and one that exited to deliver its last messages.
const EXIT_GRACE: Duration = Duration::from_millis(300);
/// How much standard error output is part of the end of a program.
const MAX_STDERR: usize = 16 * 1024;

/// What a program is started with.
pub(super) struct ProgramOptions {
    pub(super) number: u64,
    pub(super) request: AttachRequest,
    /// Tells the client that started it whether it joined: before the program can end.
    pub(super) starter: oneshot::Sender<JoinOutcome>,
    pub(super) stderr: mpsc::Sender<Bytes>,
    pub(super) watchdog: Option<Watchdog>,
    pub(super) process_set: ProcessSet,
    pub(super) events: mpsc::Sender<ProgramEvent>,
}

/// What a program tells the registry.
#[derive(Debug)]
pub(super) enum ProgramEvent {
    /// It has ended. The reply lets it close the streams of its clients.
    Ended { program: u64, exit: ExitLine, reply: oneshot::Sender<()> },
    /// Its server showed that it belongs to one session.
    SessionBound { program: u64, reason: &'static str },
}

/// A command for a program.
pub(super) enum ProgramCommand {
    /// Adds a client.
    Join { client: ClientInfo, reply: oneshot::Sender<JoinOutcome> },
    /// What it does.
    Status(oneshot::Sender<ProgramStatus>),
    /// End with the last client.
    Retire,
    /// End.
    Stop,
}

/// Whether a client joined.
#[derive(Debug)]
pub(super) enum JoinOutcome {
    Joined { pid: Option<u32>, era: Option<Era>, link: ClientLink },
    NotStarted { errno: Option<i32> },
    NotShareable(&'static str),
}

/// The messages of one client. It must send [`ClientEvent::Left`] at the end.
#[derive(Debug)]
pub(super) struct ClientLink {
    pub(super) session: SessionId,
    /// Messages for the client. The program has ended when it closes.
    pub(super) outgoing: mpsc::Receiver<Message>,
    /// Messages of the client.
    pub(super) incoming: mpsc::Sender<(SessionId, ClientEvent)>,
}

/// An event of a client.
#[derive(Debug)]
pub(super) enum ClientEvent {
    Message(Message),
    Left,
}

/// A handle to a program. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct ProgramHandle {
    pub(super) number: u64,
    commands: mpsc::Sender<ProgramCommand>,
    is_retiring: Arc<AtomicBool>,
}

impl ProgramHandle {
    /// Whether new clients may join.
    pub(super) fn accepts_clients(&self) -> bool {
        !self.commands.is_closed() && !self.is_retiring.load(Ordering::Relaxed)
    }

    /// Lets the program end with its last client.
    pub(super) fn retire(&self) {
        self.is_retiring.store(true, Ordering::Relaxed);
        self.send(ProgramCommand::Retire);
    }

    /// Sends a command without waiting. A full queue holds joining clients only for a moment.
    pub(super) fn send(&self, command: ProgramCommand) {
        let commands = self.commands.clone();
        if let Err(mpsc::error::TrySendError::Full(command)) = commands.try_send(command) {
            tokio::spawn(async move {
                let _ended = commands.send(command).await;
            });
        }
    }

    /// Adds a client; `None` if the program has ended.
    pub(super) async fn join(&self, client: ClientInfo) -> Option<JoinOutcome> {
        let (reply, outcome) = oneshot::channel();
        self.commands.send(ProgramCommand::Join { client, reply }).await.ok()?;
        outcome.await.ok()
    }

    /// What the program does; `None` if it has ended.
    pub(super) async fn status(&self) -> Option<ProgramStatus> {
        let (reply, status) = oneshot::channel();
        self.commands.send(ProgramCommand::Status(reply)).await.ok()?;
        status.await.ok()
    }
}

/// Starts the task of a program, which starts the process.
pub(super) fn spawn(options: ProgramOptions) -> (ProgramHandle, JoinHandle<()>) {
    let (commands, receiver) = mpsc::channel(COMMAND_CAPACITY);
    let handle = ProgramHandle { number: options.number, commands, is_retiring: Arc::default() };
    let task = tokio::spawn(run(options, receiver));
    (handle, task)
}

async fn run(options: ProgramOptions, mut commands: mpsc::Receiver<ProgramCommand>) {
    let ProgramOptions { number, request, starter, stderr, watchdog, process_set, events } =
        options;
    let program = Program::from(request.program.clone());
    let process_options =
        ProcessOptions { watchdog, process_set, stderr: Some(stderr), ..ProcessOptions::default() };
    let (transport, process) = match process::spawn(&program, &process_options) {
        Ok(spawned) => spawned,
        Err(error) => {
            let errno = error.source.raw_os_error();
            warn!(server = request.server, errno, "the program did not start");
            let _client_gone = starter.send(JoinOutcome::NotStarted { errno });
            commands.close();
            while let Some(command) = commands.recv().await {
                if let ProgramCommand::Join { reply, .. } = command {
                    let _client_gone = reply.send(JoinOutcome::NotStarted { errno });
                }
            }
            report_end(number, no_exit(), &events).await;
            return;
        }
    };
    // Only the folder is kept: the rest may have secrets.
    let folder = program.cwd;
    let (to_program, from_clients) = mpsc::channel(MESSAGE_CAPACITY);
    let client = request.client.clone();
    let mut running = SharedProgram {
        number,
        pid: process.pid(),
        folder,
        request: RequestSummary::of(request),
        since: SystemTime::now(),
        transport,
        process,
        multiplexer: Multiplexer::default(),
        clients: BTreeMap::new(),
        waiting: Vec::new(),
        next_session: 1,
        to_program,
        idle_since: Some(Instant::now()),
        phase: ProgramPhase::Shared,
        malformed: None,
        events,
    };
    running.admit(client, starter);
    running.run(commands, from_clients).await;
}

/// The parts of a request that are kept: not the environment, which may have secrets.
struct RequestSummary {
    server: String,
    fingerprint: String,
    class: String,
    idle_limit: Duration,
    started_by: ClientInfo,
}

impl RequestSummary {
    fn of(request: AttachRequest) -> RequestSummary {
        RequestSummary {
            server: request.server,
            fingerprint: request.fingerprint,
            class: request.class,
            idle_limit: Duration::from_secs(request.idle_seconds),
            started_by: request.client,
        }
    }
}

/// Who may use a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramPhase {
    Shared,
    /// No new clients: it belongs to one session, or a fresh one replaces it.
    Closed,
}

/// Why a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The process exited or closed its output.
    ByItself,
    /// No client uses it.
    Idle,
    Stopped,
}

struct Client {
    info: ClientInfo,
    outgoing: mpsc::Sender<Message>,
    /// Since when its queue is full.
    full_since: Option<Instant>,
}

/// What became of a client whose queue is full.
enum Relief {
    Room,
    TooSlow(SessionId),
}

/// Waits until the queue of a client that is full has room, or has been full for too long. Cancel safe.
async fn wait_for_room(clients: &BTreeMap<SessionId, Client>) -> Relief {
    let full = clients.iter().filter_map(|(session, it)| Some((it.full_since?, *session, it)));
    let Some((since, session, client)) = full.min_by_key(|it| it.0) else { return Relief::Room };
    let room = client.outgoing.reserve_many(RESERVE);
    match timeout_at(since + SLOW_CLIENT_LIMIT, room).await {
        Ok(_) => Relief::Room,
        Err(_) => Relief::TooSlow(session),
    }
}

struct SharedProgram {
    number: u64,
    request: RequestSummary,
    folder: Option<std::path::PathBuf>,
    pid: Option<u32>,
    since: SystemTime,
    transport: ProcessTransport,
    process: Process,
    multiplexer: Multiplexer,
    clients: BTreeMap<SessionId, Client>,
    /// Clients that wait until the first one has agreed on an era with the server.
    waiting: Vec<(ClientInfo, oneshot::Sender<JoinOutcome>)>,
    next_session: u64,
    to_program: mpsc::Sender<(SessionId, ClientEvent)>,
    /// Since when there has been no client.
    idle_since: Option<Instant>,
    phase: ProgramPhase,
    /// The start of the first output that was not a message.
    malformed: Option<String>,
    events: mpsc::Sender<ProgramEvent>,
}

impl SharedProgram {
    async fn run(
        mut self,
        mut commands: mpsc::Receiver<ProgramCommand>,
        mut from_clients: mpsc::Receiver<(SessionId, ClientEvent)>,
    ) {
        let mut exit_status = None;
        let end = loop {
            let has_room = self.transport.queued_bytes() < HIGH_WATER;
            let is_full = self.note_full_queues();
            let idle_end = self.idle_since.map(|it| it + self.idle_limit());
            tokio::select! {
                Some((session, event)) = from_clients.recv(), if has_room => {
                    self.on_client(session, event);
                    // Many messages leave in one write.
                    while self.transport.queued_bytes() < HIGH_WATER
                        && let Ok((session, event)) = from_clients.try_recv()
                    {
                        self.on_client(session, event);
                    }
                }
                relief = wait_for_room(&self.clients), if is_full => {
                    if let Relief::TooSlow(session) = relief {
                        let pid = self.clients.get(&session).map(|it| it.info.pid);
                        warn!(server = self.request.server, pid, "a client that does not read was detached");
                        self.remove(session);
                    }
                }
                arrival = self.transport.next(), if !is_full => match arrival {
                    Ok(event) => self.on_arrival(event),
                    Err(_) => break End::ByItself,
                },
                Some(command) = commands.recv() => match command {
                    ProgramCommand::Join { client, reply } => self.admit(client, reply),
                    ProgramCommand::Status(reply) => {
                        let _client_gone = reply.send(self.status());
                    }
                    ProgramCommand::Retire => self.phase = ProgramPhase::Closed,
                    ProgramCommand::Stop => break End::Stopped,
                },
                status = self.process.wait() => {
                    exit_status = status.ok();
                    self.deliver_last_messages().await;
                    break End::ByItself;
                }
                () = wait_until(idle_end) => break End::Idle,
            }
            self.on_change();
        };
        commands.close();
        self.finish(end, exit_status).await;
    }

    /// After each event: clients that waited join, and a server that belongs to one session is reported.
    fn on_change(&mut self) {
        if let (ProgramPhase::Shared, Some(bound)) = (self.phase, self.multiplexer.session_bound())
        {
            let reason = bound.as_str();
            info!(server = self.request.server, reason, "the server is not shared any more");
            self.phase = ProgramPhase::Closed;
            let event = ProgramEvent::SessionBound { program: self.number, reason };
            let _full = self.events.try_send(event);
        }
        let is_known = self.multiplexer.era().is_some() || self.clients.is_empty();
        if !self.waiting.is_empty() && (is_known || self.phase == ProgramPhase::Closed) {
            for (client, reply) in std::mem::take(&mut self.waiting) {
                self.admit(client, reply);
            }
        }
    }

    /// Notes since when the queues of clients are full. Returns whether one is.
    fn note_full_queues(&mut self) -> bool {
        let mut is_full = false;
        for client in self.clients.values_mut() {
            if client.outgoing.capacity() >= RESERVE {
                client.full_since = None;
            } else {
                client.full_since.get_or_insert_with(Instant::now);
                is_full = true;
            }
        }
        is_full
    }

    /// How long it stays without clients. One that takes no new clients has no reason to stay.
    fn idle_limit(&self) -> Duration {
        match self.phase {
            ProgramPhase::Shared => self.request.idle_limit,
            ProgramPhase::Closed => Duration::ZERO,
        }
    }

    fn admit(&mut self, client: ClientInfo, reply: oneshot::Sender<JoinOutcome>) {
        if reply.is_closed() {
            return;
        }
        if let Some(bound) = self.multiplexer.session_bound() {
            let _client_gone = reply.send(JoinOutcome::NotShareable(bound.as_str()));
            return;
        }
        if !self.clients.is_empty() && self.multiplexer.era().is_none() {
            self.waiting.push((client, reply));
            return;
        }
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let (outgoing, receiver) = mpsc::channel(CLIENT_CAPACITY);
        let link = ClientLink { session, outgoing: receiver, incoming: self.to_program.clone() };
        let (pid, era) = (self.pid, self.multiplexer.era());
        if reply.send(JoinOutcome::Joined { pid, era, link }).is_ok() {
            self.multiplexer.join(session);
            self.clients.insert(session, Client { info: client, outgoing, full_since: None });
            self.idle_since = None;
        }
    }

    fn on_client(&mut self, session: SessionId, event: ClientEvent) {
        // A client that was detached may still have messages in the queue.
        if !self.clients.contains_key(&session) {
            return;
        }
        match event {
            ClientEvent::Message(message) => {
                let now = Instant::now().into_std();
                let deliveries = self.multiplexer.on_client(session, message, now);
                self.deliver(deliveries);
            }
            ClientEvent::Left => self.remove(session),
        }
    }

    fn remove(&mut self, session: SessionId) {
        if self.clients.remove(&session).is_none() {
            return;
        }
        let deliveries = self.multiplexer.leave(session, Instant::now().into_std());
        self.deliver(deliveries);
        if self.clients.is_empty() {
            self.idle_since = Some(Instant::now());
        }
    }

    fn on_arrival(&mut self, event: TransportEvent) {
        match event {
            TransportEvent::Message(message) | TransportEvent::RelatedMessage { message, .. } => {
                let deliveries = self.multiplexer.on_server(message, Instant::now().into_std());
                self.deliver(deliveries);
            }
            TransportEvent::Malformed(malformed) => {
                if self.malformed.is_none() && !malformed.excerpt.is_empty() {
                    self.malformed = Some(malformed.excerpt);
                }
            }
            TransportEvent::DeliveryFailed { id, error } => {
                let error = switchboard_wire::protocol::errors::internal_error(&error.to_string());
                let message = Message::Response { id, outcome: Err(error) };
                let deliveries = self.multiplexer.on_server(message, Instant::now().into_std());
                self.deliver(deliveries);
            }
        }
    }

    fn deliver(&mut self, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            match delivery {
                Delivery::ToServer(message) => self.transport.push(message.into()),
                Delivery::ToClient(session, message) => {
                    let Some(client) = self.clients.get(&session) else { continue };
                    // There is room, unless the client has left or one event made very many messages.
                    if client.outgoing.try_send(message).is_err() {
                        let pid = client.info.pid;
                        info!(
                            server = self.request.server,
                            pid, "a message could not be delivered"
                        );
                        self.remove(session);
                    }
                }
            }
        }
    }

    /// Delivers what a process that exited has written before. Another process may hold its output open.
    async fn deliver_last_messages(&mut self) {
        let until = Instant::now() + EXIT_GRACE;
        while let Ok(Ok(event)) = timeout_at(until, self.transport.next()).await {
            self.on_arrival(event);
        }
    }

    fn status(&self) -> ProgramStatus {
        ProgramStatus {
            server: self.request.server.clone(),
            fingerprint: self.request.fingerprint.clone(),
            class: self.request.class.clone(),
            pid: self.pid,
            since: unix_seconds(self.since),
            folder: self.folder.clone(),
            started_by: self.request.started_by.clone(),
            clients: self.clients.values().map(|it| it.info.clone()).collect(),
            calls: self.multiplexer.calls(),
            idle_seconds: self.idle_since.map(|it| it.elapsed().as_secs()),
            idle_limit_seconds: self.idle_limit().as_secs(),
            session_bound: self.multiplexer.session_bound().map(|it| it.as_str().to_owned()),
        }
    }

    /// Stops the process, reports how it ended, then closes the streams of the clients: one that asks afterwards gets
    /// an answer.
    async fn finish(self, end: End, mut exit_status: Option<ExitStatus>) {
        let SharedProgram { number, request, transport, mut process, clients, waiting, .. } = self;
        info!(server = request.server, program = number, ?end, "a server ends");
        if end == End::ByItself && exit_status.is_none() {
            exit_status = timeout(EXIT_GRACE, process.wait()).await.ok().and_then(Result::ok);
        }
        let stderr = process.stderr_tail().await;
        process.note_descendants(DescendantSearch::Now).await;
        let exit = ExitLine {
            status: exit_status.map(ExitStatusExt::into_raw),
            stderr: String::from_utf8_lossy(tail(&stderr)).into_owned(),
            malformed: self.malformed,
        };
        report_end(number, exit, &self.events).await;
        drop((clients, waiting, transport));
        process.stop(DescendantSearch::Now).await;
    }
}

fn tail(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.len().saturating_sub(MAX_STDERR)..]
}

fn no_exit() -> ExitLine {
    ExitLine { status: None, stderr: String::new(), malformed: None }
}

/// Tells the registry that a program has ended, and waits until it knows.
async fn report_end(program: u64, exit: ExitLine, events: &mpsc::Sender<ProgramEvent>) {
    let (reply, noted) = oneshot::channel();
    if events.send(ProgramEvent::Ended { program, exit, reply }).await.is_ok() {
        let _host_ended = noted.await;
    }
}

/// Seconds since 1970.
pub(super) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

impl fmt::Debug for ProgramCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProgramCommand::Join { .. } => "Join",
            ProgramCommand::Status(_) => "Status",
            ProgramCommand::Retire => "Retire",
            ProgramCommand::Stop => "Stop",
        })
    }
}

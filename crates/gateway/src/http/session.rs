//! The session of one legacy client: its event streams, the requests that it was sent, and its requests that went on to
//! a stream. One task owns all of it; HTTP requests send it commands.

pub(crate) mod channel;
mod replay;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderMap;
use switchboard::Subscription;
use switchboard_auth::resource_server::Credential;
use switchboard_wire::jsonrpc::message::{Message, RequestId, RpcError};
use switchboard_wire::protocol::log_level::LogLevel;
use switchboard_wire::server;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tracing::info;

use crate::downstream::client::Client;
use crate::downstream::drain::forward_until_done;
use crate::downstream::request::{Outcome, OutcomeFuture};
use crate::downstream::request_context::RequestContext;
use crate::http::event_queue::{EventReader, event_queue};
use crate::http::limits::accounts::ReplayBudget;
use crate::http::limits::client_account::{ClientAccount, ClientReservation};
use crate::http::response::KEEPALIVE_INTERVAL;
use crate::http::revocation::Revocations;
use crate::http::shutdown::wait_until_true;
use crate::relay::{Relay, call_lost};
use crate::shared::fleet::Resync;
use crate::shared::session_log::{
    Ownership, RestoredSession, SentEvent, SessionImage, SessionLog, SessionRecord, SessionUpdate,
};
use crate::subscriptions::{ListChanges, ResourceSubscriptions, resource_updated};

use channel::SessionChannel;
use replay::{EventStreams, GET_STREAM, PrimingEvent};

/// The capacity of the command queue.
const COMMAND_CAPACITY: usize = 32;
/// The capacity of the queue of messages outside of requests.
const SESSION_MESSAGE_CAPACITY: usize = 16;
/// The most cancellations to remember of requests that have no stream yet.
const MAX_EARLY_CANCELS: usize = 64;
/// Why a session ends when the server does.
const SHUTDOWN: &str = "shutdown";
/// The most messages that are written to the store together.
const MAX_BATCH: usize = 64;
/// The largest event that is written to the store.
const MAX_STORED_EVENT_BYTES: usize = 1024 * 1024;
/// The number of requests that one owner of a session may send to the client, as a power of two.
const REQUESTS_PER_OWNER: u32 = 32;

/// A handle to a session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) client: Arc<Client>,
    /// The account that the session and its requests are counted for.
    pub(crate) account: ClientAccount,
    pub(crate) protocol_version: String,
    pub(crate) opened: Instant,
    commands: mpsc::Sender<Command>,
    /// The next id of a request to the client.
    next_request_id: AtomicU64,
    /// The number of HTTP requests so far; shows whether the session is in use.
    request_count: AtomicU64,
    /// The credential of the latest request, as the task has published it.
    credential: watch::Receiver<Credential>,
    /// Tells the task to end.
    closing: Notify,
    /// The number of requests that run and have no stream yet.
    running: AtomicUsize,
    /// Notified when one of them has ended or has a stream.
    request_ended: Notify,
    /// Is the session left to another replica as soon as its requests have ended?
    is_leaving: AtomicBool,
}

/// A request of a session that has no stream yet. A stop waits until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningRequest(Arc<Session>);

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        self.0.request_ended.notify_one();
    }
}

/// The timeouts of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionTimeouts {
    /// How long it lives without use.
    pub(crate) idle: Duration,
    /// How long its requests may take at shutdown.
    pub(crate) drain: Duration,
}

/// A command to the session's task.
enum Command {
    StartStream {
        id: RequestId,
        work: OutcomeFuture,
        notifications: mpsc::Receiver<Message>,
        first: Option<Message>,
        reply: StreamReply,
    },
    Resume {
        last_event_id: String,
        reply: oneshot::Sender<Option<EventReader>>,
    },
    OpenGetStream {
        reply: StreamReply,
    },
    Send {
        stream: u64,
        message: Message,
    },
    Finish {
        stream: u64,
        id: RequestId,
        outcome: Outcome,
    },
    ExpectResponse {
        number: u64,
        reply: oneshot::Sender<Outcome>,
    },
    DeliverResponse {
        id: RequestId,
        outcome: Outcome,
    },
    Cancel {
        id: RequestId,
    },
    Subscribe {
        uri: String,
        reply: oneshot::Sender<Result<(), RpcError>>,
    },
    Unsubscribe {
        uri: String,
    },
    SetCredential {
        credential: Credential,
    },
    /// Write the description of the client again, because its log level has changed.
    SaveRecord,
}

/// A message for a stream.
struct Publication {
    stream: u64,
    message: Message,
    end: StreamEnd,
}

/// Does a stream end with a message?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamEnd {
    Open,
    Closed,
}

type StreamReply = oneshot::Sender<EventReader>;

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}

impl Session {
    /// Marks the session as used, so that it does not count as idle.
    pub(crate) fn mark_used(&self) {
        self.request_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Remembers the credential of a request: a client may renew its token during a session.
    pub(crate) fn update_credential(&self, headers: &HeaderMap, revocations: &Revocations) {
        if !self.credential.borrow().is_in(headers) {
            let credential = revocations.credential(headers);
            // Where the queue is full, the next request does it.
            let _full_or_ended = self.commands.try_send(Command::SetCredential { credential });
        }
    }

    /// How many HTTP requests came so far.
    pub(crate) fn request_count(&self) -> u64 {
        self.request_count.load(Ordering::Relaxed)
    }

    /// Tells the task to end.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    /// Begins a request. None if the session is about to be left to another replica, which can begin it.
    pub(crate) fn start_request(self: &Arc<Session>) -> Option<RunningRequest> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = RunningRequest(self.clone());
        (!self.is_leaving.load(Ordering::SeqCst)).then_some(running)
    }

    /// Moves a request to a stream of its own. None if the session has ended.
    pub(crate) async fn start_stream(
        &self,
        id: RequestId,
        work: OutcomeFuture,
        notifications: mpsc::Receiver<Message>,
        first: Option<Message>,
    ) -> Option<EventReader> {
        let (reply, stream) = oneshot::channel();
        self.commands
            .send(Command::StartStream { id, work, notifications, first, reply })
            .await
            .ok()?;
        stream.await.ok()
    }

    /// Resumes a stream after its last event that the client received.
    pub(crate) async fn resume(&self, last_event_id: String) -> Option<EventReader> {
        let (reply, stream) = oneshot::channel();
        self.commands.send(Command::Resume { last_event_id, reply }).await.ok()?;
        stream.await.ok()?
    }

    /// Opens the stream for messages outside of requests. A previous reader loses it.
    pub(crate) async fn open_get_stream(&self) -> Option<EventReader> {
        let (reply, stream) = oneshot::channel();
        self.commands.send(Command::OpenGetStream { reply }).await.ok()?;
        stream.await.ok()
    }

    /// Passes a client's response to the request that waits for it.
    pub(crate) async fn deliver_response(&self, id: RequestId, outcome: Outcome) {
        let _session_ended = self.commands.send(Command::DeliverResponse { id, outcome }).await;
    }

    /// Cancels a request of the client.
    pub(crate) async fn cancel(&self, id: RequestId) {
        let _session_ended = self.commands.send(Command::Cancel { id }).await;
    }

    pub(crate) async fn subscribe(&self, uri: String) -> Result<(), RpcError> {
        let ended = || server::internal_error("the session has ended");
        let (reply, subscribed) = oneshot::channel();
        self.commands.send(Command::Subscribe { uri, reply }).await.map_err(|_| ended())?;
        subscribed.await.map_err(|_| ended())?
    }

    pub(crate) async fn unsubscribe(&self, uri: String) {
        let _session_ended = self.commands.send(Command::Unsubscribe { uri }).await;
    }

    /// Writes the description of the client to the store, where there is one.
    pub(crate) async fn save_record(&self) {
        let _session_ended = self.commands.send(Command::SaveRecord).await;
    }

    /// Has the session's task ended? It takes no more requests.
    pub(crate) fn has_ended(&self) -> bool {
        self.commands.is_closed()
    }

    /// Completes when the session's task has ended.
    pub(crate) async fn ended(&self) {
        self.commands.closed().await;
    }

    /// The id of a new request to the client, and its response. None if the session has ended.
    async fn expect_response(&self) -> Option<(u64, oneshot::Receiver<Outcome>)> {
        let number = self.next_request_id.fetch_add(1, Ordering::Relaxed);
        let (reply, response) = oneshot::channel();
        self.commands.send(Command::ExpectResponse { number, reply }).await.ok()?;
        Some((number, response))
    }
}

/// The task of a session.
pub(crate) struct SessionTask {
    session: Arc<Session>,
    relay: Arc<Relay>,
    commands: mpsc::Receiver<Command>,
    /// Messages outside of requests.
    session_messages: mpsc::Receiver<Message>,
    /// Keeps the session context of the client alive.
    _session_context: Arc<RequestContext>,
    streams: EventStreams,
    /// The session counts until its task has ended.
    _slot: ClientReservation,
    started: Instant,
    expected_responses: HashMap<u64, oneshot::Sender<Outcome>>,
    tasks: JoinSet<RequestId>,
    tasks_by_id: HashMap<RequestId, (AbortHandle, u64)>,
    /// Requests that were cancelled before they had a stream.
    cancelled_early: VecDeque<RequestId>,
    list_changes: ListChanges,
    subscriptions: ResourceSubscriptions,
    /// Subscriptions of a former owner that are opened again.
    restoring: JoinSet<Option<(String, Subscription)>>,
    /// The subscriptions that are not restored yet.
    unrestored: BTreeSet<String>,
    timeouts: SessionTimeouts,
    revocations: Revocations,
    credential: watch::Sender<Credential>,
    shutdown: watch::Receiver<bool>,
    /// The session in the store, where replicas share it.
    log: Option<LoggedSession>,
}

/// The session in the store, and what is to be done with it when the session ends.
struct LoggedSession {
    log: SessionLog,
    ownership: Ownership,
    resync: watch::Receiver<Resync>,
    /// How often the whole session was to be written again.
    resynced: u64,
    has_read_get_stream: bool,
    /// What a former owner of the session has left.
    restored: Option<RestoredSession>,
}

impl fmt::Debug for SessionTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionTask({})", self.session.id)
    }
}

impl SessionTask {
    pub(crate) fn new(
        (id, version): (String, &str),
        (client, account, credential): (Arc<Client>, ClientAccount, Credential),
        (replay_budget, slot): (ReplayBudget, ClientReservation),
        (relay, revocations): (Arc<Relay>, Revocations),
        (timeouts, shutdown): (SessionTimeouts, watch::Receiver<bool>),
    ) -> (Arc<Session>, SessionTask) {
        let (commands, command_receiver) = mpsc::channel(COMMAND_CAPACITY);
        let (credential, published) = watch::channel(credential);
        let session = Arc::new(Session {
            id,
            client,
            account,
            protocol_version: version.to_owned(),
            opened: Instant::now(),
            commands,
            next_request_id: AtomicU64::new(1),
            request_count: AtomicU64::new(0),
            credential: published,
            closing: Notify::new(),
            running: AtomicUsize::new(0),
            request_ended: Notify::new(),
            is_leaving: AtomicBool::new(false),
        });
        let (sender, session_messages) = mpsc::channel(SESSION_MESSAGE_CAPACITY);
        let channel = Arc::new(SessionChannel::new(&session, sender));
        let session_context = RequestContext::for_session(session.client.clone(), channel);
        let list_changes = ListChanges::new(&relay);
        let task = SessionTask {
            session: session.clone(),
            relay,
            commands: command_receiver,
            session_messages,
            _session_context: session_context,
            streams: EventStreams::new(PrimingEvent::of_version(version), replay_budget),
            _slot: slot,
            started: Instant::now(),
            expected_responses: HashMap::new(),
            tasks: JoinSet::new(),
            tasks_by_id: HashMap::new(),
            cancelled_early: VecDeque::new(),
            list_changes,
            subscriptions: ResourceSubscriptions::default(),
            restoring: JoinSet::new(),
            unrestored: BTreeSet::new(),
            timeouts,
            revocations,
            credential,
            shutdown,
            log: None,
        };
        (session, task)
    }

    /// The same task for a session that replicas share, and that a former owner may have left.
    pub(crate) fn with_log(
        mut self,
        log: SessionLog,
        restored: Option<RestoredSession>,
    ) -> SessionTask {
        let first_request = ((log.epoch() - 1) << REQUESTS_PER_OWNER) + 1;
        self.session.next_request_id.store(first_request, Ordering::Relaxed);
        if let Some(restored) = &restored {
            let open: Vec<u64> = restored.lost_calls.iter().map(|it| it.0).collect();
            self.streams.restore(restored.last_stream, restored.events.clone(), &open);
            if restored.record.has_read_get_stream {
                self.streams.set_get_stream_read();
            }
        }
        let has_read_get_stream = restored.as_ref().is_some_and(|it| it.record.has_read_get_stream);
        let resync = log.resync_signal();
        let resynced = resync.borrow().all;
        self.log = Some(LoggedSession {
            log,
            ownership: Ownership::Ours,
            resync,
            resynced,
            has_read_get_stream,
            restored,
        });
        self
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Runs until the session is closed, idle for too long, or the server shuts down. The session takes no requests any
    /// more then, and is left to [`EndedSession::finish`].
    pub(crate) async fn run(mut self) -> EndedSession {
        let mut keepalives = interval(KEEPALIVE_INTERVAL);
        keepalives.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut idle_since = (Instant::now(), 0);
        let session = self.session.clone();
        self.go_on().await;
        let reason = loop {
            if self.is_lost() {
                break "another replica has taken it over";
            }
            let trimmed = ReplayBudget::changed(&session.account.own);
            self.streams.drop_over_budget();
            if let Some(limit) = self.streams.take_exceeded() {
                let (principal, now) = (&*session.account.own.principal, self.started.elapsed());
                self.relay.metrics.count_limit(limit, principal, now);
            }
            tokio::select! {
                () = trimmed => {}
                Some(command) = self.commands.recv() => self.apply_with_next(command).await,
                Some(changed) = self.list_changes.next() => {
                    let changes = changed.iter().map(|it| outside_requests(it.notification()));
                    self.publish(changes.collect()).await;
                }
                uri = self.subscriptions.next_updated() => {
                    self.publish(vec![outside_requests(resource_updated(&uri))]).await;
                }
                Some(message) = self.session_messages.recv() => {
                    self.publish(vec![outside_requests(message)]).await;
                }
                () = store_is_back(&mut self.log) => self.write_again().await,
                Some(restored) = self.restoring.join_next() => {
                    self.add_restored(restored.ok().flatten()).await;
                }
                Some(over) = self.tasks.join_next() => {
                    if let Ok(id) = over {
                        self.tasks_by_id.remove(&id);
                    }
                }
                _ = keepalives.tick() => {
                    let is_active = self.streams.send_keepalives() || !self.tasks.is_empty();
                    let request_count = self.session.request_count.load(Ordering::Relaxed);
                    if is_active || request_count != idle_since.1 {
                        idle_since = (Instant::now(), request_count);
                        // Renews the session's time to live.
                        self.write(SessionUpdate::default()).await;
                    } else if idle_since.0.elapsed() >= self.timeouts.idle {
                        break "idle";
                    }
                }
                () = self.revocations.next_check() => {
                    if !self.revocations.is_valid(&self.credential.borrow()) {
                        break "the credential is no longer valid";
                    }
                }
                () = self.session.closing.notified() => break "closed by the client",
                () = wait_until_true(&mut self.shutdown) => {
                    self.drain().await;
                    break SHUTDOWN;
                }
            }
        };
        let client = &self.session.client;
        info!(
            principal = &*client.principal,
            session = client.session_digest(),
            reason,
            "session closed"
        );
        EndedSession { task: self, reason }
    }

    /// Goes on with what a former owner of the session has left: its calls are told as lost, and never repeated.
    async fn go_on(&mut self) {
        let Some(restored) = self.log.as_mut().and_then(|it| it.restored.take()) else { return };
        let client = self.session.client.clone();
        info!(
            principal = &*client.principal,
            session = client.session_digest(),
            lost_calls = restored.lost_calls.len(),
            "session taken over"
        );
        let lost = restored.lost_calls.into_iter().map(|(stream, id)| Publication {
            stream,
            message: Message::Response { id: Some(id), outcome: Err(call_lost()) },
            end: StreamEnd::Closed,
        });
        self.publish(lost.collect()).await;
        if let Some(level) = restored.record.log_level.as_deref().and_then(LogLevel::parse) {
            self.relay.restore_log_level(&client, level).await;
        }
        // Servers may take long to respond: the session takes requests meanwhile.
        for uri in restored.record.subscriptions {
            let (relay, client) = (self.relay.clone(), client.clone());
            self.unrestored.insert(uri.clone());
            self.restoring.spawn(async move {
                let opened = ResourceSubscriptions::open(&relay, &client, &uri).await;
                opened.ok().map(|subscription| (uri, subscription))
            });
        }
    }

    /// Adds a subscription of a former owner, unless the client has ended it meanwhile.
    async fn add_restored(&mut self, restored: Option<(String, Subscription)>) {
        let Some((uri, subscription)) = restored else { return };
        if self.unrestored.remove(&uri) {
            self.subscriptions.add(&uri, subscription);
            // The resource may have changed meanwhile.
            self.publish(vec![outside_requests(resource_updated(&uri))]).await;
        }
    }

    /// Sends messages on their streams. Where replicas share the session, the events are stored first, so that no client
    /// has one that the next owner does not know.
    async fn publish(&mut self, publications: Vec<Publication>) {
        if self.log.is_none() {
            return publications.iter().for_each(|it| self.send(it));
        }
        let ended = publications.iter().filter(|it| it.end == StreamEnd::Closed);
        let closed: Vec<u64> = ended.map(|it| it.stream).collect();
        let mut events = Vec::with_capacity(publications.len());
        let mut events_to_store = Vec::with_capacity(publications.len());
        for Publication { stream, message, .. } in &publications {
            let Some(event) = self.streams.encode(*stream, message) else { continue };
            events_to_store.extend(stored_event(&event, message));
            events.push(event);
        }
        let update = SessionUpdate {
            events: events_to_store,
            closed: closed.clone(),
            ..SessionUpdate::default()
        };
        self.write(update).await;
        if self.is_lost() {
            // The new owner does not know these events, and tells the calls as lost.
            return;
        }
        for event in events {
            self.streams.deliver(event);
        }
        for stream in closed {
            self.streams.close(stream);
        }
    }

    /// Sends a message on its stream.
    fn send(&mut self, publication: &Publication) {
        self.streams.send(publication.stream, &publication.message);
        if publication.end == StreamEnd::Closed {
            self.streams.close(publication.stream);
        }
    }

    /// Has another replica taken the session over?
    fn is_lost(&self) -> bool {
        self.log.as_ref().is_some_and(|it| it.ownership == Ownership::Lost)
    }

    /// Writes to the store, where replicas share the session.
    async fn write(&mut self, update: SessionUpdate) {
        if let Some(logged) = &mut self.log {
            logged.ownership = logged.log.write(update).await;
        }
    }

    /// Writes the description of the client.
    async fn write_record(&mut self) {
        if let Some(record) = self.record() {
            self.write(SessionUpdate { record: Some(record), ..SessionUpdate::default() }).await;
        }
    }

    /// Writes all of the session, after the store was away or has lost it.
    async fn write_again(&mut self) {
        let Some(record) = self.record() else { return };
        let opened = self.tasks_by_id.iter().map(|(id, (_, stream))| (*stream, id.clone()));
        let mut events = self.streams.kept_events();
        events.retain(|it| it.bytes.len() <= MAX_STORED_EVENT_BYTES);
        let update = SessionUpdate {
            record: Some(record),
            opened: opened.collect(),
            events,
            closed: Vec::new(),
        };
        let image = SessionImage { last_stream: self.streams.last_stream(), update };
        if let Some(logged) = &mut self.log {
            logged.ownership = logged.log.rewrite(image).await;
        }
    }

    /// The description of the client for the store.
    fn record(&self) -> Option<SessionRecord> {
        let logged = self.log.as_ref()?;
        let unrestored = self.unrestored.iter().map(String::as_str);
        let subscriptions =
            self.subscriptions.uris().chain(unrestored).map(str::to_owned).collect();
        let record = session_record(&self.session.client, &self.session.protocol_version);
        let has_read_get_stream = logged.has_read_get_stream;
        Some(SessionRecord { subscriptions, has_read_get_stream, ..record })
    }

    /// At shutdown, lets running requests finish within the timeout.
    async fn drain(&mut self) {
        self.streams.remove_get_stream();
        if self.log.is_some() {
            // New requests wait for the next owner. If they began here, there might never be a moment without one.
            self.session.is_leaving.store(true, Ordering::SeqCst);
        }
        let deadline = Instant::now() + self.timeouts.drain;
        loop {
            // A command may begin another request.
            while let Ok(command) = self.commands.try_recv() {
                self.apply(command).await;
            }
            let is_idle = self.tasks.is_empty() && self.session.running.load(Ordering::SeqCst) == 0;
            if is_idle || self.is_lost() {
                return;
            }
            let session = self.session.clone();
            tokio::select! {
                () = session.request_ended.notified() => {}
                Some(command) = self.commands.recv() => self.apply(command).await,
                Some(over) = self.tasks.join_next() => {
                    if let Ok(id) = over {
                        self.tasks_by_id.remove(&id);
                    }
                }
                () = sleep_until(deadline) => return,
            }
        }
    }

    /// Applies a command. Messages that wait behind a message are stored together with it.
    async fn apply_with_next(&mut self, command: Command) {
        if self.log.is_none() {
            return self.apply(command).await;
        }
        let mut command = Some(command);
        let mut batch = Vec::new();
        while let Some(it) = command.take() {
            match self.as_publication(it) {
                Ok(publication) => batch.push(publication),
                Err(other) => {
                    self.publish(std::mem::take(&mut batch)).await;
                    return self.apply(other).await;
                }
            }
            if batch.len() < MAX_BATCH {
                command = self.commands.try_recv().ok();
            }
        }
        self.publish(batch).await;
    }

    /// The message that a command sends, if it only does that.
    #[expect(clippy::result_large_err, reason = "the other commands are moved on, not returned")]
    fn as_publication(&mut self, command: Command) -> Result<Publication, Command> {
        match command {
            Command::Send { stream, message } => {
                Ok(Publication { stream, message, end: StreamEnd::Open })
            }
            Command::Finish { stream, id, outcome } => {
                self.tasks_by_id.remove(&id);
                let message = Message::Response { id: Some(id), outcome };
                Ok(Publication { stream, message, end: StreamEnd::Closed })
            }
            Command::StartStream { .. }
            | Command::Resume { .. }
            | Command::OpenGetStream { .. }
            | Command::ExpectResponse { .. }
            | Command::DeliverResponse { .. }
            | Command::Cancel { .. }
            | Command::Subscribe { .. }
            | Command::Unsubscribe { .. }
            | Command::SetCredential { .. }
            | Command::SaveRecord => Err(command),
        }
    }

    async fn apply(&mut self, command: Command) {
        let command = match self.as_publication(command) {
            Ok(it) if self.log.is_none() => return self.send(&it),
            Ok(publication) => return self.publish(vec![publication]).await,
            Err(other) => other,
        };
        match command {
            Command::Send { .. } | Command::Finish { .. } => {}
            Command::StartStream { id, reply, .. } if self.was_cancelled_early(&id) => {
                // A stream that ends at once: a cancelled request gets no response.
                let (_ended, reader) = event_queue(&self.session.account.own, 0);
                let _client_gone = reply.send(reader);
            }
            Command::StartStream { id, work, notifications, first, reply } => {
                let (stream, reader) = self.streams.open();
                if self.log.is_some() {
                    // Known before the client knows the stream: the next owner tells the call as lost.
                    let opened = vec![(stream, id.clone())];
                    self.write(SessionUpdate { opened, ..SessionUpdate::default() }).await;
                }
                if let Some(message) = first {
                    self.publish(vec![Publication { stream, message, end: StreamEnd::Open }]).await;
                }
                self.spawn_work(stream, id, work, notifications);
                let _client_gone = reply.send(reader);
            }
            Command::Resume { last_event_id, reply } => {
                let _client_gone = reply.send(self.streams.resume(&last_event_id));
            }
            Command::OpenGetStream { reply } => {
                let _client_gone = reply.send(self.streams.open_get_stream());
                let is_first = |it: &LoggedSession| !it.has_read_get_stream;
                if let Some(logged) = self.log.as_mut().filter(|it| is_first(it)) {
                    logged.has_read_get_stream = true;
                    self.write_record().await;
                }
            }
            Command::ExpectResponse { number, reply } => {
                self.expected_responses.retain(|_, it| !it.is_closed());
                self.expected_responses.insert(number, reply);
            }
            Command::DeliverResponse { id, outcome } => {
                if let RequestId::Number(number) = id
                    && let Some(reply) = self.expected_responses.remove(&number)
                {
                    let _withdrawn = reply.send(outcome);
                }
            }
            Command::Cancel { id } => self.cancel(id).await,
            Command::Subscribe { uri, reply } => {
                self.unrestored.remove(&uri);
                let client = &self.session.client;
                let outcome = self.subscriptions.subscribe(&self.relay, client, &uri).await;
                self.write_record().await;
                let _client_gone = reply.send(outcome);
            }
            Command::Unsubscribe { uri } => {
                self.unrestored.remove(&uri);
                self.subscriptions.unsubscribe(&uri);
                self.write_record().await;
            }
            Command::SaveRecord => self.write_record().await,
            Command::SetCredential { credential } => {
                let _session_holds_a_receiver = self.credential.send(credential);
            }
        }
    }

    async fn cancel(&mut self, id: RequestId) {
        if let Some((task, stream)) = self.tasks_by_id.remove(&id) {
            task.abort();
            self.streams.close(stream);
            if self.log.is_some() {
                let closed = vec![stream];
                self.write(SessionUpdate { closed, ..SessionUpdate::default() }).await;
            }
            return;
        }
        self.cancelled_early.push_back(id);
        if self.cancelled_early.len() > MAX_EARLY_CANCELS {
            self.cancelled_early.pop_front();
        }
    }

    /// Was a request cancelled before it had a stream?
    fn was_cancelled_early(&mut self, id: &RequestId) -> bool {
        let before = self.cancelled_early.len();
        self.cancelled_early.retain(|it| it != id);
        self.cancelled_early.len() < before
    }

    /// Runs a request. Its messages and its outcome come back as commands, so that the streams keep them.
    fn spawn_work(
        &mut self,
        stream: u64,
        id: RequestId,
        work: OutcomeFuture,
        notifications: mpsc::Receiver<Message>,
    ) {
        let commands = self.session.commands.clone();
        let key = id.clone();
        let task = self.tasks.spawn(async move {
            let send = |message| {
                let sent = commands.send(Command::Send { stream, message });
                async move { drop(sent.await) }
            };
            let outcome = forward_until_done(work, notifications, send).await;
            let finish = Command::Finish { stream, id: id.clone(), outcome };
            let _session_ended = commands.send(finish).await;
            id
        });
        self.tasks_by_id.insert(key, (task, stream));
    }
}

/// What the store keeps of an event. A large one would delay every other use of the store: of a response, the client of the
/// next owner learns that it was too large, and other messages are left out.
fn stored_event(event: &SentEvent, message: &Message) -> Option<SentEvent> {
    if event.bytes.len() <= MAX_STORED_EVENT_BYTES {
        return Some(event.clone());
    }
    match message {
        Message::Response { id, .. } => {
            let text = "the call was executed, and its result was too large to be kept for another replica";
            let message =
                Message::Response { id: id.clone(), outcome: Err(server::internal_error(text)) };
            Some(replay::encode_as(event, &message))
        }
        Message::Request { .. } | Message::Notification { .. } => None,
    }
}

/// A session that takes no requests any more.
#[derive(Debug)]
pub(crate) struct EndedSession {
    task: SessionTask,
    reason: &'static str,
}

impl EndedSession {
    /// Ends what is left of it, and leaves it to other replicas if this one shuts down.
    pub(crate) async fn finish(self) {
        let EndedSession { task: mut ended, reason } = self;
        ended.tasks.shutdown().await;
        if let Some(LoggedSession { log, ownership: Ownership::Ours, .. }) = &ended.log {
            match reason == SHUTDOWN {
                true => log.release().await,
                false => log.remove().await,
            }
        }
        // Requests that wait for the end go to the next owner.
        ended.commands.close();
        ended.relay.client_disconnected(&ended.session.client).await;
    }
}

/// A message on the stream outside of requests.
fn outside_requests(message: Message) -> Publication {
    Publication { stream: GET_STREAM, message, end: StreamEnd::Open }
}

/// Completes when the session is to be written again.
async fn store_is_back(log: &mut Option<LoggedSession>) {
    match log {
        Some(logged) => loop {
            if logged.resync.changed().await.is_err() {
                std::future::pending().await
            }
            let all = logged.resync.borrow_and_update().all;
            let is_for_all = std::mem::replace(&mut logged.resynced, all) != all;
            if is_for_all || logged.log.is_behind() {
                return;
            }
        },
        None => std::future::pending().await,
    }
}

/// The description of a client that has just connected.
pub(crate) fn session_record(client: &Client, protocol_version: &str) -> SessionRecord {
    SessionRecord {
        principal: client.principal.to_string(),
        account: client.account.to_string(),
        protocol_version: protocol_version.to_owned(),
        capabilities: client.capabilities_json.to_string(),
        log_level: client.log_level().map(|it| it.as_str().to_owned()),
        subscriptions: Vec::new(),
        has_read_get_stream: false,
    }
}

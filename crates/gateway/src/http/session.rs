//! The session of one legacy client: its event streams, the requests that it was sent, and its requests that went on to
//! a stream. One task owns all of it; HTTP requests send it commands.

pub(crate) mod channel;
mod replay;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;
use switchboard_auth::resource_server::Credential;
use switchboard_wire::jsonrpc::message::{Message, RequestId, RpcError};
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
use crate::http::shutdown::{DRAIN_TIMEOUT, wait_until_true};
use crate::relay::Relay;
use crate::subscriptions::{ListChanges, ResourceSubscriptions, resource_updated};

use channel::SessionChannel;
use replay::{EventStreams, GET_STREAM, PrimingEvent};

/// The capacity of the command queue.
const COMMAND_CAPACITY: usize = 32;
/// The capacity of the queue of messages outside of requests.
const SESSION_MESSAGE_CAPACITY: usize = 16;
/// The most cancellations to remember of requests that have no stream yet.
const MAX_EARLY_CANCELS: usize = 64;

/// A handle to a session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) client: Arc<Client>,
    /// The account that the session and its requests are counted for.
    pub(crate) account: ClientAccount,
    pub(crate) protocol_version: String,
    commands: mpsc::Sender<Command>,
    /// The next id of a request to the client.
    next_request_id: AtomicU64,
    /// The number of HTTP requests so far; shows whether the session is in use.
    request_count: AtomicU64,
    /// The credential of the latest request, as the task has published it.
    credential: watch::Receiver<Credential>,
    /// Tells the task to end.
    closing: Notify,
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

    /// Tells the task to end.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
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
    idle_timeout: Duration,
    revocations: Revocations,
    credential: watch::Sender<Credential>,
    shutdown: watch::Receiver<bool>,
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
        (idle_timeout, shutdown): (Duration, watch::Receiver<bool>),
    ) -> (Arc<Session>, SessionTask) {
        let (commands, command_receiver) = mpsc::channel(COMMAND_CAPACITY);
        let (credential, published) = watch::channel(credential);
        let session = Arc::new(Session {
            id,
            client,
            account,
            protocol_version: version.to_owned(),
            commands,
            next_request_id: AtomicU64::new(1),
            request_count: AtomicU64::new(0),
            credential: published,
            closing: Notify::new(),
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
            idle_timeout,
            revocations,
            credential,
            shutdown,
        };
        (session, task)
    }

    pub(crate) fn session_id(&self) -> &str {
        &self.session.id
    }

    /// Runs until the session is closed, idle for too long, or the server shuts down.
    pub(crate) async fn run(mut self) {
        let mut keepalives = interval(KEEPALIVE_INTERVAL);
        keepalives.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut idle_since = (Instant::now(), 0);
        let session = self.session.clone();
        let reason = loop {
            let trimmed = ReplayBudget::changed(&session.account.own);
            self.streams.drop_over_budget();
            if let Some(limit) = self.streams.take_exceeded() {
                let (principal, now) = (&*session.account.own.principal, self.started.elapsed());
                self.relay.metrics.count_limit(limit, principal, now);
            }
            tokio::select! {
                () = trimmed => {}
                Some(command) = self.commands.recv() => self.apply(command).await,
                Some(changed) = self.list_changes.next() => {
                    for change in changed {
                        self.streams.send(GET_STREAM, &change.notification());
                    }
                }
                uri = self.subscriptions.next_updated() => {
                    self.streams.send(GET_STREAM, &resource_updated(&uri));
                }
                Some(message) = self.session_messages.recv() => {
                    self.streams.send(GET_STREAM, &message);
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
                    } else if idle_since.0.elapsed() >= self.idle_timeout {
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
                    break "shutdown";
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
        self.tasks.shutdown().await;
        self.relay.client_disconnected(&self.session.client).await;
    }

    /// At shutdown, lets running requests finish within the timeout.
    async fn drain(&mut self) {
        self.streams.remove_get_stream();
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while !self.tasks.is_empty() {
            tokio::select! {
                Some(command) = self.commands.recv() => self.apply(command).await,
                Some(over) = self.tasks.join_next() => {
                    if let Ok(id) = over {
                        self.tasks_by_id.remove(&id);
                    }
                }
                () = sleep_until(deadline) => return,
            }
        }
        while let Ok(command) = self.commands.try_recv() {
            self.apply(command).await;
        }
    }

    async fn apply(&mut self, command: Command) {
        match command {
            Command::StartStream { id, reply, .. } if self.was_cancelled_early(&id) => {
                // A stream that ends at once: a cancelled request gets no response.
                let (_ended, reader) = event_queue(&self.session.account.own, 0);
                let _client_gone = reply.send(reader);
            }
            Command::StartStream { id, work, notifications, first, reply } => {
                let (stream, reader) = self.streams.open();
                if let Some(first) = &first {
                    self.streams.send(stream, first);
                }
                self.spawn_work(stream, id, work, notifications);
                let _client_gone = reply.send(reader);
            }
            Command::Resume { last_event_id, reply } => {
                let _client_gone = reply.send(self.streams.resume(&last_event_id));
            }
            Command::OpenGetStream { reply } => {
                let _client_gone = reply.send(self.streams.open_get_stream());
            }
            Command::Send { stream, message } => self.streams.send(stream, &message),
            Command::Finish { stream, id, outcome } => {
                self.tasks_by_id.remove(&id);
                self.streams.send(stream, &Message::Response { id: Some(id), outcome });
                self.streams.close(stream);
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
            Command::Cancel { id } => self.cancel(id),
            Command::Subscribe { uri, reply } => {
                let client = &self.session.client;
                let outcome = self.subscriptions.subscribe(&self.relay, client, &uri).await;
                let _client_gone = reply.send(outcome);
            }
            Command::Unsubscribe { uri } => self.subscriptions.unsubscribe(&uri),
            Command::SetCredential { credential } => {
                let _session_holds_a_receiver = self.credential.send(credential);
            }
        }
    }

    fn cancel(&mut self, id: RequestId) {
        if let Some((task, stream)) = self.tasks_by_id.remove(&id) {
            task.abort();
            self.streams.close(stream);
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

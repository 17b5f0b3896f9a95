//! One legacy client's session: its streams, with what was sent on them lately so that a lost one can go on, the
//! questions that it has been asked, and its work that went on to a stream. One task owns all of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use switchboard_wire::jsonrpc::message::{Message, Payload, RequestId, RpcError};
use switchboard_wire::server;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::response::{sse_event, sse_first_event, sse_keepalive};
use super::server::wait_until_true;
use crate::downstream::client::Client;
use crate::downstream::drain::forward_until_done;
use crate::downstream::request_context::{
    ClientChannel, ClientResponse, NotifyOutcome, RequestContext,
};
use crate::multi_round_trip::pending::Outcome;
use crate::relay::Relay;
use crate::subscriptions::{ListChanges, ResourceSubscriptions, list_changed, resource_updated};

/// How many commands may wait for the task.
const COMMAND_CAPACITY: usize = 32;
/// How many messages outside of requests may wait.
const SESSION_MESSAGE_CAPACITY: usize = 16;
/// How many events may wait for a reader. One that is slower loses its stream, and may come back for the rest.
const READER_CAPACITY: usize = 256;
/// How much of what was sent is kept: of one session, of one stream, and how many streams that are over.
const MAX_REPLAY_BYTES: usize = 4 * 1024 * 1024;
const MAX_REPLAY_EVENTS: usize = 1000;
const MAX_CLOSED_STREAMS: usize = 32;
/// How many cancellations are remembered of questions that have no stream yet.
const MAX_EARLY_CANCELS: usize = 64;
/// How often a stream on which nothing happens is kept open.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(25);
/// The stream on which we speak by ourselves.
pub(crate) const GET_STREAM: u64 = 0;

/// Work whose outcome goes to a stream.
pub(crate) type OutcomeFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A session, as requests see it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) client: Arc<Client>,
    pub(crate) protocol_version: String,
    commands: mpsc::Sender<Command>,
    /// Numbers of questions that we ask.
    next_request_id: AtomicU64,
    /// How often somebody came.
    request_count: AtomicU64,
    closed: watch::Sender<bool>,
}

/// What requests want of the task.
enum Command {
    StartStream {
        id: RequestId,
        work: OutcomeFuture,
        notifications: mpsc::Receiver<Message>,
        first: Option<Message>,
        reply: StreamReply,
    },
    Resume {
        last: String,
        reply: oneshot::Sender<Option<mpsc::Receiver<Bytes>>>,
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
    AwaitResponse {
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
}

type StreamReply = oneshot::Sender<mpsc::Receiver<Bytes>>;

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}

impl Session {
    /// Somebody came: the session is in use.
    pub(crate) fn mark_used(&self) {
        self.request_count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Lets work go on beside; what comes of it is read from a stream of its own.
    pub(crate) async fn start_stream(
        &self,
        id: RequestId,
        work: OutcomeFuture,
        notifications: mpsc::Receiver<Message>,
        first: Option<Message>,
    ) -> Option<mpsc::Receiver<Bytes>> {
        let (reply, stream) = oneshot::channel();
        self.commands
            .send(Command::StartStream { id, work, notifications, first, reply })
            .await
            .ok()?;
        stream.await.ok()
    }

    /// What a lost stream has after its last event.
    pub(crate) async fn resume(&self, last: String) -> Option<mpsc::Receiver<Bytes>> {
        let (reply, stream) = oneshot::channel();
        self.commands.send(Command::Resume { last, reply }).await.ok()?;
        stream.await.ok()?
    }

    /// The stream on which we speak by ourselves. Who had it before loses it.
    pub(crate) async fn open_get_stream(&self) -> Option<mpsc::Receiver<Bytes>> {
        let (reply, stream) = oneshot::channel();
        self.commands.send(Command::OpenGetStream { reply }).await.ok()?;
        stream.await.ok()
    }

    pub(crate) async fn deliver_response(&self, id: RequestId, outcome: Outcome) {
        let _session_gone = self.commands.send(Command::DeliverResponse { id, outcome }).await;
    }

    pub(crate) async fn cancel(&self, id: RequestId) {
        let _session_gone = self.commands.send(Command::Cancel { id }).await;
    }

    pub(crate) async fn subscribe(&self, uri: String) -> Result<(), RpcError> {
        let gone = || server::internal_error("the session is over");
        let (reply, followed) = oneshot::channel();
        self.commands.send(Command::Subscribe { uri, reply }).await.map_err(|_| gone())?;
        followed.await.map_err(|_| gone())?
    }

    pub(crate) async fn unsubscribe(&self, uri: String) {
        let _session_gone = self.commands.send(Command::Unsubscribe { uri }).await;
    }
}

/// The way to a client while one of its requests is worked on. What it is told goes to that request's stream.
#[derive(Debug)]
pub(crate) struct SessionChannel {
    pub(crate) session: Weak<Session>,
    pub(crate) messages: mpsc::Sender<Message>,
}

impl ClientChannel for SessionChannel {
    fn notify(&self, method: Cow<'static, str>, params: Option<Payload>) -> NotifyOutcome {
        NotifyOutcome::from_send(self.messages.try_send(Message::Notification { method, params }))
    }

    fn request<'a>(&'a self, method: &'a str, params: Option<Payload>) -> ClientResponse<'a> {
        Box::pin(async move {
            let gone = || server::internal_error("the client is gone");
            let session = self.session.upgrade().ok_or_else(gone)?;
            let number = session.next_request_id.fetch_add(1, Ordering::Relaxed);
            let (reply, answer) = oneshot::channel();
            let expect = Command::AwaitResponse { number, reply };
            session.commands.send(expect).await.map_err(|_| gone())?;
            drop(session);
            let method = Cow::Owned(method.to_owned());
            let message = Message::Request { id: RequestId::Number(number), method, params };
            self.messages.send(message).await.map_err(|_| gone())?;
            let mut asked = CancelOnDrop { messages: &self.messages, request_id: Some(number) };
            let answer = answer.await;
            asked.request_id = None;
            answer.map_err(|_| gone())?
        })
    }
}

/// A question that the client has been asked. Dropped unanswered, the client is told that nobody wants to know any more.
struct CancelOnDrop<'a> {
    messages: &'a mpsc::Sender<Message>,
    request_id: Option<u64>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.request_id {
            let params = Payload::from_json(format!("{{\"requestId\":{number}}}").into());
            let method = Cow::Borrowed("notifications/cancelled");
            let message = Message::Notification { method, params: Some(params) };
            let _no_room_or_gone = self.messages.try_send(message);
        }
    }
}

/// The task behind a session.
pub(crate) struct SessionTask {
    session: Arc<Session>,
    relay: Arc<Relay>,
    commands: mpsc::Receiver<Command>,
    /// What is said outside of requests, and who says it.
    session_messages: mpsc::Receiver<Message>,
    _session_context: Arc<RequestContext>,
    streams: BTreeMap<u64, ResumableStream>,
    last_stream: u64,
    awaiting_response: HashMap<u64, oneshot::Sender<Outcome>>,
    tasks: JoinSet<RequestId>,
    tasks_by_id: HashMap<RequestId, (AbortHandle, u64)>,
    /// Questions that were called off before they had a stream.
    cancelled_early: VecDeque<RequestId>,
    list_changes: ListChanges,
    subscriptions: ResourceSubscriptions,
    idle_timeout: Duration,
    closed: watch::Receiver<bool>,
    shutdown: watch::Receiver<bool>,
}

impl fmt::Debug for SessionTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionTask({})", self.session.id)
    }
}

/// What was sent on a stream lately, and who reads it.
#[derive(Debug, Default)]
struct ResumableStream {
    next_event: u64,
    replay: VecDeque<(u64, Bytes)>,
    replay_bytes: usize,
    reader: Option<mpsc::Sender<Bytes>>,
    /// What nobody has read yet begins here.
    first_unread: u64,
    is_closed: bool,
}

impl SessionTask {
    pub(crate) fn new(
        id: String,
        client: Arc<Client>,
        version: &str,
        (relay, idle_timeout, shutdown): (Arc<Relay>, Duration, watch::Receiver<bool>),
    ) -> (Arc<Session>, SessionTask) {
        let (commands, from_requests) = mpsc::channel(COMMAND_CAPACITY);
        let (close_sender, closed_receiver) = watch::channel(false);
        let session = Arc::new(Session {
            id,
            client,
            protocol_version: version.to_owned(),
            commands,
            next_request_id: AtomicU64::new(1),
            request_count: AtomicU64::new(0),
            closed: close_sender,
        });
        let (sender, session_messages) = mpsc::channel(SESSION_MESSAGE_CAPACITY);
        let channel =
            Arc::new(SessionChannel { session: Arc::downgrade(&session), messages: sender });
        let session_context = Arc::new(RequestContext::new(session.client.clone(), channel));
        session.client.set_session_context(&session_context);
        let list_changes = ListChanges::new(&relay);
        let task = SessionTask {
            session: session.clone(),
            relay,
            commands: from_requests,
            session_messages,
            _session_context: session_context,
            streams: BTreeMap::new(),
            last_stream: GET_STREAM,
            awaiting_response: HashMap::new(),
            tasks: JoinSet::new(),
            tasks_by_id: HashMap::new(),
            cancelled_early: VecDeque::new(),
            list_changes,
            subscriptions: ResourceSubscriptions::default(),
            idle_timeout,
            closed: closed_receiver,
            shutdown,
        };
        (session, task)
    }

    /// Runs until the session is over. Says which it was.
    pub(crate) async fn run(mut self) -> String {
        let mut keepalives = interval(KEEPALIVE_INTERVAL);
        keepalives.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut idle_since = (Instant::now(), 0);
        loop {
            tokio::select! {
                Some(command) = self.commands.recv() => self.apply(command).await,
                Some(changed) = self.list_changes.next() => {
                    changed.into_iter().for_each(|it| self.send(GET_STREAM, &list_changed(it)));
                }
                uri = self.subscriptions.next_updated() => self.send(GET_STREAM, &resource_updated(&uri)),
                Some(message) = self.session_messages.recv() => self.send(GET_STREAM, &message),
                Some(over) = self.tasks.join_next() => {
                    if let Ok(id) = over {
                        self.tasks_by_id.remove(&id);
                    }
                }
                _ = keepalives.tick() => {
                    let is_active = self.send_keepalives() || !self.tasks.is_empty();
                    let request_count = self.session.request_count.load(Ordering::Relaxed);
                    if is_active || request_count != idle_since.1 {
                        idle_since = (Instant::now(), request_count);
                    } else if idle_since.0.elapsed() >= self.idle_timeout {
                        break;
                    }
                }
                () = wait_until_true(&mut self.closed) => break,
                () = wait_until_true(&mut self.shutdown) => {
                    self.drain().await;
                    break;
                }
            }
        }
        self.tasks.shutdown().await;
        self.relay.client_disconnected(&self.session.client).await;
        self.session.id.clone()
    }

    /// We are ending: what is under way may finish, within the time that connections have.
    async fn drain(&mut self) {
        self.streams.remove(&GET_STREAM);
        let deadline = Instant::now() + super::server::DRAIN_TIMEOUT;
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
                // A stream that is over before it begins: what was called off has no answer.
                let _client_gone = reply.send(mpsc::channel(1).1);
            }
            Command::StartStream { id, work, notifications, first, reply } => {
                let (stream, reader) = self.open_stream();
                if let Some(first) = &first {
                    self.send(stream, first);
                }
                self.spawn_work(stream, id, work, notifications);
                let _client_gone = reply.send(reader);
            }
            Command::Resume { last, reply } => {
                let _client_gone = reply.send(self.resume(&last));
            }
            Command::OpenGetStream { reply } => {
                let _client_gone = reply.send(self.attach_reader(GET_STREAM, None));
            }
            Command::Send { stream, message } => self.send(stream, &message),
            Command::Finish { stream, id, outcome } => {
                self.tasks_by_id.remove(&id);
                self.send(stream, &Message::Response { id: Some(id), outcome });
                self.close_stream(stream);
            }
            Command::AwaitResponse { number, reply } => {
                self.awaiting_response.retain(|_, it| !it.is_closed());
                self.awaiting_response.insert(number, reply);
            }
            Command::DeliverResponse { id, outcome } => {
                if let RequestId::Number(number) = id
                    && let Some(reply) = self.awaiting_response.remove(&number)
                {
                    let _withdrawn = reply.send(outcome);
                }
            }
            Command::Cancel { id } => {
                if let Some((task, stream)) = self.tasks_by_id.remove(&id) {
                    task.abort();
                    self.close_stream(stream);
                } else {
                    self.cancelled_early.push_back(id);
                    if self.cancelled_early.len() > MAX_EARLY_CANCELS {
                        self.cancelled_early.pop_front();
                    }
                }
            }
            Command::Subscribe { uri, reply } => {
                let _client_gone = reply.send(
                    self.subscriptions.subscribe(&self.relay, &self.session.client, &uri).await,
                );
            }
            Command::Unsubscribe { uri } => self.subscriptions.unsubscribe(&uri),
        }
    }

    /// Was a question called off before it had a stream?
    fn was_cancelled_early(&mut self, id: &RequestId) -> bool {
        let before = self.cancelled_early.len();
        self.cancelled_early.retain(|it| it != id);
        self.cancelled_early.len() < before
    }

    /// Works on, and sends what comes of it through the task, so that it is kept.
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
            let emit = |message| {
                let emitted = commands.send(Command::Send { stream, message });
                async move { drop(emitted.await) }
            };
            let outcome = forward_until_done(work, notifications, emit).await;
            let finish = Command::Finish { stream, id: id.clone(), outcome };
            let _session_gone = commands.send(finish).await;
            id
        });
        self.tasks_by_id.insert(key, (task, stream));
    }

    fn open_stream(&mut self) -> (u64, mpsc::Receiver<Bytes>) {
        self.last_stream += 1;
        let number = self.last_stream;
        let over: Vec<u64> =
            self.streams.iter().filter(|it| it.1.is_closed).map(|it| *it.0).collect();
        for number in over.iter().take(over.len().saturating_sub(MAX_CLOSED_STREAMS)) {
            self.streams.remove(number);
        }
        (number, self.attach_reader(number, None))
    }

    /// A reader for a stream, from after an event on. It is told first how to come back.
    fn attach_reader(&mut self, number: u64, after: Option<u64>) -> mpsc::Receiver<Bytes> {
        let stream = self.streams.entry(number).or_default();
        let missed_events =
            after.map_or(0, |after| stream.replay.iter().filter(|it| it.0 > after).count());
        // What was missed fits besides what is to come, or the stream would have a hole.
        let (sender, reader) = mpsc::channel(READER_CAPACITY + missed_events);
        match after {
            None => {
                let id = event_id(number, stream.next_event);
                stream.next_event += 1;
                let _there_is_room = sender.try_send(sse_first_event(&id));
                let unread = stream.first_unread;
                for (_, bytes) in stream.replay.iter().filter(|it| it.0 >= unread) {
                    let _as_much_as_fits = sender.try_send(bytes.clone());
                }
                stream.first_unread = stream.next_event;
            }
            Some(after) => {
                for (_, bytes) in stream.replay.iter().filter(|it| it.0 > after) {
                    let _there_is_room = sender.try_send(bytes.clone());
                }
            }
        }
        stream.reader = (!stream.is_closed).then_some(sender);
        reader
    }

    fn resume(&mut self, last: &str) -> Option<mpsc::Receiver<Bytes>> {
        let (number, after) = last.split_once('-')?;
        let (number, after) = (number.parse().ok()?, after.parse().ok()?);
        let stream = self.streams.get(&number)?;
        (after < stream.next_event).then(|| self.attach_reader(number, Some(after)))
    }

    fn send(&mut self, number: u64, message: &Message) {
        let is_get_stream = number == GET_STREAM;
        let stream = match is_get_stream {
            true => self.streams.entry(number).or_default(),
            false => match self.streams.get_mut(&number) {
                Some(stream) => stream,
                None => return,
            },
        };
        let at = stream.next_event;
        stream.next_event += 1;
        let bytes = sse_event(Some(&event_id(number, at)), message);
        if let Some(reader) = &stream.reader {
            match reader.try_send(bytes.clone()) {
                Ok(()) => stream.first_unread = stream.next_event,
                Err(_) => stream.reader = None,
            }
        }
        stream.replay_bytes += bytes.len();
        stream.replay.push_back((at, bytes));
        while stream.replay.len() > MAX_REPLAY_EVENTS {
            stream.drop_oldest();
        }
        self.trim_replay();
    }

    /// What is kept has a bound; those streams that are over go first, then what was sent first.
    fn trim_replay(&mut self) {
        let mut all: usize = self.streams.values().map(|it| it.replay_bytes).sum();
        while all > MAX_REPLAY_BYTES {
            let over = self
                .streams
                .iter()
                .find(|it| it.1.is_closed && it.1.replay_bytes > 0)
                .map(|it| *it.0);
            let largest = self.streams.iter().max_by_key(|it| it.1.replay_bytes).map(|it| *it.0);
            let Some(number) = over.or(largest) else { return };
            let Some(stream) = self.streams.get_mut(&number) else { return };
            let before = stream.replay_bytes;
            stream.drop_oldest();
            all -= before - stream.replay_bytes;
            if before == stream.replay_bytes {
                return;
            }
        }
    }

    fn close_stream(&mut self, number: u64) {
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.reader = None;
            stream.is_closed = true;
        }
    }

    /// Keeps streams open on which nothing happens. Says whether anybody reads one.
    fn send_keepalives(&mut self) -> bool {
        let mut is_read = false;
        for stream in self.streams.values_mut() {
            if let Some(reader) = &stream.reader {
                match reader.try_send(sse_keepalive()) {
                    Ok(()) => is_read = true,
                    Err(mpsc::error::TrySendError::Full(_)) => is_read = true,
                    Err(mpsc::error::TrySendError::Closed(_)) => stream.reader = None,
                }
            }
        }
        is_read
    }
}

impl ResumableStream {
    fn drop_oldest(&mut self) {
        if let Some((_, bytes)) = self.replay.pop_front() {
            self.replay_bytes -= bytes.len();
        }
    }
}

/// What an event is called.
fn event_id(stream: u64, event: u64) -> String {
    format!("{stream}-{event}")
}

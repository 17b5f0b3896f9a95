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
use switchboard_wire::message::{Id, Message, Payload, RemoteError};
use switchboard_wire::reception;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::responses::{breath, event, first_event};
use super::told;
use crate::attendant::{Asking, Attendant, Outlet, Said};
use crate::guest::Guest;
use crate::hearing::{Followed, ListWatch, bare, updated};
use crate::meanwhile::told_before;
use crate::relay::Relay;
use crate::turn::Outcome;

/// How many commands may wait for the task.
const COMMANDS: usize = 32;
/// How many messages outside of requests may wait.
const ASIDES: usize = 16;
/// How many events may wait for a reader. One that is slower loses its stream, and may come back for the rest.
const EVENTS: usize = 256;
/// How much of what was sent is kept: of one session, of one stream, and how many streams that are over.
const KEPT_BYTES: usize = 4 * 1024 * 1024;
const KEPT_EVENTS: usize = 1000;
const KEPT_STREAMS: usize = 32;
/// How many cancellations are remembered of questions that have no stream yet.
const EARLY: usize = 64;
/// How often a stream on which nothing happens is kept open.
const BREATH: Duration = Duration::from_secs(25);
/// The stream on which we speak by ourselves.
pub(super) const STANDING: u64 = 0;

/// Work whose outcome goes to a stream.
pub(super) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// A session, as requests see it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) guest: Arc<Guest>,
    pub(super) version: String,
    commands: mpsc::Sender<Command>,
    /// Numbers of questions that we ask.
    numbers: AtomicU64,
    /// How often somebody came.
    visits: AtomicU64,
    end: watch::Sender<bool>,
}

/// What requests want of the task.
enum Command {
    Promote {
        id: Id,
        work: Work,
        notes: mpsc::Receiver<Message>,
        first: Option<Message>,
        reply: Reply,
    },
    Resume {
        last: String,
        reply: oneshot::Sender<Option<mpsc::Receiver<Bytes>>>,
    },
    Stand {
        reply: Reply,
    },
    Emit {
        stream: u64,
        message: Message,
    },
    Finish {
        stream: u64,
        id: Id,
        outcome: Outcome,
    },
    Expect {
        number: u64,
        reply: oneshot::Sender<Outcome>,
    },
    Answered {
        id: Id,
        outcome: Outcome,
    },
    Cancel {
        id: Id,
    },
    Follow {
        uri: String,
        reply: oneshot::Sender<Result<(), RemoteError>>,
    },
    Forget {
        uri: String,
    },
}

type Reply = oneshot::Sender<mpsc::Receiver<Bytes>>;

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}

impl Session {
    /// Somebody came: the session is in use.
    pub(super) fn touch(&self) {
        self.visits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.end.send_replace(true);
    }

    /// Lets work go on beside; what comes of it is read from a stream of its own.
    pub(super) async fn promote(
        &self,
        id: Id,
        work: Work,
        notes: mpsc::Receiver<Message>,
        first: Option<Message>,
    ) -> Option<mpsc::Receiver<Bytes>> {
        let (reply, stream) = oneshot::channel();
        self.commands.send(Command::Promote { id, work, notes, first, reply }).await.ok()?;
        stream.await.ok()
    }

    /// What a lost stream has after its last event.
    pub(super) async fn resume(&self, last: String) -> Option<mpsc::Receiver<Bytes>> {
        let (reply, stream) = oneshot::channel();
        self.commands.send(Command::Resume { last, reply }).await.ok()?;
        stream.await.ok()?
    }

    /// The stream on which we speak by ourselves. Who had it before loses it.
    pub(super) async fn stand(&self) -> Option<mpsc::Receiver<Bytes>> {
        let (reply, stream) = oneshot::channel();
        self.commands.send(Command::Stand { reply }).await.ok()?;
        stream.await.ok()
    }

    pub(super) async fn answered(&self, id: Id, outcome: Outcome) {
        let _over = self.commands.send(Command::Answered { id, outcome }).await;
    }

    pub(super) async fn cancel(&self, id: Id) {
        let _over = self.commands.send(Command::Cancel { id }).await;
    }

    pub(super) async fn follow(&self, uri: String) -> Result<(), RemoteError> {
        let gone = || reception::failed("the session is over");
        let (reply, followed) = oneshot::channel();
        self.commands.send(Command::Follow { uri, reply }).await.map_err(|_| gone())?;
        followed.await.map_err(|_| gone())?
    }

    pub(super) async fn forget(&self, uri: String) {
        let _over = self.commands.send(Command::Forget { uri }).await;
    }
}

/// The way to a client while one of its requests is worked on. What it is told goes to that request's stream.
#[derive(Debug)]
pub(super) struct SessionOutlet {
    pub(super) session: Weak<Session>,
    pub(super) say: mpsc::Sender<Message>,
}

impl Outlet for SessionOutlet {
    fn say(&self, method: Cow<'static, str>, params: Option<Payload>) -> Said {
        Said::of(self.say.try_send(Message::Notification { method, params }))
    }

    fn ask<'a>(&'a self, method: &'a str, params: Option<Payload>) -> Asking<'a> {
        Box::pin(async move {
            let gone = || reception::failed("the client is gone");
            let session = self.session.upgrade().ok_or_else(gone)?;
            let number = session.numbers.fetch_add(1, Ordering::Relaxed);
            let (reply, answer) = oneshot::channel();
            let expect = Command::Expect { number, reply };
            session.commands.send(expect).await.map_err(|_| gone())?;
            drop(session);
            let method = Cow::Owned(method.to_owned());
            let message = Message::Request { id: Id::Number(number), method, params };
            self.say.send(message).await.map_err(|_| gone())?;
            let mut asked = Open { say: &self.say, number: Some(number) };
            let answer = answer.await;
            asked.number = None;
            answer.map_err(|_| gone())?
        })
    }
}

/// A question that the client has been asked. Dropped unanswered, the client is told that nobody wants to know any more.
struct Open<'a> {
    say: &'a mpsc::Sender<Message>,
    number: Option<u64>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let params = Payload::from_json(format!("{{\"requestId\":{number}}}").into());
            let method = Cow::Borrowed("notifications/cancelled");
            let message = Message::Notification { method, params: Some(params) };
            let _no_room_or_gone = self.say.try_send(message);
        }
    }
}

/// The task behind a session.
pub(super) struct SessionTask {
    session: Arc<Session>,
    relay: Arc<Relay>,
    commands: mpsc::Receiver<Command>,
    /// What is said outside of requests, and who says it.
    asides: mpsc::Receiver<Message>,
    _owner: Arc<Attendant>,
    streams: BTreeMap<u64, Stream>,
    last_stream: u64,
    expected: HashMap<u64, oneshot::Sender<Outcome>>,
    works: JoinSet<Id>,
    by_id: HashMap<Id, (AbortHandle, u64)>,
    /// Questions that were called off before they had a stream.
    early: VecDeque<Id>,
    lists: ListWatch,
    followed: Followed,
    idle: Duration,
    end: watch::Receiver<bool>,
    ending: watch::Receiver<bool>,
}

impl fmt::Debug for SessionTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionTask({})", self.session.id)
    }
}

/// What was sent on a stream lately, and who reads it.
#[derive(Debug, Default)]
struct Stream {
    next: u64,
    kept: VecDeque<(u64, Bytes)>,
    bytes: usize,
    reader: Option<mpsc::Sender<Bytes>>,
    /// What nobody has read yet begins here.
    unread: u64,
    is_over: bool,
}

impl SessionTask {
    pub(super) fn new(
        id: String,
        guest: Arc<Guest>,
        version: &str,
        (relay, idle, ending): (Arc<Relay>, Duration, watch::Receiver<bool>),
    ) -> (Arc<Session>, SessionTask) {
        let (commands, from_requests) = mpsc::channel(COMMANDS);
        let (end, ended) = watch::channel(false);
        let session = Arc::new(Session {
            id,
            guest,
            version: version.to_owned(),
            commands,
            numbers: AtomicU64::new(1),
            visits: AtomicU64::new(0),
            end,
        });
        let (say, asides) = mpsc::channel(ASIDES);
        let outlet = Arc::new(SessionOutlet { session: Arc::downgrade(&session), say });
        let owner = Arc::new(Attendant::new(session.guest.clone(), outlet));
        session.guest.set_owner(&owner);
        let lists = ListWatch::new(&relay);
        let task = SessionTask {
            session: session.clone(),
            relay,
            commands: from_requests,
            asides,
            _owner: owner,
            streams: BTreeMap::new(),
            last_stream: STANDING,
            expected: HashMap::new(),
            works: JoinSet::new(),
            by_id: HashMap::new(),
            early: VecDeque::new(),
            lists,
            followed: Followed::default(),
            idle,
            end: ended,
            ending,
        };
        (session, task)
    }

    /// Runs until the session is over. Says which it was.
    pub(super) async fn run(mut self) -> String {
        let mut breaths = interval(BREATH);
        breaths.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet_since = (Instant::now(), 0);
        loop {
            tokio::select! {
                Some(command) = self.commands.recv() => self.obey(command).await,
                Some(changed) = self.lists.next() => {
                    changed.into_iter().for_each(|it| self.emit(STANDING, &bare(it)));
                }
                uri = self.followed.next() => self.emit(STANDING, &updated(&uri)),
                Some(message) = self.asides.recv() => self.emit(STANDING, &message),
                Some(over) = self.works.join_next() => {
                    if let Ok(id) = over {
                        self.by_id.remove(&id);
                    }
                }
                _ = breaths.tick() => {
                    let is_used = self.breathe() || !self.works.is_empty();
                    let visits = self.session.visits.load(Ordering::Relaxed);
                    if is_used || visits != quiet_since.1 {
                        quiet_since = (Instant::now(), visits);
                    } else if quiet_since.0.elapsed() >= self.idle {
                        break;
                    }
                }
                () = told(&mut self.end) => break,
                () = told(&mut self.ending) => {
                    self.drain().await;
                    break;
                }
            }
        }
        self.works.shutdown().await;
        self.relay.left(&self.session.guest).await;
        self.session.id.clone()
    }

    /// We are ending: what is under way may finish, within the time that connections have.
    async fn drain(&mut self) {
        self.streams.remove(&STANDING);
        let deadline = Instant::now() + super::DRAIN;
        while !self.works.is_empty() {
            tokio::select! {
                Some(command) = self.commands.recv() => self.obey(command).await,
                Some(over) = self.works.join_next() => {
                    if let Ok(id) = over {
                        self.by_id.remove(&id);
                    }
                }
                () = sleep_until(deadline) => return,
            }
        }
        while let Ok(command) = self.commands.try_recv() {
            self.obey(command).await;
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Promote { id, reply, .. } if self.was_called_off(&id) => {
                // A stream that is over before it begins: what was called off has no answer.
                let _client_gone = reply.send(mpsc::channel(1).1);
            }
            Command::Promote { id, work, notes, first, reply } => {
                let (stream, reader) = self.open_stream();
                if let Some(first) = &first {
                    self.emit(stream, first);
                }
                self.start(stream, id, work, notes);
                let _client_gone = reply.send(reader);
            }
            Command::Resume { last, reply } => {
                let _client_gone = reply.send(self.resume(&last));
            }
            Command::Stand { reply } => {
                let _client_gone = reply.send(self.attach(STANDING, None));
            }
            Command::Emit { stream, message } => self.emit(stream, &message),
            Command::Finish { stream, id, outcome } => {
                self.by_id.remove(&id);
                self.emit(stream, &Message::Answer { id: Some(id), outcome });
                self.close(stream);
            }
            Command::Expect { number, reply } => {
                self.expected.retain(|_, it| !it.is_closed());
                self.expected.insert(number, reply);
            }
            Command::Answered { id, outcome } => {
                if let Id::Number(number) = id
                    && let Some(reply) = self.expected.remove(&number)
                {
                    let _no_longer_wanted = reply.send(outcome);
                }
            }
            Command::Cancel { id } => {
                if let Some((task, stream)) = self.by_id.remove(&id) {
                    task.abort();
                    self.close(stream);
                } else {
                    self.early.push_back(id);
                    if self.early.len() > EARLY {
                        self.early.pop_front();
                    }
                }
            }
            Command::Follow { uri, reply } => {
                let _client_gone =
                    reply.send(self.followed.follow(&self.relay, &self.session.guest, &uri).await);
            }
            Command::Forget { uri } => self.followed.forget(&uri),
        }
    }

    /// Was a question called off before it had a stream?
    fn was_called_off(&mut self, id: &Id) -> bool {
        let before = self.early.len();
        self.early.retain(|it| it != id);
        self.early.len() < before
    }

    /// Works on, and sends what comes of it through the task, so that it is kept.
    fn start(&mut self, stream: u64, id: Id, work: Work, notes: mpsc::Receiver<Message>) {
        let commands = self.session.commands.clone();
        let key = id.clone();
        let task = self.works.spawn(async move {
            let emit = |message| {
                let emitted = commands.send(Command::Emit { stream, message });
                async move { drop(emitted.await) }
            };
            let outcome = told_before(work, notes, emit).await;
            let finish = Command::Finish { stream, id: id.clone(), outcome };
            let _over = commands.send(finish).await;
            id
        });
        self.by_id.insert(key, (task, stream));
    }

    fn open_stream(&mut self) -> (u64, mpsc::Receiver<Bytes>) {
        self.last_stream += 1;
        let number = self.last_stream;
        let over: Vec<u64> =
            self.streams.iter().filter(|it| it.1.is_over).map(|it| *it.0).collect();
        for number in over.iter().take(over.len().saturating_sub(KEPT_STREAMS)) {
            self.streams.remove(number);
        }
        (number, self.attach(number, None))
    }

    /// A reader for a stream, from after an event on. It is told first how to come back.
    fn attach(&mut self, number: u64, after: Option<u64>) -> mpsc::Receiver<Bytes> {
        let stream = self.streams.entry(number).or_default();
        let missed = after.map_or(0, |after| stream.kept.iter().filter(|it| it.0 > after).count());
        // What was missed fits besides what is to come, or the stream would have a hole.
        let (sender, reader) = mpsc::channel(EVENTS + missed);
        match after {
            None => {
                let id = name(number, stream.next);
                stream.next += 1;
                let _there_is_room = sender.try_send(first_event(&id));
                let unread = stream.unread;
                for (_, bytes) in stream.kept.iter().filter(|it| it.0 >= unread) {
                    let _as_much_as_fits = sender.try_send(bytes.clone());
                }
                stream.unread = stream.next;
            }
            Some(after) => {
                for (_, bytes) in stream.kept.iter().filter(|it| it.0 > after) {
                    let _there_is_room = sender.try_send(bytes.clone());
                }
            }
        }
        stream.reader = (!stream.is_over).then_some(sender);
        reader
    }

    fn resume(&mut self, last: &str) -> Option<mpsc::Receiver<Bytes>> {
        let (number, after) = last.split_once('-')?;
        let (number, after) = (number.parse().ok()?, after.parse().ok()?);
        let stream = self.streams.get(&number)?;
        (after < stream.next).then(|| self.attach(number, Some(after)))
    }

    fn emit(&mut self, number: u64, message: &Message) {
        let is_standing = number == STANDING;
        let stream = match is_standing {
            true => self.streams.entry(number).or_default(),
            false => match self.streams.get_mut(&number) {
                Some(stream) => stream,
                None => return,
            },
        };
        let at = stream.next;
        stream.next += 1;
        let bytes = event(Some(&name(number, at)), message);
        if let Some(reader) = &stream.reader {
            match reader.try_send(bytes.clone()) {
                Ok(()) => stream.unread = stream.next,
                Err(_) => stream.reader = None,
            }
        }
        stream.bytes += bytes.len();
        stream.kept.push_back((at, bytes));
        while stream.kept.len() > KEPT_EVENTS {
            stream.forget_oldest();
        }
        self.keep_little();
    }

    /// What is kept has a bound; those streams that are over go first, then what was sent first.
    fn keep_little(&mut self) {
        let mut all: usize = self.streams.values().map(|it| it.bytes).sum();
        while all > KEPT_BYTES {
            let over =
                self.streams.iter().find(|it| it.1.is_over && it.1.bytes > 0).map(|it| *it.0);
            let largest = self.streams.iter().max_by_key(|it| it.1.bytes).map(|it| *it.0);
            let Some(number) = over.or(largest) else { return };
            let Some(stream) = self.streams.get_mut(&number) else { return };
            let before = stream.bytes;
            stream.forget_oldest();
            all -= before - stream.bytes;
            if before == stream.bytes {
                return;
            }
        }
    }

    fn close(&mut self, number: u64) {
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.reader = None;
            stream.is_over = true;
        }
    }

    /// Keeps streams open on which nothing happens. Says whether anybody reads one.
    fn breathe(&mut self) -> bool {
        let mut is_read = false;
        for stream in self.streams.values_mut() {
            if let Some(reader) = &stream.reader {
                match reader.try_send(breath()) {
                    Ok(()) => is_read = true,
                    Err(mpsc::error::TrySendError::Full(_)) => is_read = true,
                    Err(mpsc::error::TrySendError::Closed(_)) => stream.reader = None,
                }
            }
        }
        is_read
    }
}

impl Stream {
    fn forget_oldest(&mut self) {
        if let Some((_, bytes)) = self.kept.pop_front() {
            self.bytes -= bytes.len();
        }
    }
}

/// What an event is called.
fn name(stream: u64, event: u64) -> String {
    format!("{stream}-{event}")
}

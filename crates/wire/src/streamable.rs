//! Messages over HTTP as MCP's streamable transport has it: each message is a POST, answers come back as JSON
//! or as a stream of events. Both eras are spoken; which one is learned from the messages themselves.
//! One POST is `exchange`'s work, the stream that the server opens with us is `standing`'s.

mod exchange;
mod listen;
mod post;
mod shortcut;
mod standing;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep, timeout};

use crate::link::{CloseReason, FastPath, OutgoingMessage, Transport, TransportEvent};
use crate::message::{Message, Payload, RequestId};
use crate::network::{HttpClient, HttpRequest, Target, Via};
use crate::together::{FutureKey, FuturesSet};
use post::{Post, PostKind, RequestLifetime, cancelled_id};
use shortcut::{Handoff, HttpFastPath};

const SESSION_ID_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID_HEADER: HeaderName = HeaderName::from_static("last-event-id");

/// How many things that arrived may wait until the peer takes them; streams are read no further then.
const UPDATE_QUEUE: usize = 64;
/// How long everything else waits for the server to hear that we are initialized.
const INITIALIZED_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the last notifications and answers may take to leave, and the goodbye after them.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// A link to a server at a URL. Dropping it drops every exchange that is under way.
pub struct StreamableHttpTransport {
    context: Arc<Endpoint>,
    /// The way past us, and what was handed over on it.
    direct: Arc<HttpFastPath>,
    handoffs: mpsc::Receiver<Handoff>,
    /// What every POST has among its headers.
    prepared: HeaderMap,
    era: ProtocolState,
    exchanges: FuturesSet<Completion>,
    live: HashMap<RequestId, InFlightRequest>,
    get_stream: Option<FutureKey>,
    /// What waits until the server knows that we are initialized. The peer stops pushing when it is too much.
    held: VecDeque<Post>,
    hold: Option<Pin<Box<Sleep>>>,
    say: mpsc::Sender<ExchangeUpdate>,
    updates: mpsc::Receiver<ExchangeUpdate>,
    /// What arrived in one go with something else.
    ready: VecDeque<TransportEvent>,
    load: usize,
    /// How many notifications and answers are under way.
    telling: usize,
}

/// What every exchange needs to know.
struct Endpoint {
    network: HttpClient,
    target: Target,
}

/// Which protocol a message or a server speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProtocolState {
    /// Every question says all about itself.
    Modern,
    /// There is a session, which began with `initialize`.
    Legacy {
        /// The server's name for it, where it has one.
        session: Option<HeaderValue>,
    },
    /// Nobody knows yet.
    Unknown,
}

/// A question under way.
struct InFlightRequest {
    key: FutureKey,
    lifetime: RequestLifetime,
    load: usize,
}

/// What an exchange says before it is over.
enum ExchangeUpdate {
    Event(TransportEvent),
    /// What the answer to `initialize` taught.
    SessionStarted {
        session: Option<HeaderValue>,
        version: Option<HeaderValue>,
    },
}

/// What has ended.
enum Completion {
    Exchange {
        purpose: PostKind,
        load: usize,
        arrival: Option<TransportEvent>,
    },
    /// The server does not want to speak by itself.
    GetStream,
}

impl StreamableHttpTransport {
    /// A link. It connects when the first message is pushed.
    pub fn new(network: HttpClient, target: Target) -> StreamableHttpTransport {
        let mut prepared = target.headers.clone();
        let json = HeaderValue::from_static("application/json");
        let both = HeaderValue::from_static("application/json, text/event-stream");
        prepared.insert(header::CONTENT_TYPE, json);
        prepared.insert(header::ACCEPT, both);
        let (say, updates) = mpsc::channel(UPDATE_QUEUE);
        let context = Arc::new(Endpoint { network, target });
        let (direct, handoffs) = HttpFastPath::new(context.clone());
        StreamableHttpTransport {
            context,
            direct,
            handoffs,
            prepared,
            era: ProtocolState::Unknown,
            exchanges: FuturesSet::new(),
            live: HashMap::new(),
            get_stream: None,
            held: VecDeque::new(),
            hold: None,
            say,
            updates,
            ready: VecDeque::new(),
            load: 0,
            telling: 0,
        }
    }

    fn start_exchange(&mut self, post: Post) {
        let load = post.load();
        let question = match &post.purpose {
            PostKind::Initialize(id) => Some((id.clone(), RequestLifetime::Session)),
            PostKind::Request(id, lifetime) => Some((id.clone(), *lifetime)),
            PostKind::Initialized => {
                self.hold = Some(Box::pin(sleep(INITIALIZED_TIMEOUT)));
                self.direct.close();
                None
            }
            PostKind::OneWay => None,
        };
        let run = exchange::run(self.context.clone(), post, self.say.clone());
        self.track(run, question, load);
    }

    fn track(
        &mut self,
        run: impl Future<Output = Completion> + Send + 'static,
        question: Option<(RequestId, RequestLifetime)>,
        load: usize,
    ) {
        let key = self.exchanges.insert(run);
        match question {
            Some((id, lifetime)) => {
                self.insert_in_flight(id, InFlightRequest { key, lifetime, load })
            }
            None => self.telling += 1,
        }
    }

    /// Ids are the peer's to keep apart. Where it does not, the last question of a name is the one that counts.
    fn insert_in_flight(&mut self, id: RequestId, live: InFlightRequest) {
        if let Some(last) = self.live.insert(id, live) {
            self.exchanges.remove(last.key);
            self.load -= last.load;
        }
    }

    /// Goes on with what came back as more than an answer.
    fn continue_handoff(&mut self, handed: Handoff) {
        let Handoff { id, lifetime, load, .. } = &handed;
        let (question, load) = ((id.clone(), *lifetime), *load);
        self.load += load;
        let run = exchange::continue_handoff(self.context.clone(), handed, self.say.clone());
        self.track(run, Some(question), load);
    }

    /// Says under which headers questions may go past us, where they may.
    fn update_fast_path(&self) {
        match (&self.hold, &self.era) {
            (None, ProtocolState::Modern | ProtocolState::Legacy { .. }) => {
                self.direct.open(&self.prepared)
            }
            (Some(_), _) | (None, ProtocolState::Unknown) => self.direct.close(),
        }
    }

    /// Lets go what was held, up to the next thing that holds the rest.
    fn release_queued(&mut self) {
        self.hold = None;
        self.update_fast_path();
        while self.hold.is_none()
            && let Some(post) = self.held.pop_front()
        {
            self.start_exchange(post);
        }
    }

    /// A new session knows nothing of the last one.
    fn reset_session(&mut self) {
        self.era = ProtocolState::Unknown;
        self.prepared.remove(SESSION_ID_HEADER);
        self.prepared.remove(PROTOCOL_VERSION_HEADER);
        self.direct.close();
        if let Some(standing) = self.get_stream.take() {
            self.exchanges.remove(standing);
        }
    }

    fn on_update(&mut self, said: ExchangeUpdate) {
        match said {
            ExchangeUpdate::Event(arrival) => self.ready.push_back(arrival),
            ExchangeUpdate::SessionStarted { session, version } => {
                if let Some(session) = &session {
                    self.prepared.insert(SESSION_ID_HEADER, session.clone());
                }
                if let Some(version) = version {
                    self.prepared.insert(PROTOCOL_VERSION_HEADER, version);
                }
                // The way past this task stays closed: no call may overtake the word that we are initialized.
                self.era = ProtocolState::Legacy { session };
            }
        }
    }

    fn complete(&mut self, done: Completion) {
        // What an exchange said on its way comes before its end.
        while let Ok(said) = self.updates.try_recv() {
            self.on_update(said);
        }
        let Completion::Exchange { purpose, load, arrival } = done else {
            self.get_stream = None;
            return;
        };
        match &purpose {
            PostKind::Initialize(id) | PostKind::Request(id, _) => {
                self.live.remove(id);
            }
            PostKind::Initialized => {
                self.telling -= 1;
                if arrival.is_none() {
                    self.open_get_stream();
                }
                self.release_queued();
            }
            PostKind::OneWay => self.telling -= 1,
        }
        self.load -= load;
        self.ready.extend(arrival);
    }

    /// Opens the stream on which the server speaks by itself.
    fn open_get_stream(&mut self) {
        if !matches!(self.era, ProtocolState::Legacy { .. }) || self.get_stream.is_some() {
            return;
        }
        let run = standing::run(self.context.clone(), self.prepared.clone(), self.say.clone());
        self.get_stream = Some(self.exchanges.insert(run));
    }

    /// Calls a question off. Says whether the server is to be told, too.
    fn cancel(&mut self, params: Option<&Payload>) -> CancelAction {
        while let Ok(handed) = self.handoffs.try_recv() {
            self.continue_handoff(handed);
        }
        let Some(id) = params.and_then(cancelled_id) else { return CancelAction::NotifyServer };
        let is_it = |post: &Post| matches!(&post.purpose, PostKind::Initialize(it) | PostKind::Request(it, _) if *it == id);
        if let Some(position) = self.held.iter().position(is_it) {
            let post = self.held.remove(position);
            self.load -= post.map_or(0, |post| post.load());
            return CancelAction::DropOnly;
        }
        let Some(live) = self.live.remove(&id) else {
            return match self.era {
                ProtocolState::Legacy { .. } => CancelAction::NotifyServer,
                ProtocolState::Modern | ProtocolState::Unknown => CancelAction::DropOnly,
            };
        };
        self.exchanges.remove(live.key);
        self.load -= live.load;
        match live.lifetime {
            RequestLifetime::Stream => CancelAction::DropOnly,
            RequestLifetime::Session => CancelAction::NotifyServer,
        }
    }

    fn poll_event(&mut self, task: &mut Task<'_>) -> Poll<TransportEvent> {
        loop {
            if let Some(arrival) = self.ready.pop_front() {
                return Poll::Ready(arrival);
            }
            if let Poll::Ready(done) = self.exchanges.poll(task) {
                self.complete(done);
                continue;
            }
            if let Poll::Ready(Some(handed)) = self.handoffs.poll_recv(task) {
                self.continue_handoff(handed);
                continue;
            }
            if let Poll::Ready(Some(said)) = self.updates.poll_recv(task) {
                self.on_update(said);
                continue;
            }
            if let Some(hold) = &mut self.hold
                && hold.as_mut().poll(task).is_ready()
            {
                self.release_queued();
                continue;
            }
            return Poll::Pending;
        }
    }

    /// Tells the server that its session is over, where there is one. What it thinks of that is its own affair.
    async fn delete_session(&mut self) {
        let ProtocolState::Legacy { session: Some(_) } = &self.era else { return };
        let Endpoint { network, target } = &*self.context;
        let mut headers = self.prepared.clone();
        headers.remove(header::CONTENT_TYPE);
        let url = Cow::Borrowed(&target.url);
        let mut request = HttpRequest { method: Method::DELETE, url, headers, body: Bytes::new() };
        let _whatever_it_says = target.send(network, &mut request, Via::Http).await;
    }
}

impl Transport for StreamableHttpTransport {
    const CARRIES_HEADERS: bool = true;

    fn fast_path(&self) -> Option<Arc<dyn FastPath>> {
        Some(self.direct.clone())
    }

    fn push(&mut self, outgoing: OutgoingMessage) {
        if let Message::Notification { method, params } = &outgoing.message
            && method == "notifications/cancelled"
            && self.cancel(params.as_ref()) == CancelAction::DropOnly
        {
            return;
        }
        let purpose = PostKind::from_message(&outgoing);
        match &purpose {
            PostKind::Initialize(_) => self.reset_session(),
            PostKind::Request(_, RequestLifetime::Stream) if self.era != ProtocolState::Modern => {
                self.era = ProtocolState::Modern;
                self.update_fast_path();
            }
            PostKind::Request(_, RequestLifetime::Stream) => {}
            PostKind::Request(_, RequestLifetime::Session)
            | PostKind::Initialized
            | PostKind::OneWay => {}
        }
        let post = Post::new(purpose, &self.prepared, outgoing);
        self.load += post.load();
        match self.hold {
            Some(_) => self.held.push_back(post),
            None => self.start_exchange(post),
        }
    }

    fn queued_bytes(&self) -> usize {
        self.load
    }

    async fn shutdown(&mut self) {
        while !self.held.is_empty() {
            self.release_queued();
        }
        let told = poll_fn(|task| {
            // Arrivals are for nobody now.
            while self.telling > 0 && self.poll_event(task).is_ready() {}
            match self.telling {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        });
        let _server_slow = timeout(DRAIN_TIMEOUT, told).await;
        let _server_slow = timeout(DELETE_TIMEOUT, self.delete_session()).await;
    }

    async fn next(&mut self) -> Result<TransportEvent, CloseReason> {
        // It never ends by itself: there is no connection to lose, only exchanges.
        Ok(poll_fn(|task| self.poll_event(task)).await)
    }
}

impl fmt::Debug for StreamableHttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLink")
            .field("target", &self.context.target)
            .field("live", &self.live.len())
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

/// Whether the server hears that a question is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CancelAction {
    DropOnly,
    NotifyServer,
}

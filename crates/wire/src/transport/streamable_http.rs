//! Messages over HTTP as MCP's streamable transport has it: each message is a POST, answers come back as JSON
//! or as a stream of events. Both eras are spoken; which one is learned from the messages themselves.
//! One POST is `exchange`'s work, the stream that the server opens with us is `get_stream`'s.

mod exchange;
mod fast_path;
mod get_stream;
mod post;
mod resume;

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

use crate::futures_set::{FutureKey, FuturesSet};
use crate::http::client::HttpClient;
use crate::http::request::HttpRequest;
use crate::http::send::{Endpoint, Via};
use crate::http::target::Target;
use crate::jsonrpc::message::{Message, Payload, RequestId};
use crate::protocol::headers::PROTOCOL_VERSION_HEADER;
use crate::transport::{CloseReason, FastPath, OutgoingMessage, Transport, TransportEvent};
use fast_path::{Handoff, HttpFastPath};
use post::{Post, PostKind, RequestLifetime, cancelled_id};

const SESSION_ID_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
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
    endpoint: Arc<Endpoint>,
    /// The way past us, and what was handed over on it.
    fast_path: Arc<HttpFastPath>,
    handoffs: mpsc::Receiver<Handoff>,
    /// What every POST has among its headers.
    base_headers: HeaderMap,
    protocol: ProtocolState,
    exchanges: FuturesSet<Completion>,
    in_flight: HashMap<RequestId, InFlightRequest>,
    get_stream: Option<FutureKey>,
    /// What waits until the server knows that we are initialized. The peer stops pushing when it is too much.
    queued_posts: VecDeque<Post>,
    initialized_wait: Option<Pin<Box<Sleep>>>,
    update_sender: mpsc::Sender<ExchangeUpdate>,
    updates: mpsc::Receiver<ExchangeUpdate>,
    /// What arrived in one go with something else.
    ready_events: VecDeque<TransportEvent>,
    load: usize,
    /// How many notifications and answers are under way.
    one_way_in_flight: usize,
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
        kind: PostKind,
        load: usize,
        event: Option<TransportEvent>,
    },
    /// The server does not want to speak by itself.
    GetStream,
}

impl StreamableHttpTransport {
    /// A link. It connects when the first message is pushed.
    pub fn new(client: HttpClient, target: Target) -> StreamableHttpTransport {
        let mut base_headers = target.headers.clone();
        let json = HeaderValue::from_static("application/json");
        let both = HeaderValue::from_static("application/json, text/event-stream");
        base_headers.insert(header::CONTENT_TYPE, json);
        base_headers.insert(header::ACCEPT, both);
        let (update_sender, updates) = mpsc::channel(UPDATE_QUEUE);
        let endpoint = Arc::new(Endpoint { client, target });
        let (fast_path, handoffs) = HttpFastPath::new(endpoint.clone());
        StreamableHttpTransport {
            endpoint,
            fast_path,
            handoffs,
            base_headers,
            protocol: ProtocolState::Unknown,
            exchanges: FuturesSet::new(),
            in_flight: HashMap::new(),
            get_stream: None,
            queued_posts: VecDeque::new(),
            initialized_wait: None,
            update_sender,
            updates,
            ready_events: VecDeque::new(),
            load: 0,
            one_way_in_flight: 0,
        }
    }

    fn start_exchange(&mut self, post: Post) {
        let load = post.load();
        let request_key = match &post.kind {
            PostKind::Initialize(id) => Some((id.clone(), RequestLifetime::Session)),
            PostKind::Request(id, lifetime) => Some((id.clone(), *lifetime)),
            PostKind::Initialized => {
                self.initialized_wait = Some(Box::pin(sleep(INITIALIZED_TIMEOUT)));
                self.fast_path.close();
                None
            }
            PostKind::OneWay => None,
        };
        let run = exchange::run(self.endpoint.clone(), post, self.update_sender.clone());
        self.track(run, request_key, load);
    }

    fn track(
        &mut self,
        run: impl Future<Output = Completion> + Send + 'static,
        request_key: Option<(RequestId, RequestLifetime)>,
        load: usize,
    ) {
        let key = self.exchanges.insert(run);
        match request_key {
            Some((id, lifetime)) => {
                self.insert_in_flight(id, InFlightRequest { key, lifetime, load })
            }
            None => self.one_way_in_flight += 1,
        }
    }

    /// Ids are the peer's to keep apart. Where it does not, the last question of a name is the one that counts.
    fn insert_in_flight(&mut self, id: RequestId, in_flight: InFlightRequest) {
        if let Some(last) = self.in_flight.insert(id, in_flight) {
            self.exchanges.remove(last.key);
            self.load -= last.load;
        }
    }

    /// Goes on with what came back as more than an answer.
    fn continue_handoff(&mut self, handoff: Handoff) {
        let Handoff { id, lifetime, load, .. } = &handoff;
        let (request_key, load) = ((id.clone(), *lifetime), *load);
        self.load += load;
        let run =
            exchange::continue_handoff(self.endpoint.clone(), handoff, self.update_sender.clone());
        self.track(run, Some(request_key), load);
    }

    /// Says under which headers questions may go past us, where they may.
    fn update_fast_path(&self) {
        match (&self.initialized_wait, &self.protocol) {
            (None, ProtocolState::Modern | ProtocolState::Legacy { .. }) => {
                self.fast_path.open(&self.base_headers)
            }
            (Some(_), _) | (None, ProtocolState::Unknown) => self.fast_path.close(),
        }
    }

    /// Lets go what was held, up to the next thing that holds the rest.
    fn release_queued(&mut self) {
        self.initialized_wait = None;
        self.update_fast_path();
        while self.initialized_wait.is_none()
            && let Some(post) = self.queued_posts.pop_front()
        {
            self.start_exchange(post);
        }
    }

    /// A new session knows nothing of the last one.
    fn reset_session(&mut self) {
        self.protocol = ProtocolState::Unknown;
        self.base_headers.remove(SESSION_ID_HEADER);
        self.base_headers.remove(PROTOCOL_VERSION_HEADER);
        self.fast_path.close();
        if let Some(get_stream) = self.get_stream.take() {
            self.exchanges.remove(get_stream);
        }
    }

    fn on_update(&mut self, update: ExchangeUpdate) {
        match update {
            ExchangeUpdate::Event(event) => self.ready_events.push_back(event),
            ExchangeUpdate::SessionStarted { session, version } => {
                if let Some(session) = &session {
                    self.base_headers.insert(SESSION_ID_HEADER, session.clone());
                }
                if let Some(version) = version {
                    self.base_headers.insert(PROTOCOL_VERSION_HEADER, version);
                }
                // The way past this task stays closed: no call may overtake the word that we are initialized.
                self.protocol = ProtocolState::Legacy { session };
            }
        }
    }

    fn complete(&mut self, done: Completion) {
        // What an exchange said on its way comes before its end.
        while let Ok(update) = self.updates.try_recv() {
            self.on_update(update);
        }
        let Completion::Exchange { kind, load, event } = done else {
            self.get_stream = None;
            return;
        };
        match &kind {
            PostKind::Initialize(id) | PostKind::Request(id, _) => {
                self.in_flight.remove(id);
            }
            PostKind::Initialized => {
                self.one_way_in_flight -= 1;
                if event.is_none() {
                    self.open_get_stream();
                }
                self.release_queued();
            }
            PostKind::OneWay => self.one_way_in_flight -= 1,
        }
        self.load -= load;
        self.ready_events.extend(event);
    }

    /// Opens the stream on which the server speaks by itself.
    fn open_get_stream(&mut self) {
        if !matches!(self.protocol, ProtocolState::Legacy { .. }) || self.get_stream.is_some() {
            return;
        }
        let run = get_stream::run(
            self.endpoint.clone(),
            self.base_headers.clone(),
            self.update_sender.clone(),
        );
        self.get_stream = Some(self.exchanges.insert(run));
    }

    /// Calls a question off. Says whether the server is to be told, too.
    fn cancel(&mut self, params: Option<&Payload>) -> CancelAction {
        while let Ok(handoff) = self.handoffs.try_recv() {
            self.continue_handoff(handoff);
        }
        let Some(id) = params.and_then(cancelled_id) else { return CancelAction::NotifyServer };
        let is_it = |post: &Post| matches!(&post.kind, PostKind::Initialize(it) | PostKind::Request(it, _) if *it == id);
        if let Some(position) = self.queued_posts.iter().position(is_it) {
            let post = self.queued_posts.remove(position);
            self.load -= post.map_or(0, |post| post.load());
            return CancelAction::DropOnly;
        }
        let Some(in_flight) = self.in_flight.remove(&id) else {
            return match self.protocol {
                ProtocolState::Legacy { .. } => CancelAction::NotifyServer,
                ProtocolState::Modern | ProtocolState::Unknown => CancelAction::DropOnly,
            };
        };
        self.exchanges.remove(in_flight.key);
        self.load -= in_flight.load;
        match in_flight.lifetime {
            RequestLifetime::Stream => CancelAction::DropOnly,
            RequestLifetime::Session => CancelAction::NotifyServer,
        }
    }

    fn poll_event(&mut self, task: &mut Task<'_>) -> Poll<TransportEvent> {
        loop {
            if let Some(event) = self.ready_events.pop_front() {
                return Poll::Ready(event);
            }
            if let Poll::Ready(done) = self.exchanges.poll(task) {
                self.complete(done);
                continue;
            }
            if let Poll::Ready(Some(handoff)) = self.handoffs.poll_recv(task) {
                self.continue_handoff(handoff);
                continue;
            }
            if let Poll::Ready(Some(update)) = self.updates.poll_recv(task) {
                self.on_update(update);
                continue;
            }
            if let Some(initialized_wait) = &mut self.initialized_wait
                && initialized_wait.as_mut().poll(task).is_ready()
            {
                self.release_queued();
                continue;
            }
            return Poll::Pending;
        }
    }

    /// Tells the server that its session is over, where there is one. What it thinks of that is its own affair.
    async fn delete_session(&mut self) {
        let ProtocolState::Legacy { session: Some(_) } = &self.protocol else { return };
        let mut headers = self.base_headers.clone();
        headers.remove(header::CONTENT_TYPE);
        let url = Cow::Borrowed(&self.endpoint.target.url);
        let mut request = HttpRequest { method: Method::DELETE, url, headers, body: Bytes::new() };
        let _whatever_it_says = self.endpoint.send(&mut request, Via::Http).await;
    }
}

impl Transport for StreamableHttpTransport {
    const CARRIES_HEADERS: bool = true;

    fn fast_path(&self) -> Option<Arc<dyn FastPath>> {
        Some(self.fast_path.clone())
    }

    fn push(&mut self, outgoing: OutgoingMessage) {
        if let Message::Notification { method, params } = &outgoing.message
            && method == "notifications/cancelled"
            && self.cancel(params.as_ref()) == CancelAction::DropOnly
        {
            return;
        }
        let kind = PostKind::from_message(&outgoing);
        match &kind {
            PostKind::Initialize(_) => self.reset_session(),
            PostKind::Request(_, RequestLifetime::Stream)
                if self.protocol != ProtocolState::Modern =>
            {
                self.protocol = ProtocolState::Modern;
                self.update_fast_path();
            }
            PostKind::Request(_, RequestLifetime::Stream) => {}
            PostKind::Request(_, RequestLifetime::Session)
            | PostKind::Initialized
            | PostKind::OneWay => {}
        }
        let post = Post::new(kind, &self.base_headers, outgoing);
        self.load += post.load();
        match self.initialized_wait {
            Some(_) => self.queued_posts.push_back(post),
            None => self.start_exchange(post),
        }
    }

    fn queued_bytes(&self) -> usize {
        self.load
    }

    async fn shutdown(&mut self) {
        while !self.queued_posts.is_empty() {
            self.release_queued();
        }
        let drained = poll_fn(|task| {
            // Arrivals are for nobody now.
            while self.one_way_in_flight > 0 && self.poll_event(task).is_ready() {}
            match self.one_way_in_flight {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        });
        let _server_slow = timeout(DRAIN_TIMEOUT, drained).await;
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
            .field("target", &self.endpoint.target)
            .field("live", &self.in_flight.len())
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

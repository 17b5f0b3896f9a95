//! The streamable HTTP transport: each message is a POST, and responses come back as JSON or as an event stream.
//! Supports both eras; the messages show which one is in use.
//! `exchange` handles one POST, `get_stream` the stream for messages that belong to no request.

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

/// How many updates may wait for the peer; streams are not read further meanwhile.
const UPDATE_QUEUE: usize = 64;
/// How long other messages wait for the server to accept `notifications/initialized`.
const INITIALIZED_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the last notifications and responses may take, and the DELETE after them.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

/// The transport to a server at a URL. Dropping it drops all exchanges in flight.
pub struct StreamableHttpTransport {
    endpoint: Arc<Endpoint>,
    /// Sends requests past this transport, and hands some of them over.
    fast_path: Arc<HttpFastPath>,
    handoffs: mpsc::Receiver<Handoff>,
    /// Headers of every POST.
    base_headers: HeaderMap,
    protocol: ProtocolState,
    exchanges: FuturesSet<Completion>,
    in_flight: HashMap<RequestId, InFlightRequest>,
    get_stream: Option<FutureKey>,
    /// Messages that wait until the server has accepted `notifications/initialized`. Bounded by the peer through
    /// [`Transport::queued_bytes`].
    queued_posts: VecDeque<Post>,
    initialized_wait: Option<Pin<Box<Sleep>>>,
    update_sender: mpsc::Sender<ExchangeUpdate>,
    updates: mpsc::Receiver<ExchangeUpdate>,
    /// Further events of an update.
    ready_events: VecDeque<TransportEvent>,
    load: usize,
    /// How many notifications and responses are in flight.
    one_way_in_flight: usize,
}

/// The protocol that messages and server use.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProtocolState {
    /// Each request is independent.
    Modern,
    /// There is a session, started with `initialize`.
    Legacy {
        /// The session id, if the server assigned one.
        session: Option<HeaderValue>,
    },
    /// No request was sent yet.
    Unknown,
}

/// A request in flight.
struct InFlightRequest {
    key: FutureKey,
    lifetime: RequestLifetime,
    load: usize,
}

/// An event of an exchange before it completes.
enum ExchangeUpdate {
    Event(TransportEvent),
    /// The session that the response to `initialize` started.
    SessionStarted {
        session: Option<HeaderValue>,
        version: Option<HeaderValue>,
    },
}

/// A completed future.
enum Completion {
    Exchange {
        kind: PostKind,
        load: usize,
        event: Option<TransportEvent>,
    },
    /// The server does not offer a stream for its own messages.
    GetStream,
}

impl StreamableHttpTransport {
    /// A transport that connects when the first message is queued.
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

    /// The peer keeps ids unique. If it does not, the newest request with an id replaces the older one.
    fn insert_in_flight(&mut self, id: RequestId, in_flight: InFlightRequest) {
        if let Some(last) = self.in_flight.insert(id, in_flight) {
            self.exchanges.remove(last.key);
            self.load -= last.load;
        }
    }

    /// Continues a request whose response is more than one message.
    fn continue_handoff(&mut self, handoff: Handoff) {
        let Handoff { id, lifetime, load, .. } = &handoff;
        let (request_key, load) = ((id.clone(), *lifetime), *load);
        self.load += load;
        let run =
            exchange::continue_handoff(self.endpoint.clone(), handoff, self.update_sender.clone());
        self.track(run, Some(request_key), load);
    }

    /// Opens the fast path with the current headers, or closes it.
    fn update_fast_path(&self) {
        match (&self.initialized_wait, &self.protocol) {
            (None, ProtocolState::Modern | ProtocolState::Legacy { .. }) => {
                self.fast_path.open(&self.base_headers)
            }
            (Some(_), _) | (None, ProtocolState::Unknown) => self.fast_path.close(),
        }
    }

    /// Sends the queued messages, up to the next one that makes the rest wait.
    fn release_queued(&mut self) {
        self.initialized_wait = None;
        self.update_fast_path();
        while self.initialized_wait.is_none()
            && let Some(post) = self.queued_posts.pop_front()
        {
            self.start_exchange(post);
        }
    }

    /// Forgets the previous session.
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
                // The fast path stays closed: no call may overtake `notifications/initialized`.
                self.protocol = ProtocolState::Legacy { session };
            }
        }
    }

    fn complete(&mut self, done: Completion) {
        // Updates of an exchange precede its completion.
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

    /// Opens the stream for messages that belong to no request.
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

    /// Cancels a request, and returns whether to notify the server as well.
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

    /// Ends the session with a DELETE, if there is one. The response is ignored.
    async fn delete_session(&mut self) {
        let ProtocolState::Legacy { session: Some(_) } = &self.protocol else { return };
        let mut headers = self.base_headers.clone();
        headers.remove(header::CONTENT_TYPE);
        let url = Cow::Borrowed(&self.endpoint.target.url);
        let mut request = HttpRequest { method: Method::DELETE, url, headers, body: Bytes::new() };
        let _ignored = self.endpoint.send(&mut request, Via::Http).await;
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
            // Events are dropped during shutdown.
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
        // There is no connection that could close, only exchanges.
        Ok(poll_fn(|task| self.poll_event(task)).await)
    }
}

impl fmt::Debug for StreamableHttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamableHttpTransport")
            .field("target", &self.endpoint.target)
            .field("in_flight", &self.in_flight.len())
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

/// Whether the server receives the cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CancelAction {
    DropOnly,
    NotifyServer,
}

//! Messages over HTTP as protocol version 2024-11-05 had it: one stream of events for everything that comes,
//! and a POST for everything that goes, to an address that the stream names first.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, header};
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::Url;

use crate::events::SseStream;
use crate::fault::TransportError;
use crate::link::{CloseReason, OutgoingMessage, Transport, TransportEvent};
use crate::message::{Message, RequestId};
use crate::network::{
    ContentKind, HttpClient, HttpRequest, Target, Via, content_kind, drain, is_same_origin,
    not_mcp_error, origin, status_error,
};
use crate::together::FuturesSet;

/// How many things that arrived may wait until the peer takes them; the stream is read no further then.
const UPDATE_QUEUE: usize = 64;
/// How long a message may take to be accepted.
const POST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the server may take to say where messages go.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// What a message counts in [`Link::queued`] beside its bytes, so that small ones are bounded, too.
const MESSAGE_OVERHEAD: usize = 4 * 1024;

/// A link to a server at a URL. Dropping it closes the stream.
pub struct HttpSseTransport {
    context: Arc<Endpoint>,
    /// Opens and reads the stream; there once [`Link::next`] was called, and gone when it is over.
    stream: Stream,
    /// Where messages go, once the server said so.
    endpoint: Option<Arc<Url>>,
    /// What waits for the endpoint. The peer stops pushing when it is too much.
    held: VecDeque<Post>,
    posts: FuturesSet<PostOutcome>,
    /// How many of them are under way.
    posting: usize,
    say: mpsc::Sender<StreamUpdate>,
    updates: mpsc::Receiver<StreamUpdate>,
    ready: VecDeque<TransportEvent>,
    load: usize,
}

struct Endpoint {
    network: HttpClient,
    target: Target,
}

enum Stream {
    NotStarted,
    Running(BoxFuture<'static, CloseReason>),
    Ended(CloseReason),
}

/// A message on its way.
struct Post {
    id: Option<RequestId>,
    body: Bytes,
}

/// A message that was accepted, or was not.
struct PostOutcome {
    load: usize,
    arrival: Option<TransportEvent>,
}

/// What the stream says.
enum StreamUpdate {
    PostUrl(Url),
    Event(TransportEvent),
}

impl HttpSseTransport {
    /// A link. It connects when it is first asked what arrives.
    pub fn new(network: HttpClient, target: Target) -> HttpSseTransport {
        let (say, updates) = mpsc::channel(UPDATE_QUEUE);
        HttpSseTransport {
            context: Arc::new(Endpoint { network, target }),
            stream: Stream::NotStarted,
            endpoint: None,
            held: VecDeque::new(),
            posts: FuturesSet::new(),
            posting: 0,
            say,
            updates,
            ready: VecDeque::new(),
            load: 0,
        }
    }

    fn on_update(&mut self, said: StreamUpdate) {
        match said {
            StreamUpdate::PostUrl(url) => {
                self.endpoint = Some(Arc::new(url));
                while let Some(held) = self.held.pop_front() {
                    self.start_post(held);
                }
            }
            StreamUpdate::Event(arrival) => self.ready.push_back(arrival),
        }
    }

    fn start_post(&mut self, post: Post) {
        match &self.endpoint {
            Some(endpoint) => {
                let run = run_post(self.context.clone(), endpoint.clone(), post);
                self.posts.insert(run);
                self.posting += 1;
            }
            None => self.held.push_back(post),
        }
    }

    fn poll_event(&mut self, task: &mut Task<'_>) -> Poll<Result<TransportEvent, CloseReason>> {
        loop {
            if let Some(arrival) = self.ready.pop_front() {
                return Poll::Ready(Ok(arrival));
            }
            if let Stream::NotStarted = self.stream {
                let run = run_stream(self.context.clone(), self.say.clone());
                self.stream = Stream::Running(Box::pin(run));
            }
            if let Stream::Running(run) = &mut self.stream
                && let Poll::Ready(end) = run.as_mut().poll(task)
            {
                self.stream = Stream::Ended(end);
            }
            if let Poll::Ready(Some(said)) = self.updates.poll_recv(task) {
                self.on_update(said);
                continue;
            }
            // What was said before the end has been heard by now.
            if let Stream::Ended(end) = &self.stream {
                return Poll::Ready(Err(end.clone()));
            }
            match self.posts.poll(task) {
                Poll::Ready(posted) => self.finish_post(posted),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn finish_post(&mut self, posted: PostOutcome) {
        self.posting -= 1;
        self.load -= posted.load;
        self.ready.extend(posted.arrival);
    }
}

impl Transport for HttpSseTransport {
    fn push(&mut self, outgoing: OutgoingMessage) {
        let id = match &outgoing.message {
            Message::Request { id, .. } => Some(id.clone()),
            Message::Notification { .. } | Message::Response { .. } => None,
        };
        let mut body = Vec::with_capacity(256);
        outgoing.message.write_to(&mut body);
        let post = Post { id, body: body.into() };
        self.load += post.load();
        self.start_post(post);
    }

    fn queued_bytes(&self) -> usize {
        self.load
    }

    async fn shutdown(&mut self) {
        while self.posting > 0 {
            let posted = poll_fn(|task| self.posts.poll(task)).await;
            self.finish_post(posted);
        }
    }

    async fn next(&mut self) -> Result<TransportEvent, CloseReason> {
        poll_fn(|task| self.poll_event(task)).await
    }
}

impl Post {
    fn load(&self) -> usize {
        MESSAGE_OVERHEAD + self.body.len()
    }
}

impl fmt::Debug for HttpSseTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseLink")
            .field("target", &self.context.target)
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

/// Reads the stream until it ends.
async fn run_stream(context: Arc<Endpoint>, say: mpsc::Sender<StreamUpdate>) -> CloseReason {
    let begun = match timeout(OPEN_TIMEOUT, open_stream(&context)).await {
        Ok(begun) => begun,
        Err(_) => Err(TransportError::Timeout(OPEN_TIMEOUT)),
    };
    let (mut events, endpoint) = match begun {
        Ok(begun) => begun,
        Err(fault) => return CloseReason::Transport(fault),
    };
    let _link_gone = say.send(StreamUpdate::PostUrl(endpoint)).await;
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return CloseReason::Closed,
            Err(fault) => return CloseReason::Transport(fault),
        };
        for arrival in event.to_transport_events() {
            let _link_gone = say.send(StreamUpdate::Event(arrival)).await;
        }
    }
}

/// Opens the stream and hears where messages go.
async fn open_stream(context: &Endpoint) -> Result<(SseStream, Url), TransportError> {
    let target = &context.target;
    let mut headers = target.headers.clone();
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let url = Cow::Borrowed(&target.url);
    let mut request = HttpRequest { method: Method::GET, url, headers, body: Bytes::new() };
    let response = context.target.send(&context.network, &mut request, Via::Http).await?;
    if !response.status().is_success() {
        return Err(status_error(response).await);
    }
    if content_kind(response.headers()) != ContentKind::EventStream {
        return Err(not_mcp_error(response).await);
    }
    let mut events = SseStream::new(response, target.max_message_size);
    while let Some(event) = events.next().await? {
        if event.name != b"endpoint".as_slice() {
            continue;
        }
        let named = String::from_utf8_lossy(&event.data);
        let content_type = "text/event-stream".to_owned();
        let Ok(endpoint) = request.url.join(named.trim()) else {
            let beginning = "its endpoint is no URL".to_owned();
            return Err(TransportError::NotMcp { content_type, body_prefix: beginning });
        };
        return match is_same_origin(&endpoint, &target.url) {
            true => Ok((events, endpoint)),
            false => Err(TransportError::CrossOriginRedirect { to: origin(&endpoint) }),
        };
    }
    Err(TransportError::IncompleteResponse)
}

async fn run_post(context: Arc<Endpoint>, endpoint: Arc<Url>, post: Post) -> PostOutcome {
    let load = post.load();
    let deliver = deliver(&context, &endpoint, post.body);
    let delivered = match timeout(POST_TIMEOUT, deliver).await {
        Ok(delivered) => delivered,
        Err(_) => Err(TransportError::Timeout(POST_TIMEOUT)),
    };
    let arrival =
        delivered.err().map(|fault| TransportEvent::DeliveryFailed { id: post.id, error: fault });
    PostOutcome { load, arrival }
}

async fn deliver(context: &Endpoint, endpoint: &Url, body: Bytes) -> Result<(), TransportError> {
    let mut headers = context.target.headers.clone();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let url = Cow::Borrowed(endpoint);
    let mut request = HttpRequest { method: Method::POST, url, headers, body };
    let response = context.target.send(&context.network, &mut request, Via::Http).await?;
    if !response.status().is_success() {
        return Err(status_error(response).await);
    }
    drain(response).await;
    Ok(())
}

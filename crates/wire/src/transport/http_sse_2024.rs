//! The HTTP transport of protocol version 2024-11-05: one event stream for received messages, and a POST for each
//! sent one, to a URL that the stream names first.

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

use crate::futures_set::FuturesSet;
use crate::http::body::{ContentKind, content_kind, drain, not_mcp_error, status_error};
use crate::http::client::HttpClient;
use crate::http::origin::{is_same_origin, origin};
use crate::http::request::HttpRequest;
use crate::http::send::{Endpoint, Via};
use crate::http::sse_decoder::SseStream;
use crate::http::target::Target;
use crate::jsonrpc::message::{Message, RequestId};
use crate::transport::{CloseReason, OutgoingMessage, Transport, TransportEvent};
use crate::transport_error::TransportError;

/// How many events may wait for the peer; the stream is not read further meanwhile.
const UPDATE_QUEUE: usize = 64;
/// How long the server may take to accept a message.
const POST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the server may take to name the URL for messages.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// The bytes that a message adds to [`Transport::queued_bytes`] besides its size, so that small messages are
/// bounded, too.
const MESSAGE_OVERHEAD: usize = 4 * 1024;

/// The transport to a server at a URL. Dropping it closes the stream.
pub struct HttpSseTransport {
    endpoint: Arc<Endpoint>,
    /// Opens and reads the stream, from the first call of [`Transport::next`] on.
    stream: Stream,
    /// The URL for messages, once the server has named it.
    post_url: Option<Arc<Url>>,
    /// Messages that wait for the URL. Bounded by the peer through [`Transport::queued_bytes`].
    queued_posts: VecDeque<Post>,
    posts: FuturesSet<PostOutcome>,
    /// How many POSTs are in flight.
    posts_in_flight: usize,
    update_sender: mpsc::Sender<StreamUpdate>,
    updates: mpsc::Receiver<StreamUpdate>,
    ready_events: VecDeque<TransportEvent>,
    load: usize,
}

enum Stream {
    NotStarted,
    Running(BoxFuture<'static, CloseReason>),
    Ended(CloseReason),
}

/// A message to POST.
struct Post {
    id: Option<RequestId>,
    body: Bytes,
}

/// The outcome of a POST.
struct PostOutcome {
    load: usize,
    event: Option<TransportEvent>,
}

/// An event of the stream.
enum StreamUpdate {
    PostUrl(Url),
    Event(TransportEvent),
}

impl HttpSseTransport {
    /// A transport that connects at the first call of [`Transport::next`].
    pub fn new(client: HttpClient, target: Target) -> HttpSseTransport {
        let (update_sender, updates) = mpsc::channel(UPDATE_QUEUE);
        HttpSseTransport {
            endpoint: Arc::new(Endpoint { client, target }),
            stream: Stream::NotStarted,
            post_url: None,
            queued_posts: VecDeque::new(),
            posts: FuturesSet::new(),
            posts_in_flight: 0,
            update_sender,
            updates,
            ready_events: VecDeque::new(),
            load: 0,
        }
    }

    fn on_update(&mut self, update: StreamUpdate) {
        match update {
            StreamUpdate::PostUrl(url) => {
                self.post_url = Some(Arc::new(url));
                while let Some(post) = self.queued_posts.pop_front() {
                    self.start_post(post);
                }
            }
            StreamUpdate::Event(event) => self.ready_events.push_back(event),
        }
    }

    fn start_post(&mut self, post: Post) {
        match &self.post_url {
            Some(post_url) => {
                let run = run_post(self.endpoint.clone(), post_url.clone(), post);
                self.posts.insert(run);
                self.posts_in_flight += 1;
            }
            None => self.queued_posts.push_back(post),
        }
    }

    fn poll_event(&mut self, task: &mut Task<'_>) -> Poll<Result<TransportEvent, CloseReason>> {
        loop {
            if let Some(event) = self.ready_events.pop_front() {
                return Poll::Ready(Ok(event));
            }
            if let Stream::NotStarted = self.stream {
                let run = run_stream(self.endpoint.clone(), self.update_sender.clone());
                self.stream = Stream::Running(Box::pin(run));
            }
            if let Stream::Running(run) = &mut self.stream
                && let Poll::Ready(end) = run.as_mut().poll(task)
            {
                self.stream = Stream::Ended(end);
            }
            if let Poll::Ready(Some(update)) = self.updates.poll_recv(task) {
                self.on_update(update);
                continue;
            }
            // All events before the end have been returned by now.
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
        self.posts_in_flight -= 1;
        self.load -= posted.load;
        self.ready_events.extend(posted.event);
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
        while self.posts_in_flight > 0 {
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
        f.debug_struct("HttpSseTransport")
            .field("target", &self.endpoint.target)
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

/// Reads the stream until it ends.
async fn run_stream(
    endpoint: Arc<Endpoint>,
    update_sender: mpsc::Sender<StreamUpdate>,
) -> CloseReason {
    let opened = match timeout(OPEN_TIMEOUT, open_stream(&endpoint)).await {
        Ok(opened) => opened,
        Err(_) => Err(TransportError::Timeout(OPEN_TIMEOUT)),
    };
    let (mut events, post_url) = match opened {
        Ok(opened) => opened,
        Err(error) => return CloseReason::Transport(error),
    };
    let _transport_gone = update_sender.send(StreamUpdate::PostUrl(post_url)).await;
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return CloseReason::Closed,
            Err(error) => return CloseReason::Transport(error),
        };
        for event in TransportEvent::from_sse(&event) {
            let _transport_gone = update_sender.send(StreamUpdate::Event(event)).await;
        }
    }
}

/// Opens the stream and waits for the URL for messages.
async fn open_stream(endpoint: &Endpoint) -> Result<(SseStream, Url), TransportError> {
    let target = &endpoint.target;
    let mut headers = target.headers.clone();
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let url = Cow::Borrowed(&target.url);
    let mut request = HttpRequest { method: Method::GET, url, headers, body: Bytes::new() };
    let response = endpoint.send(&mut request, Via::Http).await?;
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
        let text = String::from_utf8_lossy(&event.data);
        let content_type = "text/event-stream".to_owned();
        let Ok(post_url) = request.url.join(text.trim()) else {
            let body_prefix = "its endpoint is not a URL".to_owned();
            return Err(TransportError::NotMcp { content_type, body_prefix });
        };
        return match is_same_origin(&post_url, &target.url) {
            true => Ok((events, post_url)),
            false => Err(TransportError::CrossOriginRedirect { to: origin(&post_url) }),
        };
    }
    Err(TransportError::IncompleteResponse)
}

async fn run_post(endpoint: Arc<Endpoint>, post_url: Arc<Url>, post: Post) -> PostOutcome {
    let load = post.load();
    let deliver = deliver(&endpoint, &post_url, post.body);
    let delivered = match timeout(POST_TIMEOUT, deliver).await {
        Ok(delivered) => delivered,
        Err(_) => Err(TransportError::Timeout(POST_TIMEOUT)),
    };
    let event = delivered.err().map(|error| TransportEvent::DeliveryFailed { id: post.id, error });
    PostOutcome { load, event }
}

async fn deliver(endpoint: &Endpoint, post_url: &Url, body: Bytes) -> Result<(), TransportError> {
    let mut headers = endpoint.target.headers.clone();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let url = Cow::Borrowed(post_url);
    let mut request = HttpRequest { method: Method::POST, url, headers, body };
    let response = endpoint.send(&mut request, Via::Http).await?;
    if !response.status().is_success() {
        return Err(status_error(response).await);
    }
    drain(response).await;
    Ok(())
}

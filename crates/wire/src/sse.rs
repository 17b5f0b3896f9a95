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

use crate::events::Events;
use crate::fault::Fault;
use crate::link::{Arrival, Link, LinkEnd, Outgoing};
use crate::message::{Id, Message};
use crate::network::{
    Kind, Network, Request, Target, Via, is_same_origin, kind_of, let_go, origin, refusal, stranger,
};
use crate::together::Together;

/// How many things that arrived may wait until the peer takes them; the stream is read no further then.
const WAITING: usize = 64;
/// How long a message may take to be accepted.
const POSTING: Duration = Duration::from_secs(60);
/// How long the server may take to say where messages go.
const BEGINNING: Duration = Duration::from_secs(60);
/// What a message counts in [`Link::queued`] beside its bytes, so that small ones are bounded, too.
const OVERHEAD: usize = 4 * 1024;

/// A link to a server at a URL. Dropping it closes the stream.
pub struct SseLink {
    context: Arc<Context>,
    /// Opens and reads the stream; there once [`Link::next`] was called, and gone when it is over.
    stream: Stream,
    /// Where messages go, once the server said so.
    endpoint: Option<Arc<Url>>,
    /// What waits for the endpoint. The peer stops pushing when it is too much.
    held: VecDeque<Post>,
    posts: Together<Posted>,
    /// How many of them are under way.
    posting: usize,
    say: mpsc::Sender<Said>,
    said: mpsc::Receiver<Said>,
    ready: VecDeque<Arrival>,
    load: usize,
}

struct Context {
    network: Network,
    target: Target,
}

enum Stream {
    NotYet,
    Running(BoxFuture<'static, LinkEnd>),
    Over(LinkEnd),
}

/// A message on its way.
struct Post {
    id: Option<Id>,
    body: Bytes,
}

/// A message that was accepted, or was not.
struct Posted {
    load: usize,
    arrival: Option<Arrival>,
}

/// What the stream says.
enum Said {
    Endpoint(Url),
    Arrival(Arrival),
}

impl SseLink {
    /// A link. It connects when it is first asked what arrives.
    pub fn new(network: Network, target: Target) -> SseLink {
        let (say, said) = mpsc::channel(WAITING);
        SseLink {
            context: Arc::new(Context { network, target }),
            stream: Stream::NotYet,
            endpoint: None,
            held: VecDeque::new(),
            posts: Together::new(),
            posting: 0,
            say,
            said,
            ready: VecDeque::new(),
            load: 0,
        }
    }

    fn hear(&mut self, said: Said) {
        match said {
            Said::Endpoint(url) => {
                self.endpoint = Some(Arc::new(url));
                while let Some(held) = self.held.pop_front() {
                    self.start(held);
                }
            }
            Said::Arrival(arrival) => self.ready.push_back(arrival),
        }
    }

    fn start(&mut self, post: Post) {
        match &self.endpoint {
            Some(endpoint) => {
                let run = run_post(self.context.clone(), endpoint.clone(), post);
                self.posts.add(run);
                self.posting += 1;
            }
            None => self.held.push_back(post),
        }
    }

    fn poll_arrival(&mut self, task: &mut Task<'_>) -> Poll<Result<Arrival, LinkEnd>> {
        loop {
            if let Some(arrival) = self.ready.pop_front() {
                return Poll::Ready(Ok(arrival));
            }
            if let Stream::NotYet = self.stream {
                let run = run_stream(self.context.clone(), self.say.clone());
                self.stream = Stream::Running(Box::pin(run));
            }
            if let Stream::Running(run) = &mut self.stream
                && let Poll::Ready(end) = run.as_mut().poll(task)
            {
                self.stream = Stream::Over(end);
            }
            if let Poll::Ready(Some(said)) = self.said.poll_recv(task) {
                self.hear(said);
                continue;
            }
            // What was said before the end has been heard by now.
            if let Stream::Over(end) = &self.stream {
                return Poll::Ready(Err(end.clone()));
            }
            match self.posts.poll(task) {
                Poll::Ready(posted) => self.finish(posted),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn finish(&mut self, posted: Posted) {
        self.posting -= 1;
        self.load -= posted.load;
        self.ready.extend(posted.arrival);
    }
}

impl Link for SseLink {
    fn push(&mut self, outgoing: Outgoing) {
        let id = match &outgoing.message {
            Message::Request { id, .. } => Some(id.clone()),
            Message::Notification { .. } | Message::Answer { .. } => None,
        };
        let mut body = Vec::with_capacity(256);
        outgoing.message.write_to(&mut body);
        let post = Post { id, body: body.into() };
        self.load += post.load();
        self.start(post);
    }

    fn queued(&self) -> usize {
        self.load
    }

    async fn farewell(&mut self) {
        while self.posting > 0 {
            let posted = poll_fn(|task| self.posts.poll(task)).await;
            self.finish(posted);
        }
    }

    async fn next(&mut self) -> Result<Arrival, LinkEnd> {
        poll_fn(|task| self.poll_arrival(task)).await
    }
}

impl Post {
    fn load(&self) -> usize {
        OVERHEAD + self.body.len()
    }
}

impl fmt::Debug for SseLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseLink")
            .field("target", &self.context.target)
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

/// Reads the stream until it ends.
async fn run_stream(context: Arc<Context>, say: mpsc::Sender<Said>) -> LinkEnd {
    let begun = match timeout(BEGINNING, begin(&context)).await {
        Ok(begun) => begun,
        Err(_) => Err(Fault::Silent(BEGINNING)),
    };
    let (mut events, endpoint) = match begun {
        Ok(begun) => begun,
        Err(fault) => return LinkEnd::Fault(fault),
    };
    let _link_gone = say.send(Said::Endpoint(endpoint)).await;
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return LinkEnd::Closed,
            Err(fault) => return LinkEnd::Fault(fault),
        };
        for arrival in event.arrivals() {
            let _link_gone = say.send(Said::Arrival(arrival)).await;
        }
    }
}

/// Opens the stream and hears where messages go.
async fn begin(context: &Context) -> Result<(Events, Url), Fault> {
    let target = &context.target;
    let mut headers = target.headers.clone();
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    let url = Cow::Borrowed(&target.url);
    let mut request = Request { method: Method::GET, url, headers, body: Bytes::new() };
    let response = context.target.send(&context.network, &mut request, Via::Http).await?;
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    if kind_of(response.headers()) != Kind::Events {
        return Err(stranger(response).await);
    }
    let mut events = Events::new(response, target.largest_message);
    while let Some(event) = events.next().await? {
        if event.name != b"endpoint".as_slice() {
            continue;
        }
        let named = String::from_utf8_lossy(&event.data);
        let content_type = "text/event-stream".to_owned();
        let Ok(endpoint) = request.url.join(named.trim()) else {
            let beginning = "its endpoint is no URL".to_owned();
            return Err(Fault::NotMcp { content_type, beginning });
        };
        return match is_same_origin(&endpoint, &target.url) {
            true => Ok((events, endpoint)),
            false => Err(Fault::RedirectedAway { to: origin(&endpoint) }),
        };
    }
    Err(Fault::CutShort)
}

async fn run_post(context: Arc<Context>, endpoint: Arc<Url>, post: Post) -> Posted {
    let load = post.load();
    let deliver = deliver(&context, &endpoint, post.body);
    let delivered = match timeout(POSTING, deliver).await {
        Ok(delivered) => delivered,
        Err(_) => Err(Fault::Silent(POSTING)),
    };
    let arrival = delivered.err().map(|fault| Arrival::Lost { id: post.id, fault });
    Posted { load, arrival }
}

async fn deliver(context: &Context, endpoint: &Url, body: Bytes) -> Result<(), Fault> {
    let mut headers = context.target.headers.clone();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let url = Cow::Borrowed(endpoint);
    let mut request = Request { method: Method::POST, url, headers, body };
    let response = context.target.send(&context.network, &mut request, Via::Http).await?;
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    let_go(response).await;
    Ok(())
}

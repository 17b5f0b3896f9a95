//! Questions that go past the link's task: asked and answered where they are waited for. What comes back as more than
//! one answer, or as none, is handed over to the link, which knows what to do with everything.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method};
use tokio::sync::mpsc;

use super::Endpoint;
use super::post::{Post, PostKind, RequestLifetime};
use crate::link::{FastPath, FastPathOutcome, OutgoingMessage};
use crate::message::{self, Message, Messages, RequestId};
use crate::network::{ContentKind, HttpRequest, HttpResponse, Via, content_kind, read_body};

/// How many questions may be under way past the task. More wait their turn the usual way.
const MAX_IN_FLIGHT: usize = 256;
/// How many may wait to be gone on with.
const HANDOFF_QUEUE: usize = 64;

/// The way past a link.
pub(super) struct HttpFastPath {
    context: Arc<Endpoint>,
    /// What every POST has among its headers, while questions may go this way.
    prepared: RwLock<Option<Arc<HeaderMap>>>,
    under_way: AtomicUsize,
    hand: mpsc::Sender<Handoff>,
}

/// A question that the link goes on with.
pub(super) struct Handoff {
    pub(super) id: RequestId,
    pub(super) lifetime: RequestLifetime,
    pub(super) load: usize,
    /// The headers that went with it.
    pub(super) headers: HeaderMap,
    pub(super) response: HandoffResponse,
}

/// What came back.
pub(super) enum HandoffResponse {
    /// Nothing of its body was read.
    Unread(HttpResponse),
    /// This was its body.
    Read(HttpResponse, Bytes),
}

impl HttpFastPath {
    pub(super) fn new(context: Arc<Endpoint>) -> (Arc<HttpFastPath>, mpsc::Receiver<Handoff>) {
        let (hand, handed) = mpsc::channel(HANDOFF_QUEUE);
        let (prepared, under_way) = (RwLock::new(None), AtomicUsize::new(0));
        (Arc::new(HttpFastPath { context, prepared, under_way, hand }), handed)
    }

    pub(super) fn open(&self, prepared: &HeaderMap) {
        self.set(Some(Arc::new(prepared.clone())));
    }

    pub(super) fn close(&self) {
        self.set(None);
    }

    fn set(&self, prepared: Option<Arc<HeaderMap>>) {
        *self.prepared.write().unwrap_or_else(PoisonError::into_inner) = prepared;
    }

    fn prepared(&self) -> Option<Arc<HeaderMap>> {
        self.prepared.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl FastPath for HttpFastPath {
    fn try_send(
        self: Arc<Self>,
        outgoing: OutgoingMessage,
    ) -> Result<BoxFuture<'static, FastPathOutcome>, OutgoingMessage> {
        let (Some(prepared), PostKind::Request(id, lifetime)) =
            (self.prepared(), PostKind::from_message(&outgoing))
        else {
            return Err(outgoing);
        };
        let Some(place) = InFlightSlot::acquire(&self) else { return Err(outgoing) };
        let post = Post::new(PostKind::Request(id.clone(), lifetime), &prepared, outgoing);
        Ok(Box::pin(async move {
            let asked = send_request(&place.0, (id, lifetime), post).await;
            drop(place);
            asked
        }))
    }
}

async fn send_request(
    direct: &HttpFastPath,
    (id, lifetime): (RequestId, RequestLifetime),
    post: Post,
) -> FastPathOutcome {
    let (context, load) = (&direct.context, post.load());
    let url = Cow::Borrowed(&context.target.url);
    let Post { headers, body, .. } = post;
    let mut request = HttpRequest { method: Method::POST, url, headers, body };
    let mut response = match context.target.send(&context.network, &mut request, Via::Http).await {
        Ok(response) => response,
        Err(fault) => return FastPathOutcome::Failed(fault),
    };
    let back = if response.status().is_success()
        && content_kind(response.headers()) == ContentKind::Json
    {
        let body = match read_body(&mut response, context.target.max_message_size).await {
            Ok(body) => body,
            Err(fault) => return FastPathOutcome::Failed(fault),
        };
        match message::parse(&body) {
            Ok(Messages::One(Message::Response { id: Some(of), outcome })) if of == id => {
                return FastPathOutcome::Response(outcome);
            }
            Ok(_) | Err(_) => HandoffResponse::Read(response, body),
        }
    } else {
        HandoffResponse::Unread(response)
    };
    let sent = request.headers;
    let _link_gone =
        direct.hand.send(Handoff { id, lifetime, load, headers: sent, response: back }).await;
    FastPathOutcome::HandedOff
}

/// One of the questions that may be under way at once.
struct InFlightSlot(Arc<HttpFastPath>);

impl InFlightSlot {
    fn acquire(direct: &Arc<HttpFastPath>) -> Option<InFlightSlot> {
        let before = direct.under_way.fetch_add(1, Ordering::Relaxed);
        let place = InFlightSlot(direct.clone());
        (before < MAX_IN_FLIGHT).then_some(place)
    }
}

impl Drop for InFlightSlot {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for HttpFastPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Direct({} under way)", self.under_way.load(Ordering::Relaxed))
    }
}

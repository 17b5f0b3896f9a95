//! Requests that are sent and answered in the caller's task. Anything other than one JSON response is handed to the
//! transport, which handles all cases.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method};
use tokio::sync::mpsc;

use super::post::{Post, PostKind, RequestLifetime};
use crate::http::body::{ContentKind, content_kind, read_body};
use crate::http::request::HttpRequest;
use crate::http::response::HttpResponse;
use crate::http::send::{Endpoint, Via};
use crate::jsonrpc::message;
use crate::jsonrpc::message::{Message, Messages, RequestId};
use crate::transport::{FastPath, FastPathOutcome, OutgoingMessage};

/// How many requests may be in flight on the fast path. More go through the transport.
const MAX_IN_FLIGHT: usize = 256;
/// How many handoffs may wait for the transport.
const HANDOFF_QUEUE: usize = 64;

/// The fast path of the streamable HTTP transport.
pub(crate) struct HttpFastPath {
    endpoint: Arc<Endpoint>,
    /// Headers of every POST; none while the fast path is closed.
    base_headers: RwLock<Option<Arc<HeaderMap>>>,
    in_flight: AtomicUsize,
    handoff_sender: mpsc::Sender<Handoff>,
}

/// A request that the transport continues.
pub(crate) struct Handoff {
    pub(crate) id: RequestId,
    pub(crate) lifetime: RequestLifetime,
    pub(crate) load: usize,
    /// The headers of the request.
    pub(crate) headers: HeaderMap,
    pub(crate) response: HandoffResponse,
}

/// The response of a handoff.
pub(crate) enum HandoffResponse {
    /// Its body was not read.
    Unread(HttpResponse),
    /// Its body was read.
    Read(HttpResponse, Bytes),
}

impl HttpFastPath {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> (Arc<HttpFastPath>, mpsc::Receiver<Handoff>) {
        let (handoff_sender, handoffs) = mpsc::channel(HANDOFF_QUEUE);
        let (base_headers, in_flight) = (RwLock::new(None), AtomicUsize::new(0));
        (Arc::new(HttpFastPath { endpoint, base_headers, in_flight, handoff_sender }), handoffs)
    }

    pub(crate) fn open(&self, base_headers: &HeaderMap) {
        self.set(Some(Arc::new(base_headers.clone())));
    }

    pub(crate) fn close(&self) {
        self.set(None);
    }

    fn set(&self, base_headers: Option<Arc<HeaderMap>>) {
        *self.base_headers.write().unwrap_or_else(PoisonError::into_inner) = base_headers;
    }

    fn base_headers(&self) -> Option<Arc<HeaderMap>> {
        self.base_headers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl FastPath for HttpFastPath {
    fn try_send(
        self: Arc<Self>,
        outgoing: OutgoingMessage,
    ) -> Result<BoxFuture<'static, FastPathOutcome>, OutgoingMessage> {
        let (Some(base_headers), PostKind::Request(id, lifetime)) =
            (self.base_headers(), PostKind::from_message(&outgoing))
        else {
            return Err(outgoing);
        };
        let Some(slot) = InFlightSlot::acquire(&self) else { return Err(outgoing) };
        let post = Post::new(PostKind::Request(id.clone(), lifetime), &base_headers, outgoing);
        Ok(Box::pin(async move {
            let outcome = send_request(&slot.0, (id, lifetime), post).await;
            drop(slot);
            outcome
        }))
    }
}

async fn send_request(
    fast_path: &HttpFastPath,
    (id, lifetime): (RequestId, RequestLifetime),
    post: Post,
) -> FastPathOutcome {
    let (endpoint, load) = (&fast_path.endpoint, post.load());
    let url = Cow::Borrowed(&endpoint.target.url);
    let Post { headers, body, .. } = post;
    let mut request = HttpRequest { method: Method::POST, url, headers, body };
    let mut response = match endpoint.send(&mut request, Via::Http).await {
        Ok(response) => response,
        Err(error) => return FastPathOutcome::Failed(error),
    };
    let handoff_response = if response.status().is_success()
        && content_kind(response.headers()) == ContentKind::Json
    {
        let body = match read_body(&mut response, endpoint.target.max_message_size).await {
            Ok(body) => body,
            Err(error) => return FastPathOutcome::Failed(error),
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
    let _transport_gone = fast_path
        .handoff_sender
        .send(Handoff { id, lifetime, load, headers: request.headers, response: handoff_response })
        .await;
    FastPathOutcome::HandedOff
}

/// One of the requests that may be in flight.
struct InFlightSlot(Arc<HttpFastPath>);

impl InFlightSlot {
    fn acquire(fast_path: &Arc<HttpFastPath>) -> Option<InFlightSlot> {
        let before = fast_path.in_flight.fetch_add(1, Ordering::Relaxed);
        let slot = InFlightSlot(fast_path.clone());
        (before < MAX_IN_FLIGHT).then_some(slot)
    }
}

impl Drop for InFlightSlot {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for HttpFastPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpFastPath({} in flight)", self.in_flight.load(Ordering::Relaxed))
    }
}

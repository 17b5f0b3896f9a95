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

use super::Context;
use super::post::{Lifetime, Post, Purpose};
use crate::link::{Outgoing, Shortcut, Shortly};
use crate::message::{self, Id, Message, Messages};
use crate::network::{Kind, Received, Request, Via, body_of, kind_of};

/// How many questions may be under way past the task. More wait their turn the usual way.
const AT_ONCE: usize = 256;
/// How many may wait to be gone on with.
const HANDED: usize = 64;

/// The way past a link.
pub(super) struct Direct {
    context: Arc<Context>,
    /// What every POST has among its headers, while questions may go this way.
    prepared: RwLock<Option<Arc<HeaderMap>>>,
    under_way: AtomicUsize,
    hand: mpsc::Sender<Handed>,
}

/// A question that the link goes on with.
pub(super) struct Handed {
    pub(super) id: Id,
    pub(super) lifetime: Lifetime,
    pub(super) load: usize,
    /// The headers that went with it.
    pub(super) sent: HeaderMap,
    pub(super) back: Back,
}

/// What came back.
pub(super) enum Back {
    /// Nothing of its body was read.
    Unread(Received),
    /// This was its body.
    Read(Received, Bytes),
}

impl Direct {
    pub(super) fn new(context: Arc<Context>) -> (Arc<Direct>, mpsc::Receiver<Handed>) {
        let (hand, handed) = mpsc::channel(HANDED);
        let (prepared, under_way) = (RwLock::new(None), AtomicUsize::new(0));
        (Arc::new(Direct { context, prepared, under_way, hand }), handed)
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

impl Shortcut for Direct {
    fn ask(self: Arc<Self>, outgoing: Outgoing) -> Result<BoxFuture<'static, Shortly>, Outgoing> {
        let (Some(prepared), Purpose::Ask(id, lifetime)) =
            (self.prepared(), Purpose::of(&outgoing))
        else {
            return Err(outgoing);
        };
        let Some(place) = Place::take(&self) else { return Err(outgoing) };
        let post = Post::new(Purpose::Ask(id.clone(), lifetime), &prepared, outgoing);
        Ok(Box::pin(async move {
            let asked = asked(&place.0, (id, lifetime), post).await;
            drop(place);
            asked
        }))
    }
}

async fn asked(direct: &Direct, (id, lifetime): (Id, Lifetime), post: Post) -> Shortly {
    let (context, load) = (&direct.context, post.load());
    let url = Cow::Borrowed(&context.target.url);
    let Post { headers, body, .. } = post;
    let mut request = Request { method: Method::POST, url, headers, body };
    let mut response = match context.target.send(&context.network, &mut request, Via::Http).await {
        Ok(response) => response,
        Err(fault) => return Shortly::Lost(fault),
    };
    let back = if response.status().is_success() && kind_of(response.headers()) == Kind::Json {
        let body = match body_of(&mut response, context.target.largest_message).await {
            Ok(body) => body,
            Err(fault) => return Shortly::Lost(fault),
        };
        match message::parse(&body) {
            Ok(Messages::One(Message::Answer { id: Some(of), outcome })) if of == id => {
                return Shortly::Answered(outcome);
            }
            Ok(_) | Err(_) => Back::Read(response, body),
        }
    } else {
        Back::Unread(response)
    };
    let sent = request.headers;
    let _link_gone = direct.hand.send(Handed { id, lifetime, load, sent, back }).await;
    Shortly::HandedOver
}

/// One of the questions that may be under way at once.
struct Place(Arc<Direct>);

impl Place {
    fn take(direct: &Arc<Direct>) -> Option<Place> {
        let before = direct.under_way.fetch_add(1, Ordering::Relaxed);
        let place = Place(direct.clone());
        (before < AT_ONCE).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Direct({} under way)", self.under_way.load(Ordering::Relaxed))
    }
}

//! Headers that are made when they are needed: kept for a while, and made once more when a server refuses them.
//! Who makes them is a [`Producer`]; where they may go is told by an origin, where it matters.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, header};
use switchboard_wire::http::client::{
    Authorize, OutboundRequest, ResponseHead, RetryDecision, RetryFuture,
};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use url::{Origin, Url};

/// Headers on their way, or why there are none, without a secret.
pub(crate) type HeadersFuture<'a> =
    Pin<Box<dyn Future<Output = Result<HeaderMap, String>> + Send + 'a>>;

/// Makes headers.
pub(crate) trait HeaderSource: Send + Sync {
    /// Makes them anew. Has a deadline of its own.
    fn produce(&self) -> HeadersFuture<'_>;
}

/// What is shown now.
#[derive(Clone, Default)]
struct CurrentHeaders {
    headers: HeaderMap,
    /// When they were made.
    fetched_at: Option<Instant>,
    /// How often that was done.
    generation: u64,
    trial: HeaderTrial,
    /// Why they could not be made anew the last time.
    error: Option<String>,
}

/// What the server thinks of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum HeaderTrial {
    /// It may well take them.
    #[default]
    Accepted,
    /// It refused those before, and has not taken these yet.
    Unproven,
}

/// Headers for every request to a server.
pub(crate) struct DynamicHeaders {
    source: Box<dyn HeaderSource>,
    ttl: Duration,
    current: watch::Sender<CurrentHeaders>,
    /// One makes them at a time, and the others take what that one got.
    refresh_slot: Semaphore,
}

impl DynamicHeaders {
    /// Headers that are made anew after so long.
    pub(crate) fn new(source: impl HeaderSource + 'static, ttl: Duration) -> DynamicHeaders {
        let current = watch::Sender::new(CurrentHeaders::default());
        DynamicHeaders { source: Box::new(source), ttl, current, refresh_slot: Semaphore::new(1) }
    }

    /// Makes them for the first time, so that what stands in the way is known before anybody is asked anything.
    pub(crate) async fn load(&self) -> Result<(), String> {
        let now = self.refresh(0, HeaderTrial::Accepted).await;
        match now.error {
            Some(error) if now.fetched_at.is_none() => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    /// Why they could not be made anew the last time.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.current.borrow().error.clone()
    }

    /// What is shown after those with this number; made now unless somebody was faster.
    async fn refresh(&self, seen: u64, trial: HeaderTrial) -> CurrentHeaders {
        let _slot = self.refresh_slot.acquire().await;
        let before = self.current.borrow().clone();
        if before.generation != seen {
            return before;
        }
        let fetched = self.source.produce().await;
        self.current.send_modify(|current| match fetched {
            Ok(headers) => {
                let (fetched, number) = (Some(Instant::now()), current.generation + 1);
                *current = CurrentHeaders {
                    headers,
                    fetched_at: fetched,
                    generation: number,
                    trial,
                    error: None,
                };
            }
            Err(error) => current.error = Some(error),
        });
        self.current.borrow().clone()
    }

    async fn on_refusal(&self, refusal: ResponseHead<'_>) -> RetryDecision {
        let before = self.current.borrow().clone();
        let current_authorization = before.headers.get(header::AUTHORIZATION);
        if let (Some(shown), Some(current_authorization)) =
            (refusal.authorization, current_authorization)
            && shown != current_authorization
        {
            // Made anew while the request was on its way.
            return RetryDecision::Retry;
        }
        if before.trial == HeaderTrial::Unproven {
            return RetryDecision::GiveUp;
        }
        let now = self.refresh(before.generation, HeaderTrial::Unproven).await;
        match now.headers != before.headers {
            true => RetryDecision::Retry,
            false => RetryDecision::GiveUp,
        }
    }
}

impl Authorize for DynamicHeaders {
    fn headers<'a>(
        &'a self,
        _: OutboundRequest<'a>,
    ) -> Pin<std::boxed::Box<dyn Future<Output = HeaderMap> + std::marker::Send + 'a>> {
        Box::pin(async move {
            let current = self.current.borrow().clone();
            match current.fetched_at {
                Some(fetched) if fetched.elapsed() < self.ttl => current.headers,
                // What cannot be made anew may still be taken.
                Some(_) | None => self.refresh(current.generation, current.trial).await.headers,
            }
        })
    }

    fn on_unauthorized<'a>(&'a self, refusal: ResponseHead<'a>) -> RetryFuture<'a> {
        Box::pin(self.on_refusal(refusal))
    }

    fn on_response(&self, reception: ResponseHead<'_>) {
        if (200..300).contains(&reception.status) {
            self.current.send_if_modified(|current| {
                let was_pending = current.trial == HeaderTrial::Unproven;
                current.trial = HeaderTrial::Accepted;
                was_pending
            });
        }
    }
}

/// Shows something at one origin, and nothing anywhere else.
pub(crate) struct OriginBound {
    pub(crate) origin: Origin,
    pub(crate) inner: Arc<dyn Authorize>,
}

impl OriginBound {
    /// Is this a URL of that origin?
    pub(crate) fn is_for(&self, url: &Url) -> bool {
        url.origin() == self.origin
    }
}

impl Authorize for OriginBound {
    fn headers<'a>(
        &'a self,
        outbound: OutboundRequest<'a>,
    ) -> Pin<std::boxed::Box<dyn Future<Output = HeaderMap> + std::marker::Send + 'a>> {
        match self.is_for(outbound.url) {
            true => self.inner.headers(outbound),
            false => Box::pin(std::future::ready(HeaderMap::new())),
        }
    }

    fn on_unauthorized<'a>(&'a self, refusal: ResponseHead<'a>) -> RetryFuture<'a> {
        // Nothing was shown, so nothing better can be.
        match refusal.authorization {
            Some(_) => self.inner.on_unauthorized(refusal),
            None => Box::pin(std::future::ready(RetryDecision::GiveUp)),
        }
    }

    fn on_response(&self, reception: ResponseHead<'_>) {
        if reception.authorization.is_some() {
            self.inner.on_response(reception);
        }
    }
}

//! Headers that are produced on demand, cached for a time, and produced once more when a server refuses them.
//! A [`HeaderSource`] produces them; [`OriginBound`] restricts them to some origins.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, header};
use switchboard_wire::http::client::{
    Authorize, OutboundRequest, ResponseHead, RetryDecision, RetryFuture,
};
use switchboard_wire::shared::Shared;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{debug, warn};
use url::{Origin, Url};

/// Resolves to headers, or to an error text without a secret.
pub(crate) type HeadersFuture<'a> =
    Pin<Box<dyn Future<Output = Result<HeaderMap, String>> + Send + 'a>>;

/// Produces headers.
pub(crate) trait HeaderSource: Send + Sync {
    /// Produces them once. Has a timeout of its own.
    fn produce(&self) -> HeadersFuture<'_>;
}

/// The cached headers.
#[derive(Clone, Default)]
struct CurrentHeaders {
    headers: HeaderMap,
    /// When they were produced.
    fetched_at: Option<Instant>,
    /// How often headers were produced.
    generation: u64,
    trial: HeaderTrial,
    /// Why the last attempt to produce them failed.
    error: Option<String>,
}

/// Whether the server has accepted the headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum HeaderTrial {
    /// It accepted them, or has not seen any yet.
    #[default]
    Accepted,
    /// It refused the ones before, and has not accepted these yet.
    Unproven,
}

/// Headers for every request to a server.
pub(crate) struct DynamicHeaders {
    source: Box<dyn HeaderSource>,
    ttl: Duration,
    /// Shared state: the tasks of several requests read it, and the one that produced new headers replaces it.
    current: Shared<CurrentHeaders>,
    /// One task produces them at a time; the others use its result.
    refresh_slot: Semaphore,
}

impl DynamicHeaders {
    /// Headers that are produced again after `ttl`.
    pub(crate) fn new(source: impl HeaderSource + 'static, ttl: Duration) -> DynamicHeaders {
        let current = Shared::new(CurrentHeaders::default());
        DynamicHeaders { source: Box::new(source), ttl, current, refresh_slot: Semaphore::new(1) }
    }

    /// Produces them for the first time, so that an error is known before the first request.
    pub(crate) async fn load(&self) -> Result<(), String> {
        let now = self.refresh(0, HeaderTrial::Accepted).await;
        match now.error {
            Some(error) if now.fetched_at.is_none() => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    /// Why the last attempt to produce them failed.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.current.read(|current| current.error.clone())
    }

    /// The headers after generation `seen`, produced now unless another task already did.
    async fn refresh(&self, seen: u64, trial: HeaderTrial) -> CurrentHeaders {
        let _slot = self.refresh_slot.acquire().await;
        let before = self.current.get();
        if before.generation != seen {
            return before;
        }
        let fetched = self.source.produce().await;
        match &fetched {
            Ok(headers) => debug!(count = headers.len(), "dynamic headers created"),
            Err(_) => warn!("dynamic headers could not be created; `swb doctor` shows the cause"),
        }
        self.current.update(|current| {
            match fetched {
                Ok(headers) => {
                    *current = CurrentHeaders {
                        headers,
                        fetched_at: Some(Instant::now()),
                        generation: current.generation + 1,
                        trial,
                        error: None,
                    };
                }
                Err(error) => current.error = Some(error),
            }
            current.clone()
        })
    }

    async fn on_refusal(&self, refusal: ResponseHead<'_>) -> RetryDecision {
        let before = self.current.get();
        let current_authorization = before.headers.get(header::AUTHORIZATION);
        if let (Some(shown), Some(current_authorization)) =
            (refusal.authorization, current_authorization)
            && shown != current_authorization
        {
            // They were refreshed while the request was under way.
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
    ) -> Pin<Box<dyn Future<Output = HeaderMap> + Send + 'a>> {
        Box::pin(async move {
            let current = self.current.get();
            match current.fetched_at {
                Some(fetched) if fetched.elapsed() < self.ttl => current.headers,
                // Where they cannot be produced again, the old ones may still be accepted.
                Some(_) | None => self.refresh(current.generation, current.trial).await.headers,
            }
        })
    }

    fn on_unauthorized<'a>(&'a self, refusal: ResponseHead<'a>) -> RetryFuture<'a> {
        Box::pin(self.on_refusal(refusal))
    }

    fn on_response(&self, response: ResponseHead<'_>) {
        if (200..300).contains(&response.status) {
            self.current.update(|current| current.trial = HeaderTrial::Accepted);
        }
    }
}

/// Authorizes requests to these origins, and no others.
pub(crate) struct OriginBound {
    pub(crate) origins: Arc<[Origin]>,
    pub(crate) inner: Arc<dyn Authorize>,
}

impl OriginBound {
    /// Whether a URL is of one of those origins.
    pub(crate) fn is_for(&self, url: &Url) -> bool {
        self.origins.contains(&http_origin(url))
    }
}

/// The origin of a URL; that of a WebSocket is the origin of the HTTP request that opens it.
pub(crate) fn http_origin(url: &Url) -> Origin {
    let mut url = url.clone();
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        _ => return url.origin(),
    };
    match url.set_scheme(scheme) {
        Ok(()) => url.origin(),
        Err(()) => Origin::new_opaque(),
    }
}

impl Authorize for OriginBound {
    fn headers<'a>(
        &'a self,
        outbound: OutboundRequest<'a>,
    ) -> Pin<Box<dyn Future<Output = HeaderMap> + Send + 'a>> {
        match self.is_for(outbound.url) {
            true => self.inner.headers(outbound),
            false => Box::pin(std::future::ready(HeaderMap::new())),
        }
    }

    fn on_unauthorized<'a>(&'a self, refusal: ResponseHead<'a>) -> RetryFuture<'a> {
        // No header was sent, so a retry would send none either.
        match refusal.authorization {
            Some(_) => self.inner.on_unauthorized(refusal),
            None => Box::pin(std::future::ready(RetryDecision::GiveUp)),
        }
    }

    fn on_response(&self, response: ResponseHead<'_>) {
        if response.authorization.is_some() {
            self.inner.on_response(response);
        }
    }
}

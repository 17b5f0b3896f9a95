//! Who is asked what to show with a request, and what to do when that is turned away.
//! The one who is asked holds the tokens; here they only pass through.

use http::{HeaderMap, HeaderValue, Method};
use std::future::Future;
use std::pin::Pin;
use url::Url;

/// A request that is about to be made.
#[derive(Debug, Clone, Copy)]
pub struct OutboundRequest<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Where it goes.
    pub url: &'a Url,
}

/// How a request was received.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// The status of the answer.
    pub status: u16,
    /// The headers of the answer.
    pub headers: &'a HeaderMap,
    /// The `Authorization` that was shown.
    pub authorization: Option<&'a HeaderValue>,
}

/// What becomes of a request that was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// The refusal stands.
    GiveUp,
    /// There is something better to show: make it again.
    Retry,
}

/// Headers to show, which may take a while.
pub type HeadersFuture<'a> = Pin<Box<dyn Future<Output = HeaderMap> + Send + 'a>>;

/// A verdict, which may take a while.
pub type RetryFuture<'a> = Pin<Box<dyn Future<Output = RetryDecision> + Send + 'a>>;

/// Who is asked what to show with every request.
pub trait Authorize: Send + Sync {
    /// What to show. Each takes the place of a fixed header of its name.
    fn headers<'a>(&'a self, outbound: OutboundRequest<'a>) -> HeadersFuture<'a>;

    /// Hears that a request was turned away, with 401 or 403, and says whether it is worth another try. A person
    /// is not waited for.
    fn on_unauthorized<'a>(&'a self, _: ResponseHead<'a>) -> RetryFuture<'a> {
        Box::pin(std::future::ready(RetryDecision::GiveUp))
    }

    /// Hears of every other answer.
    fn on_response(&self, _: ResponseHead<'_>) {}
}

//! The interface through which credentials are added to requests, and renewed after a 401 or 403.
//! Implementations own the tokens; here they only pass through.

use std::future::Future;
use std::pin::Pin;

use http::{HeaderMap, HeaderValue, Method};
use url::Url;

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct OutboundRequest<'a> {
    /// The method.
    pub method: &'a Method,
    /// The URL.
    pub url: &'a Url,
}

/// The head of a response.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The `Authorization` header of the request.
    pub authorization: Option<&'a HeaderValue>,
}

/// The next action for a request that was answered with 401 or 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Return the response to the caller.
    GiveUp,
    /// Send the request again with other credentials.
    Retry,
}

/// The result of [`Authorize::headers`].
pub type HeadersFuture<'a> = Pin<Box<dyn Future<Output = HeaderMap> + Send + 'a>>;

/// The result of [`Authorize::on_unauthorized`].
pub type RetryFuture<'a> = Pin<Box<dyn Future<Output = RetryDecision> + Send + 'a>>;

/// Supplies credentials for every request.
pub trait Authorize: Send + Sync {
    /// The headers to add. They replace fixed headers of the same name.
    fn headers<'a>(&'a self, outbound: OutboundRequest<'a>) -> HeadersFuture<'a>;

    /// Called after a 401 or 403; decides on a retry. Must not wait for a user.
    fn on_unauthorized<'a>(&'a self, _: ResponseHead<'a>) -> RetryFuture<'a> {
        Box::pin(std::future::ready(RetryDecision::GiveUp))
    }

    /// Called after every other response.
    fn on_response(&self, _: ResponseHead<'_>) {}
}

//! Who is asked what to show with a request, and what to do when that is turned away.
//! The one who is asked holds the tokens; here they only pass through.

use std::future::Future;
use std::pin::Pin;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::client::{HttpClient, HttpRequest, HttpResponse, Target, drain};
use crate::transport_error::TransportError;

/// How often one request is made again because [`Authorize::refused`] says so.
const MAX_RETRIES: usize = 3;

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

/// Which protocol an answer may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Http,
    Upgrade,
}

impl Target {
    /// Makes a request with what is to be shown at this moment, and again where that is turned away and there
    /// is something better.
    pub(crate) async fn send(
        &self,
        client: &HttpClient,
        request: &mut HttpRequest<'_>,
        via: Via,
    ) -> Result<HttpResponse, TransportError> {
        let mut retries_left = MAX_RETRIES;
        loop {
            self.add_authorization(request).await;
            let response = match via {
                Via::Http => client.send(request).await?,
                Via::Upgrade => client.send_upgrade(request).await?,
            };
            let decision = self.review_response(request, &response).await;
            if decision == RetryDecision::GiveUp || retries_left == 0 {
                return Ok(response);
            }
            retries_left -= 1;
            drain(response).await;
        }
    }

    async fn add_authorization(&self, request: &mut HttpRequest<'_>) {
        let Some(authorize) = &self.authorize else { return };
        let outbound = OutboundRequest { method: &request.method, url: &request.url };
        let mut auth_headers = authorize.headers(outbound).await;
        auth_headers.values_mut().for_each(|value| value.set_sensitive(true));
        for (name, value) in auth_headers {
            if let Some(name) = name {
                request.headers.insert(name, value);
            }
        }
    }

    async fn review_response(
        &self,
        request: &HttpRequest<'_>,
        response: &HttpResponse,
    ) -> RetryDecision {
        let Some(authorize) = &self.authorize else { return RetryDecision::GiveUp };
        let status = response.status();
        let head = ResponseHead {
            status: status.as_u16(),
            headers: response.headers(),
            authorization: request.headers.get(header::AUTHORIZATION),
        };
        if status != StatusCode::UNAUTHORIZED && status != StatusCode::FORBIDDEN {
            authorize.on_response(head);
            return RetryDecision::GiveUp;
        }
        authorize.on_unauthorized(head).await
    }
}

//! Sends requests to one server, with the headers that its [`Authorize`](super::authorize::Authorize) supplies.

use http::{StatusCode, header};
use tracing::debug;

use super::authorize::{OutboundRequest, ResponseHead, RetryDecision};
use super::body::drain;
use super::client::HttpClient;
use super::request::HttpRequest;
use super::response::HttpResponse;
use super::target::Target;
use crate::transport_error::TransportError;

/// How many times one request is repeated because [`Authorize::on_unauthorized`](super::authorize::Authorize)
/// decides so.
const MAX_RETRIES: usize = 3;

/// A server and the client to reach it with.
pub(crate) struct Endpoint {
    pub(crate) client: HttpClient,
    pub(crate) target: Target,
}

/// Whether the response may switch protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Http,
    Upgrade,
}

impl Endpoint {
    /// Sends a request with the current credentials, and repeats it after a 401 or 403 if there are better ones.
    pub(crate) async fn send(
        &self,
        request: &mut HttpRequest<'_>,
        via: Via,
    ) -> Result<HttpResponse, TransportError> {
        let mut retries_left = MAX_RETRIES;
        loop {
            self.add_authorization(request).await;
            let response = match via {
                Via::Http => self.client.send(request).await?,
                Via::Upgrade => self.client.send_upgrade(request).await?,
            };
            let decision = self.review_response(request, &response).await;
            if decision == RetryDecision::GiveUp || retries_left == 0 {
                return Ok(response);
            }
            retries_left -= 1;
            debug!(status = response.status().as_u16(), "request retried with new credentials");
            drain(response).await;
        }
    }

    async fn add_authorization(&self, request: &mut HttpRequest<'_>) {
        let Some(authorize) = &self.target.authorize else { return };
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
        let Some(authorize) = &self.target.authorize else { return RetryDecision::GiveUp };
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

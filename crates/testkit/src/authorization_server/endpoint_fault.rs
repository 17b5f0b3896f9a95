//! Faults of single endpoints: which endpoint, which fault, and how often.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream;

use crate::http::response::{empty_response, json_response, with_header};

/// An endpoint of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// The protected resource metadata.
    ResourceMetadata,
    /// The authorization server metadata.
    IssuerMetadata,
    /// Client registration.
    Registration,
    /// The authorization endpoint.
    Authorize,
    /// The token endpoint, for all grant types.
    Token,
    /// The token endpoint, for refresh tokens only.
    Refresh,
    /// Token revocation.
    Revocation,
    /// Device authorization.
    Device,
    /// The signing keys (JWKS).
    Keys,
    /// The protected resource.
    Resource,
}

impl Endpoint {
    /// Whether a fault of this endpoint also affects `other`. `Token` includes `Refresh`.
    pub(crate) fn includes(self, other: Endpoint) -> bool {
        self == other || (self == Endpoint::Token && other == Endpoint::Refresh)
    }
}

/// A kind of fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseFault {
    /// Responds with this instead of handling the request.
    Responds {
        /// The status.
        status: u16,
        /// The body.
        body: String,
    },
    /// Responds with 503.
    Unavailable,
    /// Responds with 503 in a pseudo-random order, once in this many requests on average.
    UnavailableOnceIn(u64),
    /// Redirects the request with its body to another origin.
    RedirectsToAttacker,
    /// Responds with a body of this size.
    OversizedBody(usize),
    /// Responds after a delay.
    Delayed(Duration),
    /// Sends the body one byte at a time.
    TricklesBody,
    /// Accepts requests and never responds.
    NeverResponds,
    /// Handles the request and breaks the connection before the response.
    DropsResponse,
}

/// A fault of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointFault {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The kind.
    pub kind: ResponseFault,
    /// The number of requests before the first fault.
    pub after: usize,
    /// How often it happens; `None` for always.
    pub times: Option<usize>,
}

impl EndpointFault {
    /// Whether the fault happens to the request with this number.
    pub(crate) fn applies_to(&self, number: usize) -> bool {
        let last = self.times.map_or(usize::MAX, |times| self.after.saturating_add(times));
        let is_due = (self.after..last).contains(&number);
        match self.kind {
            // Fibonacci hashing spreads the numbers.
            ResponseFault::UnavailableOnceIn(n) => {
                let spread = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                is_due && spread.is_multiple_of(n)
            }
            ResponseFault::Responds { .. }
            | ResponseFault::Unavailable
            | ResponseFault::RedirectsToAttacker
            | ResponseFault::OversizedBody(_)
            | ResponseFault::Delayed(_)
            | ResponseFault::TricklesBody
            | ResponseFault::NeverResponds
            | ResponseFault::DropsResponse => is_due,
        }
    }
}

impl ResponseFault {
    /// The response that replaces the handling of a request, possibly after a delay.
    pub(crate) async fn replacement_response(&self, attacker_origin: &str) -> Option<Response> {
        match self {
            ResponseFault::Responds { status, body } => {
                let code =
                    StatusCode::from_u16(*status).expect("a configuration has valid statuses");
                Some(json_response(code, Body::from(body.clone())))
            }
            ResponseFault::Unavailable | ResponseFault::UnavailableOnceIn(_) => {
                Some(empty_response(StatusCode::SERVICE_UNAVAILABLE))
            }
            ResponseFault::RedirectsToAttacker => {
                let redirect = empty_response(StatusCode::TEMPORARY_REDIRECT);
                Some(with_header(redirect, "location", &format!("{attacker_origin}/stolen")))
            }
            ResponseFault::OversizedBody(bytes) => {
                Some(json_response(StatusCode::OK, Body::from(vec![b' '; *bytes])))
            }
            ResponseFault::Delayed(delay) => {
                tokio::time::sleep(*delay).await;
                None
            }
            ResponseFault::NeverResponds => std::future::pending().await,
            ResponseFault::TricklesBody | ResponseFault::DropsResponse => None,
        }
    }

    /// Changes the response on its way out.
    pub(crate) async fn alter_response(&self, response: Response) -> Response {
        match self {
            ResponseFault::TricklesBody => {
                let (parts, body) = response.into_parts();
                let whole = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
                let trickle = stream::unfold(whole, async |mut remaining: Bytes| {
                    if remaining.is_empty() {
                        return None;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    let byte = remaining.split_to(1);
                    Some((Ok::<Bytes, std::io::Error>(byte), remaining))
                });
                let mut parts = parts;
                parts.headers.remove("content-length");
                Response::from_parts(parts, Body::from_stream(trickle))
            }
            ResponseFault::DropsResponse => {
                let (parts, _) = response.into_parts();
                let lost = stream::iter([Err::<Bytes, _>(std::io::Error::other("lost"))]);
                Response::from_parts(parts, Body::from_stream(lost))
            }
            ResponseFault::Responds { .. }
            | ResponseFault::Unavailable
            | ResponseFault::UnavailableOnceIn(_)
            | ResponseFault::RedirectsToAttacker
            | ResponseFault::OversizedBody(_)
            | ResponseFault::Delayed(_)
            | ResponseFault::NeverResponds => response,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affected_requests(kind: ResponseFault, from: usize, times: Option<usize>) -> Vec<usize> {
        let fault = EndpointFault { endpoint: Endpoint::Token, kind, after: from, times };
        (0..40).filter(|&number| fault.applies_to(number)).collect()
    }

    #[test]
    fn a_fault_starts_and_ends_as_configured() {
        assert_eq!(affected_requests(ResponseFault::Unavailable, 2, Some(2)), [2, 3]);
        assert_eq!(affected_requests(ResponseFault::Unavailable, 0, None).len(), 40);
    }

    #[test]
    fn the_pseudo_random_order_is_stable_and_not_periodic() {
        let some = affected_requests(ResponseFault::UnavailableOnceIn(4), 0, None);
        assert_eq!(some, affected_requests(ResponseFault::UnavailableOnceIn(4), 0, None));
        assert!((4..20).contains(&some.len()), "{some:?}");
        let gaps: std::collections::BTreeSet<usize> =
            some.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.len() > 1, "{some:?}");
    }
}

//! What goes wrong at which endpoint, how, and how often.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream;

use crate::http::response::{empty_response, json_response, with_header};

/// An endpoint of an authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// The resource's metadata.
    ResourceMetadata,
    /// The authorization server's metadata.
    IssuerMetadata,
    /// Registration of clients.
    Registration,
    /// Where people sign in.
    Authorize,
    /// Where tokens are had, in whatever way.
    Token,
    /// The same, where a refresh token is shown.
    Refresh,
    /// Where tokens are given back.
    Revocation,
    /// Where devices begin.
    Device,
    /// The keys that tokens are signed with.
    Keys,
    /// The server itself.
    Resource,
}

impl Endpoint {
    /// Is what happens here also said of `other`? Refreshing is one way to have tokens.
    pub(crate) fn includes(self, other: Endpoint) -> bool {
        self == other || (self == Endpoint::Token && other == Endpoint::Refresh)
    }
}

/// How something goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseFault {
    /// It answers this, whatever is asked, and does nothing.
    Responds {
        /// The status.
        status: u16,
        /// The body.
        body: String,
    },
    /// It is down: 503.
    Unavailable,
    /// It is down now and then, in an order that looks like chance: once in so many times.
    UnavailableOnceIn(u64),
    /// It sends whoever asks to another origin, with everything that they sent.
    RedirectsToAttacker,
    /// It answers with so many bytes.
    OversizedBody(usize),
    /// It answers after a while.
    Delayed(Duration),
    /// It answers a byte at a time.
    TricklesBody,
    /// It takes requests and never answers.
    NeverResponds,
    /// It does what it is asked, and the connection breaks before the answer is there.
    DropsResponse,
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointFault {
    /// Where.
    pub endpoint: Endpoint,
    /// How.
    pub kind: ResponseFault,
    /// After how many requests it begins.
    pub after: usize,
    /// How often it happens; `None` for always.
    pub times: Option<usize>,
}

impl EndpointFault {
    /// Does it happen to the request of this number?
    pub(crate) fn applies_to(&self, number: usize) -> bool {
        let last = self.times.map_or(usize::MAX, |times| self.after.saturating_add(times));
        let is_due = (self.after..last).contains(&number);
        match self.kind {
            // A number spread widely; the constant is that of the golden ratio.
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
    /// The answer that is given instead of doing anything, where one is. May take its time.
    pub(crate) async fn replacement_response(&self, attacker_origin: &str) -> Option<Response> {
        match self {
            ResponseFault::Responds { status, body } => {
                let code = StatusCode::from_u16(*status).expect("a charter has real statuses");
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

    /// What becomes of the answer on its way out.
    pub(crate) async fn alter_response(&self, response: Response) -> Response {
        match self {
            ResponseFault::TricklesBody => {
                let (parts, body) = response.into_parts();
                let whole = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
                let trickle = stream::unfold(whole, async |mut left: Bytes| {
                    if left.is_empty() {
                        return None;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    let byte = left.split_to(1);
                    Some((Ok::<Bytes, std::io::Error>(byte), left))
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

    fn at(kind: ResponseFault, from: usize, times: Option<usize>) -> Vec<usize> {
        let fault = EndpointFault { endpoint: Endpoint::Token, kind, after: from, times };
        (0..40).filter(|&number| fault.applies_to(number)).collect()
    }

    #[test]
    fn a_lapse_begins_and_ends_where_it_is_told() {
        assert_eq!(at(ResponseFault::Unavailable, 2, Some(2)), [2, 3]);
        assert_eq!(at(ResponseFault::Unavailable, 0, None).len(), 40);
    }

    #[test]
    fn chance_is_the_same_each_time_and_not_a_rhythm() {
        let some = at(ResponseFault::UnavailableOnceIn(4), 0, None);
        assert_eq!(some, at(ResponseFault::UnavailableOnceIn(4), 0, None));
        assert!((4..20).contains(&some.len()), "{some:?}");
        let gaps: std::collections::BTreeSet<usize> =
            some.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.len() > 1, "{some:?}");
    }
}

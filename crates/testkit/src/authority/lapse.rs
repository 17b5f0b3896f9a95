//! What goes wrong at which endpoint, how, and how often.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures_util::stream;

use crate::scripted::{document, status, with_header};

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
    pub(crate) fn covers(self, other: Endpoint) -> bool {
        self == other || (self == Endpoint::Token && other == Endpoint::Refresh)
    }
}

/// How something goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// It answers this, whatever is asked, and does nothing.
    Says {
        /// The status.
        status: u16,
        /// The body.
        body: String,
    },
    /// It is down: 503.
    Down,
    /// It is down now and then, in an order that looks like chance: once in so many times.
    DownOnceIn(u64),
    /// It sends whoever asks to another origin, with everything that they sent.
    RedirectsElsewhere,
    /// It answers with so many bytes.
    Huge(usize),
    /// It answers after a while.
    Late(Duration),
    /// It answers a byte at a time.
    Trickles,
    /// It takes requests and never answers.
    Hangs,
    /// It does what it is asked, and the connection breaks before the answer is there.
    LosesTheAnswer,
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lapse {
    /// Where.
    pub at: Endpoint,
    /// How.
    pub how: How,
    /// After how many requests it begins.
    pub from: usize,
    /// How often it happens; `None` for always.
    pub times: Option<usize>,
}

impl Lapse {
    /// Does it happen to the request of this number?
    pub(crate) fn happens_at(&self, number: usize) -> bool {
        let last = self.times.map_or(usize::MAX, |times| self.from.saturating_add(times));
        let is_due = (self.from..last).contains(&number);
        match self.how {
            // A number spread widely; the constant is that of the golden ratio.
            How::DownOnceIn(n) => {
                let spread = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
                is_due && spread.is_multiple_of(n)
            }
            How::Says { .. }
            | How::Down
            | How::RedirectsElsewhere
            | How::Huge(_)
            | How::Late(_)
            | How::Trickles
            | How::Hangs
            | How::LosesTheAnswer => is_due,
        }
    }
}

impl How {
    /// The answer that is given instead of doing anything, where one is. May take its time.
    pub(crate) async fn instead(&self, elsewhere: &str) -> Option<Response> {
        match self {
            How::Says { status, body } => {
                let code = StatusCode::from_u16(*status).expect("a charter has real statuses");
                Some(document(code, Body::from(body.clone())))
            }
            How::Down | How::DownOnceIn(_) => Some(status(StatusCode::SERVICE_UNAVAILABLE)),
            How::RedirectsElsewhere => {
                let redirect = status(StatusCode::TEMPORARY_REDIRECT);
                Some(with_header(redirect, "location", &format!("{elsewhere}/stolen")))
            }
            How::Huge(bytes) => Some(document(StatusCode::OK, Body::from(vec![b' '; *bytes]))),
            How::Late(while_) => {
                tokio::time::sleep(*while_).await;
                None
            }
            How::Hangs => std::future::pending().await,
            How::Trickles | How::LosesTheAnswer => None,
        }
    }

    /// What becomes of the answer on its way out.
    pub(crate) async fn afterwards(&self, response: Response) -> Response {
        match self {
            How::Trickles => {
                let (parts, body) = response.into_parts();
                let whole = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
                let slowly = stream::unfold(whole, async |mut left: Bytes| {
                    if left.is_empty() {
                        return None;
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    let byte = left.split_to(1);
                    Some((Ok::<Bytes, std::io::Error>(byte), left))
                });
                let mut parts = parts;
                parts.headers.remove("content-length");
                Response::from_parts(parts, Body::from_stream(slowly))
            }
            How::LosesTheAnswer => {
                let (parts, _) = response.into_parts();
                let lost = stream::iter([Err::<Bytes, _>(std::io::Error::other("lost"))]);
                Response::from_parts(parts, Body::from_stream(lost))
            }
            How::Says { .. }
            | How::Down
            | How::DownOnceIn(_)
            | How::RedirectsElsewhere
            | How::Huge(_)
            | How::Late(_)
            | How::Hangs => response,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(how: How, from: usize, times: Option<usize>) -> Vec<usize> {
        let lapse = Lapse { at: Endpoint::Token, how, from, times };
        (0..40).filter(|&number| lapse.happens_at(number)).collect()
    }

    #[test]
    fn a_lapse_begins_and_ends_where_it_is_told() {
        assert_eq!(at(How::Down, 2, Some(2)), [2, 3]);
        assert_eq!(at(How::Down, 0, None).len(), 40);
    }

    #[test]
    fn chance_is_the_same_each_time_and_not_a_rhythm() {
        let some = at(How::DownOnceIn(4), 0, None);
        assert_eq!(some, at(How::DownOnceIn(4), 0, None));
        assert!((4..20).contains(&some.len()), "{some:?}");
        let gaps: std::collections::BTreeSet<usize> =
            some.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.len() > 1, "{some:?}");
    }
}

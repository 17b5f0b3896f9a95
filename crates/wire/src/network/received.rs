//! An answer over HTTP, whichever way it was asked for.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::plain::PlainAnswer;
use crate::fault::Fault;

/// An answer. Its body is read piece by piece.
pub(crate) struct Received(Way);

/// The way it came.
enum Way {
    Library(reqwest::Response),
    Plain(Box<PlainAnswer>),
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Received({})", self.status())
    }
}

impl From<reqwest::Response> for Received {
    fn from(response: reqwest::Response) -> Received {
        Received(Way::Library(response))
    }
}

impl From<PlainAnswer> for Received {
    fn from(answer: PlainAnswer) -> Received {
        Received(Way::Plain(Box::new(answer)))
    }
}

impl Received {
    pub(crate) fn status(&self) -> StatusCode {
        match &self.0 {
            Way::Library(response) => response.status(),
            Way::Plain(answer) => answer.status,
        }
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        match &self.0 {
            Way::Library(response) => response.headers(),
            Way::Plain(answer) => &answer.headers,
        }
    }

    /// How much the body will be, where that was said.
    pub(crate) fn content_length(&self) -> Option<u64> {
        match &self.0 {
            Way::Library(response) => response.content_length(),
            Way::Plain(answer) => answer.content_length(),
        }
    }

    /// Whoever reads wants all of the body at once: it may come in one piece then.
    pub(crate) fn wanted_whole(&mut self) {
        match &mut self.0 {
            Way::Library(_) => {}
            Way::Plain(answer) => answer.wanted_whole(),
        }
    }

    /// The next piece of the body. Whatever stops it, the answer is cut short.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        match &mut self.0 {
            Way::Library(response) => response.chunk().await.map_err(|_| Fault::CutShort),
            Way::Plain(answer) => answer.chunk().await,
        }
    }

    /// The connection itself, where the answer makes another protocol of it.
    pub(crate) async fn upgrade(self) -> Result<reqwest::Upgraded, Fault> {
        match self.0 {
            Way::Library(response) => response.upgrade().await.map_err(super::fault),
            // Nobody asks for that on this way.
            Way::Plain(_) => Err(Fault::CutShort),
        }
    }
}

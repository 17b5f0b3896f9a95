//! An answer over HTTP, whichever way it was asked for.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::error::from_reqwest;
use super::http1::Http1Response;
use crate::transport_error::TransportError;

/// An answer. Its body is read piece by piece.
pub(crate) struct HttpResponse(ResponseSource);

/// The way it came.
enum ResponseSource {
    Reqwest(reqwest::Response),
    Http1(Box<Http1Response>),
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Received({})", self.status())
    }
}

impl From<reqwest::Response> for HttpResponse {
    fn from(response: reqwest::Response) -> HttpResponse {
        HttpResponse(ResponseSource::Reqwest(response))
    }
}

impl From<Http1Response> for HttpResponse {
    fn from(response: Http1Response) -> HttpResponse {
        HttpResponse(ResponseSource::Http1(Box::new(response)))
    }
}

impl HttpResponse {
    pub(crate) fn status(&self) -> StatusCode {
        match &self.0 {
            ResponseSource::Reqwest(response) => response.status(),
            ResponseSource::Http1(response) => response.status,
        }
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        match &self.0 {
            ResponseSource::Reqwest(response) => response.headers(),
            ResponseSource::Http1(response) => &response.headers,
        }
    }

    /// How much the body will be, where that was said.
    pub(crate) fn content_length(&self) -> Option<u64> {
        match &self.0 {
            ResponseSource::Reqwest(response) => response.content_length(),
            ResponseSource::Http1(response) => response.content_length(),
        }
    }

    /// Whoever reads wants all of the body at once: it may come in one piece then.
    pub(crate) fn prefer_single_chunk(&mut self) {
        match &mut self.0 {
            ResponseSource::Reqwest(_) => {}
            ResponseSource::Http1(response) => response.prefer_single_chunk(),
        }
    }

    /// The next piece of the body. Whatever stops it, the answer is cut short.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, TransportError> {
        match &mut self.0 {
            ResponseSource::Reqwest(response) => {
                response.chunk().await.map_err(|_| TransportError::IncompleteResponse)
            }
            ResponseSource::Http1(response) => response.chunk().await,
        }
    }

    /// The connection itself, where the answer makes another protocol of it.
    pub(crate) async fn upgrade(self) -> Result<reqwest::Upgraded, TransportError> {
        match self.0 {
            ResponseSource::Reqwest(response) => response.upgrade().await.map_err(from_reqwest),
            // Nobody asks for that on this way.
            ResponseSource::Http1(_) => Err(TransportError::IncompleteResponse),
        }
    }
}

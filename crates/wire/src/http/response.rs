//! An HTTP response of either client.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::error::from_reqwest;
use super::http1::Http1Response;
use crate::transport_error::TransportError;

/// A response. Its body is read in chunks.
pub(crate) struct HttpResponse(ResponseSource);

/// The client that received it.
enum ResponseSource {
    Reqwest(reqwest::Response),
    Http1(Box<Http1Response>),
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpResponse({})", self.status())
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

    /// The length of the body, if the head states it.
    pub(crate) fn content_length(&self) -> Option<u64> {
        match &self.0 {
            ResponseSource::Reqwest(response) => response.content_length(),
            ResponseSource::Http1(response) => response.content_length(),
        }
    }

    /// Asks for the body in one chunk, if possible.
    pub(crate) fn prefer_single_chunk(&mut self) {
        match &mut self.0 {
            ResponseSource::Reqwest(_) => {}
            ResponseSource::Http1(response) => response.prefer_single_chunk(),
        }
    }

    /// The next chunk of the body. Every failure is an incomplete response.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, TransportError> {
        match &mut self.0 {
            ResponseSource::Reqwest(response) => {
                response.chunk().await.map_err(|_| TransportError::IncompleteResponse)
            }
            ResponseSource::Http1(response) => response.chunk().await,
        }
    }

    /// The connection, after the server has switched protocols.
    pub(crate) async fn upgrade(self) -> Result<reqwest::Upgraded, TransportError> {
        match self.0 {
            ResponseSource::Reqwest(response) => response.upgrade().await.map_err(from_reqwest),
            // Upgrades are never sent through this client.
            ResponseSource::Http1(_) => Err(TransportError::IncompleteResponse),
        }
    }
}

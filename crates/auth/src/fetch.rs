//! The port through which everything is fetched: a request in, an answer out, within bounds.
//! The real one is [`Online`]; tests have their own.

mod address;
mod http_fetcher;
pub mod origin_guard;
mod resolver;

use std::fmt;
use std::pin::Pin;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use thiserror::Error;
use url::Url;

use crate::fetch::origin_guard::{AllowedAddresses, CheckedUrl};

pub use address::is_address_allowed;
pub use http_fetcher::HttpFetcher;
pub use resolver::PrivateAddressError;

/// The most that is read of an answer.
pub const MAX_RESPONSE_SIZE: usize = 1024 * 1024;

/// Something to fetch.
#[derive(Clone)]
pub struct FetchRequest {
    /// `GET` or `POST`.
    pub method: Method,
    /// From where. It was checked.
    pub url: Url,
    /// With which headers. Those of one origin are never sent to another: each request has its own.
    pub headers: HeaderMap,
    /// With which body.
    pub body: Bytes,
    /// How far it may go.
    pub allowed: AllowedAddresses,
}

impl FetchRequest {
    /// Asks for a JSON document.
    pub fn get(at: CheckedUrl) -> FetchRequest {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        FetchRequest {
            method: Method::GET,
            url: at.url,
            headers,
            body: Bytes::new(),
            allowed: at.allowed,
        }
    }

    /// Sends a JSON document and wants one back.
    pub fn post_json(at: CheckedUrl, body: &serde_json::Value) -> FetchRequest {
        FetchRequest::post(at, "application/json", body.to_string())
    }

    /// Sends a form and wants a JSON document back.
    pub fn post_form(at: CheckedUrl, fields: &[(&str, &str)]) -> FetchRequest {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        let body = form.extend_pairs(fields).finish();
        FetchRequest::post(at, "application/x-www-form-urlencoded", body)
    }

    fn post(at: CheckedUrl, content_type: &'static str, body: String) -> FetchRequest {
        let mut request = FetchRequest::get(at);
        request.method = Method::POST;
        request.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        request.body = body.into();
        request
    }

    /// The same with a header that is a secret.
    pub fn with_secret_header(mut self, name: HeaderName, value: &str) -> FetchRequest {
        if let Ok(mut value) = HeaderValue::from_str(value) {
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
        self
    }
}

/// Prints neither a header's value, nor the query, nor the body.
impl fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.url.origin().ascii_serialization();
        f.debug_struct("FetchRequest")
            .field("method", &self.method)
            .field("url", &format_args!("{origin}{}", self.url.path()))
            .field("headers", &self.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>())
            .field("body", &self.body.len())
            .field("allowed", &self.allowed)
            .finish()
    }
}

/// What came back.
#[derive(Clone)]
pub struct FetchResponse {
    /// The status code.
    pub status: u16,
    /// Every header.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl FetchResponse {
    /// Was it a success?
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The number that the next proof must hold (RFC 9449, section 8).
    pub fn dpop_nonce(&self) -> Option<String> {
        let nonce = self.headers.get("dpop-nonce")?.to_str().ok()?;
        (!nonce.is_empty() && nonce.len() <= 1024).then(|| nonce.to_owned())
    }
}

/// Prints neither a header's value nor the body.
impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchResponse")
            .field("status", &self.status)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Why nothing came back that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FetchError {
    /// Nobody answered, or not to the end.
    #[error("`{origin}` could not be reached: {detail}")]
    Unreachable {
        /// Whom it was about.
        origin: String,
        /// What the library says.
        detail: String,
    },
    /// It took too long.
    #[error("`{origin}` did not answer in time")]
    TimedOut {
        /// Whom it was about.
        origin: String,
    },
    /// It was larger than we take.
    #[error("the answer of `{origin}` is larger than {MAX_RESPONSE_SIZE} bytes")]
    TooLarge {
        /// Whom it was about.
        origin: String,
    },
    /// We were sent elsewhere and do not follow.
    #[error("`{origin}` redirects to `{to}`, where we do not follow")]
    Redirected {
        /// Whom it was about.
        origin: String,
        /// The other origin.
        to: String,
    },
    /// The name leads to an address that only a person may send us to.
    #[error("`{origin}` leads to a private address, and nobody but the server named it")]
    PrivateAddress {
        /// Whom it was about.
        origin: String,
    },
}

/// An answer that may take a while.
pub type FetchFuture<'a> =
    Pin<Box<dyn Future<Output = Result<FetchResponse, FetchError>> + Send + 'a>>;

/// Fetches.
pub trait Fetch: Send + Sync {
    /// Makes a request. A `GET` is followed where it is redirected within its origin, a `POST` never.
    fn fetch<'a>(&'a self, request: FetchRequest) -> FetchFuture<'a>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_prints_no_secret() {
        let url = Url::parse("https://a.b/token?code=canary").expect("a URL");
        let at = CheckedUrl { url, allowed: AllowedAddresses::Public };
        let request = FetchRequest::post_form(at, &[("client_secret", "canary")])
            .with_secret_header(header::AUTHORIZATION, "Basic canary");
        let shown = format!("{request:?}");
        assert!(!shown.contains("canary") && shown.contains("https://a.b/token"), "{shown}");
        assert_eq!(&request.body[..], b"client_secret=canary");
        let answer = FetchResponse { status: 200, headers: request.headers, body: request.body };
        assert!(!format!("{answer:?}").contains("canary"));
    }
}

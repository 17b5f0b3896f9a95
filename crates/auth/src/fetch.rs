//! Fetching metadata and tokens: requests, responses with a size limit, and the [`Fetch`] trait.
//! [`HttpFetcher`] fetches over the network; tests have their own implementation.

mod address;
mod download;
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
pub use download::{DownloadError, DownloadLimits};
pub use http_fetcher::HttpFetcher;
pub use resolver::PrivateAddressError;

/// The maximum size of a response body.
pub const MAX_RESPONSE_SIZE: usize = 1024 * 1024;

/// A request to fetch.
#[derive(Clone)]
pub struct FetchRequest {
    /// `GET` or `POST`.
    pub method: Method,
    /// The target, already checked by an [`origin_guard::OriginGuard`].
    pub url: Url,
    /// The headers of this request only: a request to another origin never inherits them.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The addresses that the request may reach.
    pub allowed: AllowedAddresses,
}

impl FetchRequest {
    /// A `GET` for a JSON document.
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

    /// A `POST` of a JSON document.
    pub fn post_json(at: CheckedUrl, body: &serde_json::Value) -> FetchRequest {
        FetchRequest::post(at, "application/json", body.to_string())
    }

    /// A `POST` of a form, with a JSON response.
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

    /// Adds a header marked as sensitive.
    pub fn with_secret_header(mut self, name: HeaderName, value: &str) -> FetchRequest {
        if let Ok(mut value) = HeaderValue::from_str(value) {
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
        self
    }
}

/// Prints neither header values, nor the query, nor the body.
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

/// A response.
#[derive(Clone)]
pub struct FetchResponse {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl FetchResponse {
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The nonce that the next DPoP proof must contain (RFC 9449, section 8).
    pub fn dpop_nonce(&self) -> Option<String> {
        let nonce = self.headers.get("dpop-nonce")?.to_str().ok()?;
        (!nonce.is_empty() && nonce.len() <= 1024).then(|| nonce.to_owned())
    }
}

/// Prints neither header values nor the body.
impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchResponse")
            .field("status", &self.status)
            .field("body", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Why there is no usable response.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FetchError {
    /// The connection failed.
    #[error("`{origin}` could not be reached: {detail}")]
    Unreachable {
        /// The origin of the request.
        origin: String,
        /// The error text of the HTTP library.
        detail: String,
    },
    /// The request timed out.
    #[error("`{origin}` did not respond in time")]
    TimedOut {
        /// The origin of the request.
        origin: String,
    },
    /// The response exceeds [`MAX_RESPONSE_SIZE`].
    #[error("the response of `{origin}` is larger than {MAX_RESPONSE_SIZE} bytes")]
    TooLarge {
        /// The origin of the request.
        origin: String,
    },
    /// The server redirects to another origin, or too often.
    #[error("`{origin}` redirects to `{to}`, which is not followed")]
    Redirected {
        /// The origin of the request.
        origin: String,
        /// The origin of the redirect target.
        to: String,
    },
    /// The host resolves to an address that only a configured URL may reach.
    #[error("`{origin}` resolves to a private address, which only a configured URL may do")]
    PrivateAddress {
        /// The origin of the request.
        origin: String,
    },
}

/// The future of a response.
pub type FetchFuture<'a> =
    Pin<Box<dyn Future<Output = Result<FetchResponse, FetchError>> + Send + 'a>>;

/// Sends requests.
pub trait Fetch: Send + Sync {
    /// Sends a request. Redirects of a `GET` are followed within its origin; those of a `POST` are not.
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
        let printed = format!("{request:?}");
        assert!(!printed.contains("canary") && printed.contains("https://a.b/token"), "{printed}");
        assert_eq!(&request.body[..], b"client_secret=canary");
        let response = FetchResponse { status: 200, headers: request.headers, body: request.body };
        assert!(!format!("{response:?}").contains("canary"));
    }
}

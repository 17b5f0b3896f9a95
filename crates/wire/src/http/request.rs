//! An HTTP request that can be sent more than once: after a redirect, or with new credentials.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, Method};
use url::Url;

/// A request. It borrows its URL until a redirect replaces it.
#[derive(Debug)]
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: Method,
    pub(crate) url: Cow<'a, Url>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpRequest<'_> {
    pub(crate) fn to_reqwest(&self) -> reqwest::Request {
        let mut request = reqwest::Request::new(self.method.clone(), Url::clone(&self.url));
        *request.headers_mut() = self.headers.clone();
        if !self.body.is_empty() {
            *request.body_mut() = Some(self.body.clone().into());
        }
        request
    }
}

//! A server at a URL, with the headers and credentials for its requests.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use url::Url;

use super::authorize::Authorize;
use super::origin::origin;
use crate::jsonrpc::message::DEFAULT_MAX_MESSAGE_SIZE;

/// A server at a URL.
#[derive(Clone)]
pub struct Target {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) max_message_size: usize,
    pub(crate) authorize: Option<Arc<dyn Authorize>>,
}

impl Target {
    /// A server without extra headers. User and password in the URL become an `Authorization` header.
    pub fn new(mut url: Url) -> Target {
        let mut headers = HeaderMap::new();
        if let Some(user) = basic_auth(&url) {
            headers.insert(header::AUTHORIZATION, user);
        }
        let _has_none = url.set_username("").and_then(|()| url.set_password(None));
        Target { url, headers, max_message_size: DEFAULT_MAX_MESSAGE_SIZE, authorize: None }
    }

    /// Adds headers to every request. Their values are treated as secrets.
    pub fn headers(mut self, headers: HeaderMap) -> Target {
        self.headers.extend(headers);
        self.headers.values_mut().for_each(|value| value.set_sensitive(true));
        self
    }

    /// Sets the size limit for messages from the server.
    pub fn max_message_size(mut self, bytes: usize) -> Target {
        self.max_message_size = bytes;
        self
    }

    /// Sets the source of credentials.
    pub fn authorize(mut self, authorize: Arc<dyn Authorize>) -> Target {
        self.authorize = Some(authorize);
        self
    }

    /// One of the headers of every request.
    pub fn header(&self, name: &str) -> Option<&HeaderValue> {
        self.headers.get(name)
    }

    /// The server's URL.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

/// The user and password of a URL as basic authentication (RFC 7617).
fn basic_auth(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut user = percent_decode(url.username());
    user.push(b':');
    user.extend(percent_decode(url.password().unwrap_or_default()));
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(user))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Decodes percent-encoding.
fn percent_decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            Some(_) | None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

/// Omits header values, and user and query of the URL.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("url", &format_args!("{}{}", origin(&self.url), self.url.path()))
            .field("headers", &self.headers.keys().map(|name| name.as_str()).collect::<Vec<_>>())
            .field("max_message_size", &self.max_message_size)
            .field("authorize", &self.authorize.is_some())
            .finish()
    }
}

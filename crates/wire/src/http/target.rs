//! Which server is meant, and what is shown to it with every request.

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
    /// A server that is shown nothing but what is said to it, and the user that the URL names.
    pub fn new(mut url: Url) -> Target {
        let mut headers = HeaderMap::new();
        if let Some(user) = basic_auth(&url) {
            headers.insert(header::AUTHORIZATION, user);
        }
        let _has_none = url.set_username("").and_then(|()| url.set_password(None));
        Target { url, headers, max_message_size: DEFAULT_MAX_MESSAGE_SIZE, authorize: None }
    }

    /// Headers for every request. They are taken for secrets.
    pub fn headers(mut self, headers: HeaderMap) -> Target {
        self.headers.extend(headers);
        self.headers.values_mut().for_each(|value| value.set_sensitive(true));
        self
    }

    /// The largest message that is taken from it.
    pub fn max_message_size(mut self, bytes: usize) -> Target {
        self.max_message_size = bytes;
        self
    }

    /// Somebody to ask what to show with every request.
    pub fn authorize(mut self, authorize: Arc<dyn Authorize>) -> Target {
        self.authorize = Some(authorize);
        self
    }

    /// The value of one of the headers that go with every message.
    pub fn header(&self, name: &str) -> Option<&HeaderValue> {
        self.headers.get(name)
    }

    /// The server's URL.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

/// The user in a URL, as RFC 7617 shows it to a server.
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

/// Undoes percent-encoding.
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

/// Prints no header's value, and of the URL neither user nor query.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("url", &format_args!("{}{}", origin(&self.url), self.url.path()))
            .field("headers", &self.headers.keys().map(|name| name.as_str()).collect::<Vec<_>>())
            .field("largest_message", &self.max_message_size)
            .field("authorize", &self.authorize.is_some())
            .finish()
    }
}

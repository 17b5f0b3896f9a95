//! Requests as test servers record them.

use axum::http::{HeaderMap, HeaderValue};
use serde_json::Value;

/// One HTTP request, or one WebSocket message.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// The HTTP method; `MESSAGE` for a WebSocket message.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers in order, their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, where it was JSON.
    pub body: Option<Value>,
}

impl RecordedRequest {
    /// The first header of this name, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The method of the message in the body.
    pub fn rpc_method(&self) -> Option<&str> {
        self.body.as_ref()?.get("method")?.as_str()
    }
}

/// Headers as they are recorded.
pub fn recorded_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

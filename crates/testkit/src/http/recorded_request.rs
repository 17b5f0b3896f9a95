//! Requests as test servers record them.

use axum::http::{HeaderMap, HeaderValue};
use serde_json::Value;

/// An HTTP request or a WebSocket message.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// The HTTP method; `MESSAGE` for a WebSocket message.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, if it is JSON.
    pub body: Option<Value>,
}

impl RecordedRequest {
    /// The first header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The JSON-RPC method in the body.
    pub fn rpc_method(&self) -> Option<&str> {
        self.body.as_ref()?.get("method")?.as_str()
    }
}

/// Headers for a record.
pub fn recorded_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

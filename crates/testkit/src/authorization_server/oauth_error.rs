//! Error responses of the OAuth endpoints.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::config::{AuthorizationConfig, OAuthQuirk};
use crate::http::response::{json_response, with_header};

/// An OAuth error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OAuthError {
    pub status: u16,
    pub error: String,
    pub description: &'static str,
}

impl OAuthError {
    pub fn new(error: &str, description: &'static str) -> OAuthError {
        let status = if error == "invalid_client" { 401 } else { 400 };
        OAuthError { status, error: error.to_owned(), description }
    }

    /// The HTTP response, subject to quirks.
    pub fn to_response(&self, config: &AuthorizationConfig) -> Response {
        let mut body = json!({"error": self.error, "error_description": self.description});
        let code = match config.has_quirk(&OAuthQuirk::ErrorsWithStatus200) {
            true => {
                body["ok"] = json!(false);
                StatusCode::OK
            }
            false => StatusCode::from_u16(self.status).expect("these statuses are valid"),
        };
        with_no_store(json_response(code, Body::from(body.to_string())))
    }
}

/// Forbids caching of a response.
pub(crate) fn with_no_store(response: Response) -> Response {
    with_header(response, "cache-control", "no-store")
}

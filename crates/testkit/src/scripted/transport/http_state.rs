//! State that all HTTP requests to one scripted server share, and the quirks that replace HTTP responses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use serde_json::Value;

use super::http_session::HttpSession;
use crate::http::response::{empty_response, with_header};
use crate::scripted::client_channel::ClientChannel;
use crate::scripted::client_session::ClientSession;
use crate::scripted::protocol::Handshake;
use crate::scripted::quirk::Quirk;
use crate::scripted::server_state::ServerState;

/// State that all requests to one server share.
#[derive(Debug)]
pub struct HttpState {
    pub server: Arc<ServerState>,
    /// Sessions by id.
    pub sessions: Mutex<HashMap<String, Arc<HttpSession>>>,
    /// The session of all clients without one.
    pub shared_session: Arc<ClientSession>,
    status_quirk_count: AtomicUsize,
}

/// A request with its body.
#[derive(Debug)]
pub struct HttpRequest {
    pub parts: Parts,
    pub body: Option<Value>,
    /// The headers as JSON.
    pub headers: Value,
}

impl HttpRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.parts.headers.get(name).and_then(|it| it.to_str().ok())
    }

    pub fn is_method(&self, method: &str) -> bool {
        self.parts.method == method
    }

    /// The JSON-RPC method; without a message, the HTTP method.
    pub fn rpc_method(&self) -> &str {
        let method = self.body.as_ref().and_then(|it| it["method"].as_str());
        method.unwrap_or(self.parts.method.as_str())
    }
}

impl HttpState {
    pub fn new(server: Arc<ServerState>) -> HttpState {
        let shared_session =
            ClientSession::new(&server, ClientChannel::discard(), Handshake::Complete);
        HttpState {
            server,
            sessions: Mutex::default(),
            shared_session,
            status_quirk_count: AtomicUsize::new(0),
        }
    }

    /// The response of a quirk instead of the regular one.
    pub(super) fn quirk_response(&self, http_request: &HttpRequest) -> Option<Response> {
        self.server.script.quirks.iter().find_map(|quirk| {
            if let Quirk::RequiresBearer { token } = quirk {
                return self.bearer_challenge(http_request, token);
            }
            if !self.server.script.quirks_apply_to(http_request.rpc_method()) {
                return None;
            }
            if let Quirk::RedirectsTo { url } = quirk {
                return Some(with_header(
                    empty_response(StatusCode::TEMPORARY_REDIRECT),
                    "location",
                    url,
                ));
            }
            self.status_quirk(quirk)
        })
    }

    fn bearer_challenge(&self, http_request: &HttpRequest, token: &str) -> Option<Response> {
        let challenge = match http_request.header("authorization") {
            Some(presented) if presented == format!("Bearer {token}") => return None,
            Some(_) => "Bearer realm=\"scripted\", error=\"invalid_token\"",
            None => "Bearer realm=\"scripted\"",
        };
        Some(with_header(empty_response(StatusCode::UNAUTHORIZED), "www-authenticate", challenge))
    }

    fn status_quirk(&self, quirk: &Quirk) -> Option<Response> {
        let Quirk::HttpStatus { status: code, body, headers, after, times } = quirk else {
            return None;
        };
        let number = self.status_quirk_count.fetch_add(1, Ordering::Relaxed);
        let last = times.map_or(usize::MAX, |it| after.saturating_add(it));
        if !(*after..last).contains(&number) {
            return None;
        }
        let mut response =
            empty_response(StatusCode::from_u16(*code).expect("a script has valid statuses"));
        *response.body_mut() = Body::from(body.clone());
        Some(headers.iter().fold(response, |it, (name, value)| with_header(it, name, value)))
    }
}

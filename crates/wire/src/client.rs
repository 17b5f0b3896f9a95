//! The client role: sends requests in the form that the server's era requires.
//! What results mean is left to the caller.

pub mod handshake;
mod input_required;
mod request;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderValue;
use serde_json::json;

use crate::jsonrpc::payload::Payload;
use crate::peer::{CallError, Peer};
use crate::protocol::capabilities::{ClientDescription, ServerCapabilities, ServerDescription};
use crate::protocol::era::Era;
use crate::protocol::meta_key;
use crate::transport::CloseReason;

pub use crate::peer::RequestHandler;
pub use request::{ClientMeta, RequestBuilder};

/// A connection to a server, after the handshake. Clones share it; it closes when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Client {
    peer: Peer,
    negotiation: Arc<Negotiation>,
}

/// The result of the handshake.
#[derive(Debug)]
struct Negotiation {
    server: ServerDescription,
    /// Metadata of every request; none in the legacy era.
    meta: Option<ModernMeta>,
}

/// Metadata of a modern request: members of `_meta`, and the version for the header.
#[derive(Debug)]
struct ModernMeta {
    /// The members of `_meta`, without the braces.
    members: String,
    /// Our client capabilities, as JSON.
    capabilities: String,
    version: HeaderValue,
}

impl Client {
    pub(crate) fn new_legacy(peer: &Peer, server: ServerDescription) -> Client {
        Client { peer: peer.clone(), negotiation: Arc::new(Negotiation { server, meta: None }) }
    }

    /// A modern client whose server has not described itself yet.
    pub(crate) fn new_modern(
        peer: &Peer,
        client_description: &ClientDescription,
        version: &'static str,
    ) -> Client {
        let meta = json!({
            meta_key::VERSION: version,
            meta_key::CLIENT_INFO: client_description.client_info(),
        });
        let capabilities = client_description.capabilities_json(Era::Modern).to_string();
        let whole = meta.to_string();
        let inner = whole.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let members = inner.unwrap_or_default().to_owned();
        let server = ServerDescription {
            era: Era::Modern,
            protocol_version: version.to_owned(),
            name: String::new(),
            title: None,
            server_version: String::new(),
            capabilities: ServerCapabilities::default(),
            instructions: None,
            raw: Payload::from_json(Bytes::from_static(b"{}")),
        };
        let meta =
            Some(ModernMeta { members, capabilities, version: HeaderValue::from_static(version) });
        Client { peer: peer.clone(), negotiation: Arc::new(Negotiation { server, meta }) }
    }

    pub(crate) fn with_server(self, server: ServerDescription) -> Client {
        let Client { peer, negotiation } = self;
        let meta = match Arc::try_unwrap(negotiation) {
            Ok(negotiation) => negotiation.meta,
            Err(shared) => shared.meta.as_ref().map(|modern_meta| ModernMeta {
                members: modern_meta.members.clone(),
                capabilities: modern_meta.capabilities.clone(),
                version: modern_meta.version.clone(),
            }),
        };
        Client { peer, negotiation: Arc::new(Negotiation { server, meta }) }
    }

    /// How the server described itself in the handshake.
    pub fn server(&self) -> &ServerDescription {
        &self.negotiation.server
    }

    /// Builds a request: `client.request("tools/list").params(p).timeout(d).send().await`.
    pub fn request(&self, method: impl Into<Cow<'static, str>>) -> RequestBuilder {
        RequestBuilder::new(self.clone(), method.into())
    }

    /// Sends a notification.
    pub async fn notify(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: Option<Payload>,
    ) -> Result<(), CallError> {
        self.peer.notify(method, params).await
    }

    /// Sends the server a request that it must answer, and returns how long the response took.
    pub async fn ping(&self, timeout: Duration) -> Result<Duration, CallError> {
        let started = Instant::now();
        let method = match self.negotiation.server.era {
            Era::Legacy => "ping",
            // The modern era has no `ping`; every server must implement this method.
            Era::Modern => "server/discover",
        };
        match self.request(method).timeout(timeout).send().await {
            // An error response is a response, too.
            Ok(_) | Err(CallError::Remote(_)) => Ok(started.elapsed()),
            Err(
                error
                @ (CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. }),
            ) => Err(error),
        }
    }

    /// The start of the first input that was not a message: at most 200 bytes, as the server sent them.
    pub fn first_malformed(&self) -> Option<&str> {
        self.peer.first_malformed()
    }

    /// How many notifications of the server were dropped so far, because they came faster than they were taken.
    pub fn dropped_notifications(&self) -> u64 {
        self.peer.dropped_notifications()
    }

    /// Whether the transport sends headers to the server.
    pub fn carries_headers(&self) -> bool {
        self.peer.carries_headers()
    }

    /// Closes the connection for all clones. Pending calls fail.
    pub fn close(&self) {
        self.peer.close();
    }

    /// Waits until the connection is closed.
    pub async fn closed(&self) -> CloseReason {
        self.peer.closed().await
    }
}

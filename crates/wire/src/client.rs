//! The client's side of a conversation, the same in both eras: asks in the way that the server wants to be asked.
//! What answers mean is left to whoever asked.

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

/// A conversation with a server. Clones share it; it ends when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Client {
    peer: Peer,
    negotiation: Arc<Negotiation>,
}

/// How this server is spoken to.
#[derive(Debug)]
struct Negotiation {
    server: ServerDescription,
    /// What every request carries in `_meta`; nothing in the legacy era.
    meta: Option<ModernMeta>,
}

/// What a modern request carries: members of `_meta`, and the version for the header.
#[derive(Debug)]
struct ModernMeta {
    /// The members, without the braces around them.
    members: String,
    /// What we can do, as JSON.
    capabilities: String,
    version: HeaderValue,
}

impl Client {
    pub(crate) fn new_legacy(peer: &Peer, server: ServerDescription) -> Client {
        Client { peer: peer.clone(), negotiation: Arc::new(Negotiation { server, meta: None }) }
    }

    /// A client that has yet to be introduced.
    pub(crate) fn new_modern(
        peer: &Peer,
        offer: &ClientDescription,
        version: &'static str,
    ) -> Client {
        let meta = json!({
            meta_key::VERSION: version,
            meta_key::CLIENT_INFO: offer.client_info(),
        });
        let capabilities = offer.capabilities_json(Era::Modern).to_string();
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

    /// What the server said of itself.
    pub fn server(&self) -> &ServerDescription {
        &self.negotiation.server
    }

    /// A request to be made: `client.request("tools/list").params(p).within(d).send().await`.
    pub fn request(&self, method: impl Into<Cow<'static, str>>) -> RequestBuilder {
        RequestBuilder::new(self.clone(), method.into())
    }

    /// Says something that wants no answer.
    pub async fn notify(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: Option<Payload>,
    ) -> Result<(), CallError> {
        self.peer.notify(method, params).await
    }

    /// Asks the server whether it is there, and how long that takes it.
    pub async fn ping(&self, timeout: Duration) -> Result<Duration, CallError> {
        let started = Instant::now();
        let method = match self.negotiation.server.era {
            Era::Legacy => "ping",
            // There is no ping any more; this is what every server of this era must answer.
            Era::Modern => "server/discover",
        };
        match self.request(method).timeout(timeout).send().await {
            // A server that does not know the question has answered it.
            Ok(_) | Err(CallError::Remote(_)) => Ok(started.elapsed()),
            Err(
                error
                @ (CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. }),
            ) => Err(error),
        }
    }

    /// Do headers reach the server?
    pub fn carries_headers(&self) -> bool {
        self.peer.carries_headers()
    }

    /// Ends the conversation for everybody who holds it; calls under way fail.
    pub fn close(&self) {
        self.peer.close();
    }

    /// Waits until the conversation has ended.
    pub async fn closed(&self) -> CloseReason {
        self.peer.closed().await
    }
}

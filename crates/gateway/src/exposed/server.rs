//! A server as the gateway exposes it.

use std::sync::Arc;

use serde_json::{Map, Value as Json};
use switchboard::connection::{ClientIsolation, ServerView};
use switchboard::pool::naming;
use switchboard_config::entry::server::TransportKind;
use switchboard_wire::protocol::era::Era;

/// A server's own name for a prompt or template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerItem {
    pub(crate) server: Arc<str>,
    pub(crate) name: String,
}

/// A connected server and its capabilities.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExposedServer {
    pub(crate) server: Arc<str>,
    /// The server's name in permission rules.
    pub(crate) prefix: String,
    pub(crate) era: Era,
    pub(crate) transport: TransportKind,
    pub(crate) is_local_process: bool,
    pub(crate) isolation: ClientIsolation,
    pub(crate) capabilities: Map<String, Json>,
    pub(crate) instructions: Option<String>,
}

impl ExposedServer {
    /// Reads a server's view. None before its handshake.
    pub(crate) fn from_view(view: &ServerView) -> Option<ExposedServer> {
        let info = view.server_info.as_ref()?;
        let raw: Json = info.raw.decode().ok()?;
        Some(ExposedServer {
            server: view.name.as_str().into(),
            prefix: naming::prefix(&view.name, naming::NameOrigin::of(view.scope)),
            era: info.era,
            transport: view.transport,
            is_local_process: matches!(view.transport, TransportKind::Stdio | TransportKind::Sdk),
            isolation: view.isolation,
            capabilities: raw["capabilities"].as_object().cloned().unwrap_or_default(),
            instructions: info.instructions.clone(),
        })
    }

    /// A server that connects, with the instructions of its last connection. None if there are none.
    pub(crate) fn from_remembered(view: &ServerView) -> Option<ExposedServer> {
        let instructions = view.remembered.as_ref()?.instructions.clone()?;
        Some(ExposedServer {
            server: view.name.as_str().into(),
            prefix: naming::prefix(&view.name, naming::NameOrigin::of(view.scope)),
            era: Era::Legacy,
            transport: view.transport,
            is_local_process: matches!(view.transport, TransportKind::Stdio | TransportKind::Sdk),
            isolation: view.isolation,
            capabilities: Map::new(),
            instructions: Some(instructions),
        })
    }

    /// Do the server's requests say which call they belong to? In the modern era a server sends no requests.
    pub(crate) fn attributes_requests(&self) -> bool {
        self.era == Era::Modern || self.is_streamable_http()
    }

    /// Do the server's notifications say which call they belong to? A legacy server may send them outside of its streams
    /// for calls, and over other transports nothing says it.
    pub(crate) fn attributes_notifications(&self) -> bool {
        self.era == Era::Modern && self.is_streamable_http()
    }

    /// Over streamable HTTP each message comes on the stream of its call.
    pub(crate) fn is_streamable_http(&self) -> bool {
        match self.transport {
            TransportKind::Http | TransportKind::ConnectorProxy => true,
            TransportKind::Stdio
            | TransportKind::Sse
            | TransportKind::Ws
            | TransportKind::SseIde
            | TransportKind::WsIde
            | TransportKind::Sdk => false,
        }
    }

    pub(crate) fn has_capability(&self, capability: &str) -> bool {
        self.capabilities
            .get(capability)
            .is_some_and(|it| !it.is_null() && *it != Json::Bool(false))
    }

    /// Does the server need `logging/setLevel` to send log messages? Modern servers read the level in each request.
    pub(crate) fn needs_log_level(&self) -> bool {
        self.era == Era::Legacy && self.has_capability("logging")
    }

    /// The names of its extensions, standard and experimental.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = &str> {
        ["extensions", "experimental"]
            .into_iter()
            .filter_map(|it| self.capabilities.get(it).and_then(Json::as_object))
            .flat_map(Map::keys)
            .map(String::as_str)
    }
}

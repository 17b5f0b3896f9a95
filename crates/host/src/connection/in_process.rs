//! Servers in this process, servers that an embedding program hosts, both behind definitions of type `sdk`, and servers
//! that an embedding program embeds, which need no definition.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde_json::json;
use switchboard_config::entry::server::ToolFilter;
use switchboard_wire::client::handshake::EraHint;
use switchboard_wire::connect::{Address, ServeFuture};
use switchboard_wire::protocol::capabilities::ClientCapability;
use switchboard_wire::transport::in_memory::InMemoryTransport;

use crate::sources::desired_server::{DesiredServer, desired_servers};
use crate::sources::loader;

/// A server in this process. Each connection runs its own session, which ends with the connection.
#[derive(Clone)]
pub struct InProcessServer {
    serve: Arc<dyn Fn(InMemoryTransport) -> ServeFuture + Send + Sync>,
    era_hint: EraHint,
    /// What it learns in the handshake; `None` for the capabilities of the host.
    client_capabilities: Option<Vec<ClientCapability>>,
    isolation: ClientIsolation,
}

/// Whether clients of a gateway may share a connection to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientIsolation {
    /// They may, if the gateway's operator says so.
    #[default]
    Shareable,
    /// Never: what the server keeps, such as logins in a browser, belongs to one client.
    PerClient,
}

impl fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcessServer")
    }
}

impl InProcessServer {
    /// A server that serves a transport until the transport ends. The host runs the future. When it closes the
    /// connection, it waits for the future to end, and drops it after a timeout.
    pub fn new<S, F>(serve: S) -> InProcessServer
    where
        S: Fn(InMemoryTransport) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        InProcessServer {
            serve: Arc::new(move |transport| Box::pin(serve(transport))),
            era_hint: EraHint::Unknown,
            client_capabilities: None,
            isolation: ClientIsolation::Shareable,
        }
    }

    /// The same server, to which clients of a gateway never share a connection.
    pub fn per_client(self) -> InProcessServer {
        InProcessServer { isolation: ClientIsolation::PerClient, ..self }
    }

    /// The same server, which is not probed for the modern era.
    pub fn legacy(self) -> InProcessServer {
        InProcessServer { era_hint: EraHint::Legacy, ..self }
    }

    /// The same server, which is offered only these capabilities.
    pub fn with_client_capabilities(self, capabilities: Vec<ClientCapability>) -> InProcessServer {
        InProcessServer { client_capabilities: Some(capabilities), ..self }
    }

    pub(crate) fn client_capabilities(&self) -> Option<&Vec<ClientCapability>> {
        self.client_capabilities.as_ref()
    }

    pub(crate) fn isolation(&self) -> ClientIsolation {
        self.isolation
    }

    pub(crate) fn era_hint(&self) -> EraHint {
        self.era_hint
    }

    pub(crate) fn address(&self) -> Address {
        Address::InProcess(self.serve.clone())
    }
}

/// Finds the server that an embedding program hosts under a name.
pub type HostedServers = Arc<dyn Fn(&str) -> Option<InProcessServer> + Send + Sync>;

/// The servers of definitions of type `sdk`.
#[derive(Clone, Default)]
pub(crate) struct InProcessServers {
    /// The registered ones, which come first.
    pub(crate) registered: BTreeMap<String, InProcessServer>,
    pub(crate) hosted: Option<HostedServers>,
}

impl InProcessServers {
    pub(crate) fn find(&self, name: &str) -> Option<InProcessServer> {
        let registered = self.registered.get(name).cloned();
        registered.or_else(|| self.hosted.as_ref().and_then(|find| find(name)))
    }

    /// The servers as the definition of this name finds them. A program knows a server that it hosts by the name of its
    /// definition, whatever name the definition contains.
    pub(crate) fn of_definition(&self, server: &str) -> InProcessServers {
        let server = server.to_owned();
        let hosted = self
            .hosted
            .clone()
            .map(|find| -> HostedServers { Arc::new(move |_name_in_entry| find(&server)) });
        InProcessServers { registered: self.registered.clone(), hosted }
    }
}

/// A server of the embedding program: it runs without a definition, its tools have plain names, and no list of servers
/// contains it. No definition reaches it, whatever name it chooses.
#[derive(Debug, Clone)]
pub struct EmbeddedServer {
    /// The server.
    pub server: InProcessServer,
    /// Which of its tools are in the pool.
    pub tools: ToolFilter,
}

impl EmbeddedServer {
    /// The definition that the engine runs; `None` where the name is invalid.
    pub(crate) fn desired(&self, name: &str) -> Option<DesiredServer> {
        let definition = json!({"mcpServers": {name: {"type": "sdk"}}}).to_string();
        let effective = loader::from_program("the embedding program", &definition);
        let mut desired = desired_servers(&effective).pop()?;
        desired.spec.common.tools = self.tools.clone();
        Some(desired)
    }
}

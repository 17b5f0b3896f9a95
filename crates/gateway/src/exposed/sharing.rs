//! Which clients share a connection to a server, and the key of a connection that they do not share.

use switchboard::connection::dedicated::DedicatedConnection;
use switchboard_wire::protocol::era::Era;

use crate::downstream::client::{Client, ClientCapabilities};
use crate::exposed::server::ExposedServer;

/// Which clients share a connection to a server that keeps state about its client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConnectionSharing {
    /// All clients.
    #[default]
    Shared,
    /// All clients of one principal.
    PerPrincipal,
    /// None: each session has its own connection and answers `roots/list` itself.
    PerSession,
}

impl ConnectionSharing {
    /// The dedicated connection that a client uses for a server; None for the shared one. Modern remote servers keep no
    /// state and read the client's capabilities in each request, so that all clients share their connection.
    pub(crate) fn dedicated_connection(
        self,
        client: &Client,
        server: &ExposedServer,
    ) -> Option<DedicatedConnection> {
        if server.era == Era::Modern && !server.is_local_process {
            return None;
        }
        // Another connection costs a remote server little, another process costs much: a shared process is offered all
        // capabilities, and a request that the client does not support is refused when it arrives.
        let is_shared_process = server.is_local_process && self == ConnectionSharing::Shared;
        let capabilities =
            if is_shared_process { ClientCapabilities::ALL } else { client.capabilities() };
        let owner = self.owner(client);
        if owner.is_empty() && capabilities.has_all() {
            return None;
        }
        let default_handler = match self {
            ConnectionSharing::PerSession => client.session_handler(),
            ConnectionSharing::Shared | ConnectionSharing::PerPrincipal => None,
        };
        Some(DedicatedConnection {
            key: connection_key(&owner, capabilities).into(),
            client_capabilities: capabilities.advertised(),
            default_handler,
        })
    }

    /// The key of the connections that a client shares with no other, where it has such connections.
    pub(crate) fn own_connection_key(self, client: &Client) -> Option<String> {
        match self {
            ConnectionSharing::Shared | ConnectionSharing::PerPrincipal => None,
            ConnectionSharing::PerSession => {
                Some(connection_key(&self.owner(client), client.capabilities()))
            }
        }
    }

    /// Names the clients that share a connection; empty for all clients.
    fn owner(self, client: &Client) -> String {
        match self {
            ConnectionSharing::Shared => String::new(),
            ConnectionSharing::PerPrincipal => client.principal.to_string(),
            ConnectionSharing::PerSession => {
                format!("{}/{}", client.principal, client.dedicated_connection_id())
            }
        }
    }
}

fn connection_key(owner: &str, capabilities: ClientCapabilities) -> String {
    format!("{owner}|{capabilities}")
}

//! Which clients share a connection to a server, and the key of a connection that they do not share.

use switchboard::connection::{ClientIsolation, DedicatedConnection};
use switchboard_wire::protocol::era::Era;

use crate::downstream::client::{Client, ClientCapabilities};
use crate::downstream::leases::ConnectionLease;
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

/// Which connection a session uses whose client servers can send requests to, for a server whose messages do not say
/// which call they belong to: legacy servers over stdio, WebSocket and HTTP+SSE.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InteractiveSessions {
    /// One of its own, so that each message of the server belongs to this session.
    #[default]
    OwnConnection,
    /// The one that [`ConnectionSharing`] says. While calls of several sessions run, messages that name no call are
    /// refused.
    AsShared,
}

/// Which clients share a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SharingPolicy {
    pub(crate) sharing: ConnectionSharing,
    pub(crate) interactive: InteractiveSessions,
}

impl SharingPolicy {
    /// The dedicated connection that a client uses for a server; None for the shared one. Modern remote servers keep no
    /// state and read the client's capabilities in each request, so that all clients share their connection.
    pub(crate) fn dedicated_connection(
        self,
        client: &Client,
        server: &ExposedServer,
        lease: Option<&ConnectionLease>,
    ) -> Option<DedicatedConnection> {
        let is_per_client = server.isolation == ClientIsolation::PerClient;
        if server.era == Era::Modern && !server.is_local_process {
            return None;
        }
        if let Some(lease) = lease {
            return Some(DedicatedConnection {
                key: lease.connection_key().into(),
                account: client.account.clone(),
                client_capabilities: client.capabilities().advertised(),
                default_handler: None,
            });
        }
        let sharing = match is_per_client || self.has_own_connection(client, server) {
            true => ConnectionSharing::PerSession,
            false => self.sharing,
        };
        // Another connection costs a remote server little, another process costs much: a shared process is offered all
        // capabilities, and a request that the client does not support is refused when it arrives.
        let is_shared_process = server.is_local_process && sharing == ConnectionSharing::Shared;
        let capabilities =
            if is_shared_process { ClientCapabilities::ALL } else { client.capabilities() };
        let owner = owner(sharing, client);
        if owner.is_empty() && capabilities.has_all() {
            return None;
        }
        let default_handler = match sharing {
            ConnectionSharing::PerSession => client.session_handler(),
            ConnectionSharing::Shared | ConnectionSharing::PerPrincipal => None,
        };
        Some(DedicatedConnection {
            key: connection_key(&owner, capabilities).into(),
            account: client.account.clone(),
            client_capabilities: capabilities.advertised(),
            default_handler,
        })
    }

    /// Does a request of the client need a connection for itself, because the client has no session?
    pub(crate) fn needs_lease(self, client: &Client, server: &ExposedServer) -> bool {
        // What such a server keeps has to be there for the next request, too.
        server.isolation == ClientIsolation::Shareable
            && self.interactive == InteractiveSessions::OwnConnection
            && !client.has_session()
            && (is_asked(client, server) || gets_logs(client, server))
    }

    /// Does the client have a connection of its own to this server, whatever the others share?
    fn has_own_connection(self, client: &Client, server: &ExposedServer) -> bool {
        match self.interactive {
            InteractiveSessions::AsShared => false,
            InteractiveSessions::OwnConnection => {
                client.has_session() && (is_asked(client, server) || gets_logs(client, server))
            }
        }
    }

    /// The key of the connections that a client shares with no other, where it may have such connections.
    pub(crate) fn own_connection_key(
        self,
        client: &Client,
        servers: &[ExposedServer],
    ) -> Option<String> {
        let may_have_own = self.sharing == ConnectionSharing::PerSession
            || servers.iter().any(|it| it.isolation == ClientIsolation::PerClient)
            || (self.interactive == InteractiveSessions::OwnConnection
                && (client.capabilities().has_any() || client.log_level().is_some()));
        let key =
            || connection_key(&owner(ConnectionSharing::PerSession, client), client.capabilities());
        may_have_own.then(key)
    }
}

/// May the server send requests to the client that do not say which call they belong to?
fn is_asked(client: &Client, server: &ExposedServer) -> bool {
    !server.attributes_requests() && client.capabilities().has_any()
}

/// Does the client get log messages of the server that do not say which call they belong to? On a shared connection they
/// would be dropped for a while after each call of another session.
fn gets_logs(client: &Client, server: &ExposedServer) -> bool {
    !server.attributes_notifications() && client.log_level().is_some()
}

/// Names the clients that share a connection; empty for all clients.
fn owner(sharing: ConnectionSharing, client: &Client) -> String {
    match sharing {
        ConnectionSharing::Shared => String::new(),
        ConnectionSharing::PerPrincipal => format!("principal:{}", client.principal),
        ConnectionSharing::PerSession if client.has_session() => {
            format!("session:{}/{}", client.principal, client.session)
        }
        // Modern clients over HTTP have no session: all requests of an account share one connection.
        ConnectionSharing::PerSession => format!("account:{}/{}", client.principal, client.account),
    }
}

fn connection_key(owner: &str, capabilities: ClientCapabilities) -> String {
    format!("{owner}|{capabilities}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value as Json, json};
    use switchboard_config::entry::server::TransportKind;
    use switchboard_wire::jsonrpc::message::Payload;
    use switchboard_wire::protocol::log_level::LogLevel;

    use super::*;

    fn client(principal: &str, era: Era, capabilities: &Json) -> Client {
        let capabilities = Payload::encode(capabilities).expect("JSON");
        Client::new(principal.into(), era, Some(&capabilities))
    }

    fn server(era: Era, transport: TransportKind) -> ExposedServer {
        ExposedServer {
            server: "s".into(),
            prefix: "s".to_owned(),
            era,
            transport,
            is_local_process: matches!(transport, TransportKind::Stdio),
            isolation: ClientIsolation::Shareable,
            capabilities: Map::new(),
            instructions: None,
        }
    }

    /// Do two sessions of one principal use two connections?
    #[track_caller]
    fn check(policy: SharingPolicy, capabilities: &Json, server: &ExposedServer, expected: bool) {
        let key = || {
            let client = client("ada", Era::Legacy, capabilities);
            policy.dedicated_connection(&client, server, None).map(|it| it.key)
        };
        assert_eq!(key() != key(), expected, "{policy:?} {capabilities} {server:?}");
    }

    #[test]
    fn sessions_with_a_log_level_share_no_server_whose_messages_do_not_say_their_call() {
        let (sharing, interactive) =
            (ConnectionSharing::Shared, InteractiveSessions::OwnConnection);
        let policy = SharingPolicy { sharing, interactive };
        let check = |server: &ExposedServer, expected: bool| {
            let key = || {
                let client = client("ada", Era::Legacy, &json!({}));
                client.set_log_level(LogLevel::Info);
                policy.dedicated_connection(&client, server, None).map(|it| it.key)
            };
            assert_eq!(key() != key(), expected, "{server:?}");
        };
        check(&server(Era::Legacy, TransportKind::Stdio), true);
        check(&server(Era::Modern, TransportKind::Stdio), true);
        check(&server(Era::Legacy, TransportKind::Http), true);
        check(&server(Era::Modern, TransportKind::Http), false);
    }

    #[test]
    fn clients_never_share_a_server_that_keeps_what_belongs_to_one_of_them() {
        let isolation = ClientIsolation::PerClient;
        let server = ExposedServer {
            is_local_process: true,
            isolation,
            ..server(Era::Modern, TransportKind::Sdk)
        };
        for sharing in [
            ConnectionSharing::Shared,
            ConnectionSharing::PerPrincipal,
            ConnectionSharing::PerSession,
        ] {
            for interactive in [InteractiveSessions::OwnConnection, InteractiveSessions::AsShared] {
                let policy = SharingPolicy { sharing, interactive };
                check(policy, &json!({}), &server, true);
                check(
                    policy,
                    &json!({"elicitation": {}, "roots": {}, "sampling": {}}),
                    &server,
                    true,
                );
                let key = |account: &str| {
                    let client =
                        client("local", Era::Modern, &json!({})).with_account(account.into());
                    client.set_log_level(LogLevel::Info);
                    assert!(
                        !policy.needs_lease(&client, &server),
                        "its next request has to find it"
                    );
                    policy.dedicated_connection(&client, &server, None).map(|it| it.key)
                };
                assert!(key("192.0.2.1").is_some());
                assert_eq!(key("192.0.2.1"), key("192.0.2.1"), "one address without a session");
                assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
                let ended = client("ada", Era::Legacy, &json!({}));
                let own =
                    policy.dedicated_connection(&ended, &server, None).map(|it| it.key.to_string());
                assert_eq!(
                    policy.own_connection_key(&ended, std::slice::from_ref(&server)),
                    own,
                    "it is closed"
                );
            }
        }
    }

    #[test]
    fn sessions_that_can_be_asked_share_no_server_that_does_not_say_which_call_it_asks_for() {
        let asked = json!({"elicitation": {}});
        for sharing in [ConnectionSharing::Shared, ConnectionSharing::PerPrincipal] {
            let policy = SharingPolicy { sharing, interactive: InteractiveSessions::OwnConnection };
            for transport in [TransportKind::Stdio, TransportKind::Ws, TransportKind::Sse] {
                check(policy, &asked, &server(Era::Legacy, transport), true);
                check(policy, &json!({}), &server(Era::Legacy, transport), false);
            }
            check(policy, &asked, &server(Era::Legacy, TransportKind::Http), false);
            check(policy, &asked, &server(Era::Modern, TransportKind::Stdio), false);
            let as_shared = SharingPolicy { interactive: InteractiveSessions::AsShared, ..policy };
            check(as_shared, &asked, &server(Era::Legacy, TransportKind::Stdio), false);
        }
    }
}

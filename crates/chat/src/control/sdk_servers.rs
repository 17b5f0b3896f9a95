//! MCP servers that the program hosts: their messages go over the control channel.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard::wire::shared::Shared;
use switchboard::wire::transport::control_channel;
use switchboard::wire::transport::control_channel::{ChannelError, ControlChannel};
use switchboard::wire::transport::in_memory::InMemoryTransport;
use switchboard::{HostedServers, InProcessServer};
use tokio::sync::mpsc;

use crate::control::peer::{ControlError, ControlPeer};

/// How many messages of a server may wait for its connection.
const INCOMING_BUFFER: usize = 64;

/// The servers that the program hosts.
#[derive(Debug, Clone)]
pub struct SdkServers {
    peer: ControlPeer,
    /// Where messages go that a server sends by itself, for each open connection.
    connections: Shared<BTreeMap<String, mpsc::Sender<Bytes>>>,
}

impl SdkServers {
    /// Servers at the other end of this channel.
    pub fn new(peer: ControlPeer) -> SdkServers {
        SdkServers { peer, connections: Shared::default() }
    }

    /// Finds a server by the name in its entry. Every name is found: only a connection shows whether the program knows it.
    pub fn hosted(&self) -> HostedServers {
        let servers = self.clone();
        Arc::new(move |name| {
            let (servers, name) = (servers.clone(), name.to_owned());
            let serve = move |transport| servers.clone().serve(name.clone(), transport);
            // The SDKs know no other era, and carry no requests of a server.
            let server = InProcessServer::new(serve).legacy();
            Some(server.with_client_capabilities(Vec::new()))
        })
    }

    /// Delivers a message that a server sent by itself. False if no connection to it is open.
    pub(crate) async fn deliver(&self, server: &str, message: Bytes) -> bool {
        let connection = self.connections.read(|it| it.get(server).cloned());
        match connection {
            Some(connection) => connection.send(message).await.is_ok(),
            None => false,
        }
    }

    async fn serve(self, name: String, transport: InMemoryTransport) {
        let (sender, incoming) = mpsc::channel(INCOMING_BUFFER);
        self.connections.update(|it| it.insert(name.clone(), sender.clone()));
        let channel = ServerChannel { peer: self.peer.clone(), name: name.as_str().into() };
        control_channel::relay(transport, Arc::new(channel), incoming).await;
        self.connections.update(|it| {
            // A new connection may have replaced this one.
            if it.get(&name).is_some_and(|it| it.same_channel(&sender)) {
                it.remove(&name);
            }
        });
    }
}

/// The channel to one server.
struct ServerChannel {
    peer: ControlPeer,
    name: Arc<str>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    mcp_response: &'a RawValue,
}

impl ControlChannel for ServerChannel {
    fn deliver(&self, message: Bytes) -> BoxFuture<'static, Result<Bytes, ChannelError>> {
        let (peer, name) = (self.peer.clone(), self.name.clone());
        async move {
            let message = std::str::from_utf8(&message)
                .map_err(|_| ChannelError::Refused("a message is not UTF-8".to_owned()))?;
            let name = serde_json::Value::from(&*name);
            let request = format!(
                "{{\"subtype\":\"mcp_message\",\"server_name\":{name},\"message\":{message}}}"
            );
            let answer = peer.raw_request(&request).await.map_err(|error| match error {
                ControlError::Closed => ChannelError::Closed,
                ControlError::Refused(_) | ControlError::TooLarge(_) => {
                    ChannelError::Refused(error.to_string())
                }
            })?;
            let parsed: Result<Answer<'_>, _> = serde_json::from_slice(&answer);
            match parsed {
                Ok(parsed) => Ok(answer.slice_ref(parsed.mcp_response.get().as_bytes())),
                // What answers a notification is not read.
                Err(_) => Ok(Bytes::from_static(b"{}")),
            }
        }
        .boxed()
    }
}

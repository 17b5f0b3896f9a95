//! Notifications that are specific to IDEs and editors: what one is told after the handshake, and what it announces.

use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};
use switchboard_config::entry::server::TransportConfig;
use switchboard_wire::client::Client;
use switchboard_wire::jsonrpc::message::Payload;
use tracing::debug;

use crate::connection::context::ConnectionContext;
use crate::ide::{IdeEvent, ide_connected};
use crate::sources::desired_server::DesiredServer;

/// The name with which an editor registers its server in this process.
pub(crate) const EDITOR_SERVER: &str = "claude-vscode";

/// Tells a server what it expects right after the handshake, before its lists are fetched.
pub(super) async fn send(client: &Client, desired: &DesiredServer) {
    let Some((method, params)) = announcement(desired) else { return };
    let params = Payload::from_json(params.to_string().into());
    let _closed = client.notify(method, Some(params)).await;
}

fn announcement(desired: &DesiredServer) -> Option<(&'static str, Json)> {
    match &desired.spec.transport {
        TransportConfig::SseIde(_) | TransportConfig::WsIde(_) => {
            Some(ide_connected(std::process::id()))
        }
        TransportConfig::Sdk { name } if name == EDITOR_SERVER => {
            Some(("experiment_gates", json!({"gates": {}})))
        }
        TransportConfig::Sdk { .. }
        | TransportConfig::Stdio(_)
        | TransportConfig::Http(_)
        | TransportConfig::Sse(_)
        | TransportConfig::Ws(_)
        | TransportConfig::ConnectorProxy(_) => None,
    }
}

/// Whether a server sends the notifications of IDEs: one that the host found, or the one of an editor that runs this process.
pub(super) fn is_expected(desired: &DesiredServer) -> bool {
    match &desired.spec.transport {
        TransportConfig::SseIde(_) | TransportConfig::WsIde(_) => true,
        TransportConfig::Sdk { name } => name == EDITOR_SERVER,
        TransportConfig::Stdio(_)
        | TransportConfig::Http(_)
        | TransportConfig::Sse(_)
        | TransportConfig::Ws(_)
        | TransportConfig::ConnectorProxy(_) => false,
    }
}

/// Passes a notification of an IDE on.
pub(super) fn receive(context: &ConnectionContext, method: &str, params: Option<&Payload>) {
    let params: Json = params.and_then(|it| it.decode().ok()).unwrap_or_default();
    match IdeEvent::parse(method, &params) {
        Some(IdeEvent::Logged) => {
            context.ide_log_events.fetch_add(1, Ordering::Relaxed);
        }
        Some(event) => {
            let _no_receiver = context.ide_events.send(event);
        }
        None => debug!("unknown notification of the IDE dropped"),
    }
}

//! The handshake: finds the server's era without disturbing legacy servers, and agrees on a version.

use std::time::Duration;

use serde_json::json;
use thiserror::Error;
use tokio::time::timeout;
use tracing::{debug, info};

use super::Client;
use crate::jsonrpc::message::{Payload, RpcError};
use crate::peer::{CallError, Peer};
use crate::protocol::capabilities::{ClientDescription, ServerDescription, supported_versions};
use crate::protocol::era::{Era, LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::protocol::errors::code;
use crate::transport_error::TransportError;

/// How long `server/discover` may stay unanswered before `initialize` is sent as well.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The known facts about a server's era before the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraHint {
    /// Nothing. `server/discover` is sent first.
    Unknown,
    /// The server is a legacy one. `initialize` is sent first, because it may not know `server/discover`.
    Legacy,
}

/// The handshake failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the handshake with the server failed")]
pub struct HandshakeError {
    /// The request that failed.
    pub stage: HandshakeStage,
    /// The cause.
    #[source]
    pub kind: HandshakeErrorKind,
}

/// The first request of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeStage {
    /// `server/discover`
    Discover,
    /// `initialize`
    Initialize,
}

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandshakeErrorKind {
    /// The request failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server supports none of our protocol versions.
    #[error("the server supports only {}", .server_versions.join(", "))]
    NoCommonVersion {
        /// The versions that the server supports.
        server_versions: Vec<String>,
    },
    /// The result is not a valid handshake result.
    #[error("the server's handshake response is invalid")]
    InvalidResponse,
}

impl HandshakeStage {
    fn method(self) -> &'static str {
        match self {
            HandshakeStage::Discover => "server/discover",
            HandshakeStage::Initialize => "initialize",
        }
    }
}

impl HandshakeErrorKind {
    /// The kind of error for logs, without anything that the server sent.
    fn log_label(&self) -> &'static str {
        match self {
            HandshakeErrorKind::Call(error) => error.log_label(),
            HandshakeErrorKind::NoCommonVersion { .. } => "no common protocol version",
            HandshakeErrorKind::InvalidResponse => "invalid response",
        }
    }
}

/// The classified response to `server/discover`.
enum DiscoverOutcome {
    Modern(Box<Client>),
    /// The server does not know the method, so it is a legacy server.
    Legacy,
    Failed(HandshakeErrorKind),
}

/// Performs the handshake in the server's era.
pub async fn negotiate(
    peer: &Peer,
    client_description: &ClientDescription,
    hint: EraHint,
) -> Result<Client, HandshakeError> {
    let negotiated = negotiate_era(peer, client_description, hint).await;
    match &negotiated {
        Ok(client) => {
            let ServerDescription { era, protocol_version, .. } = client.server();
            info!(era = era.as_str(), protocol_version, "handshake completed");
        }
        Err(HandshakeError { stage, kind }) => {
            debug!(method = stage.method(), error = kind.log_label(), "handshake failed");
        }
    }
    negotiated
}

async fn negotiate_era(
    peer: &Peer,
    client_description: &ClientDescription,
    hint: EraHint,
) -> Result<Client, HandshakeError> {
    match hint {
        EraHint::Legacy => match initialize(peer, client_description).await {
            Ok(client) => Ok(client),
            // A server that was a legacy one may have been updated since.
            Err(error) if is_rpc_error(&error) => match discover(peer, client_description).await {
                DiscoverOutcome::Modern(client) => Ok(*client),
                DiscoverOutcome::Legacy | DiscoverOutcome::Failed(_) => Err(error),
            },
            Err(error) => Err(error),
        },
        EraHint::Unknown => probe(peer, client_description).await,
    }
}

/// Sends `server/discover`, and `initialize` as well if there is no response in time. A slow server responds to
/// both; the valid response shows its era.
async fn probe(
    peer: &Peer,
    client_description: &ClientDescription,
) -> Result<Client, HandshakeError> {
    let discover = discover(peer, client_description);
    tokio::pin!(discover);
    if let Ok(outcome) = timeout(PROBE_TIMEOUT, &mut discover).await {
        return match outcome {
            DiscoverOutcome::Modern(client) => Ok(*client),
            DiscoverOutcome::Legacy => initialize(peer, client_description).await,
            DiscoverOutcome::Failed(kind) => {
                Err(HandshakeError { stage: HandshakeStage::Discover, kind })
            }
        };
    }
    let initialize = initialize(peer, client_description);
    tokio::pin!(initialize);
    tokio::select! {
        biased;
        outcome = &mut discover => match outcome {
            DiscoverOutcome::Modern(client) => Ok(*client),
            DiscoverOutcome::Legacy | DiscoverOutcome::Failed(_) => initialize.await,
        },
        opened = &mut initialize => match opened {
            Ok(client) => Ok(client),
            Err(error) if !got_response(&error) => Err(error),
            Err(error) => match discover.await {
                DiscoverOutcome::Modern(client) => Ok(*client),
                DiscoverOutcome::Legacy | DiscoverOutcome::Failed(_) => Err(error),
            },
        },
    }
}

/// Whether the server responded with a JSON-RPC error.
fn is_rpc_error(error: &HandshakeError) -> bool {
    matches!(error.kind, HandshakeErrorKind::Call(CallError::Remote(_)))
}

/// Whether the server responded at all. A modern server that responds to any method gives `initialize` an invalid
/// result, while its response to `server/discover` is still pending.
fn got_response(error: &HandshakeError) -> bool {
    match &error.kind {
        HandshakeErrorKind::NoCommonVersion { .. } | HandshakeErrorKind::InvalidResponse => true,
        HandshakeErrorKind::Call(_) => is_rpc_error(error),
    }
}

async fn discover(peer: &Peer, client_description: &ClientDescription) -> DiscoverOutcome {
    let version = MODERN_VERSIONS[0];
    let client = Client::new_modern(peer, client_description, version);
    match client.request("server/discover").send().await {
        Ok(raw) => read_discover_result(client, raw, version),
        Err(CallError::Remote(error)) => on_discover_error(peer, client_description, error).await,
        Err(CallError::Transport(error)) => match fails_in_both_eras(&error) {
            true => DiscoverOutcome::Failed(CallError::Transport(error).into()),
            false => DiscoverOutcome::Legacy,
        },
        Err(error @ (CallError::Timeout(_) | CallError::Closed { .. })) => {
            DiscoverOutcome::Failed(error.into())
        }
    }
}

/// Whether `initialize` would fail in the same way.
fn fails_in_both_eras(error: &TransportError) -> bool {
    match error {
        TransportError::Unreachable { .. } | TransportError::CrossOriginRedirect { .. } => true,
        TransportError::Status(response) => {
            matches!(response.status, 401 | 403 | 407 | 429 | 502..=504)
        }
        TransportError::NotMcp { .. }
        | TransportError::IncompleteResponse
        | TransportError::Timeout(_)
        | TransportError::TooLarge { .. } => false,
    }
}

fn read_discover_result(client: Client, raw: Payload, version: &str) -> DiscoverOutcome {
    let server_versions = supported_versions(&raw);
    if server_versions.is_empty() {
        // A server that knows the method lists its versions.
        return DiscoverOutcome::Legacy;
    }
    if !server_versions.iter().any(|it| it == version) {
        let speaks_legacy = server_versions.iter().any(|it| LEGACY_VERSIONS.contains(&it.as_str()));
        return match speaks_legacy {
            true => DiscoverOutcome::Legacy,
            false => {
                DiscoverOutcome::Failed(HandshakeErrorKind::NoCommonVersion { server_versions })
            }
        };
    }
    match ServerDescription::from_discover_result(raw, version) {
        Ok(server) => DiscoverOutcome::Modern(Box::new(client.with_server(server))),
        Err(_) => DiscoverOutcome::Failed(HandshakeErrorKind::InvalidResponse),
    }
}

/// Interprets an error response to `server/discover`. If the server lists a version that we support, the request is
/// sent again in that version.
async fn on_discover_error(
    peer: &Peer,
    client_description: &ClientDescription,
    error: RpcError,
) -> DiscoverOutcome {
    match error.code {
        code::UNSUPPORTED_VERSION => {}
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY => {
            return DiscoverOutcome::Failed(CallError::Remote(error).into());
        }
        _ => return DiscoverOutcome::Legacy,
    }
    let server_versions = error.data.as_ref().map(supported_versions).unwrap_or_default();
    let common = MODERN_VERSIONS.iter().find(|ours| server_versions.iter().any(|it| it == *ours));
    let Some(version) = common else {
        let speaks_legacy = server_versions.is_empty()
            || server_versions.iter().any(|it| LEGACY_VERSIONS.contains(&it.as_str()));
        return match speaks_legacy {
            true => DiscoverOutcome::Legacy,
            false => {
                DiscoverOutcome::Failed(HandshakeErrorKind::NoCommonVersion { server_versions })
            }
        };
    };
    // Some servers reject the first request in every version and accept the second.
    debug!(method = "server/discover", version, "request retried in another version");
    let client = Client::new_modern(peer, client_description, version);
    match client.request("server/discover").send().await {
        Ok(raw) => read_discover_result(client, raw, version),
        Err(error) => DiscoverOutcome::Failed(error.into()),
    }
}

async fn initialize(
    peer: &Peer,
    client_description: &ClientDescription,
) -> Result<Client, HandshakeError> {
    let fail = |kind| HandshakeError { stage: HandshakeStage::Initialize, kind };
    let params = json!({
        "protocolVersion": LEGACY_VERSIONS[0],
        "capabilities": client_description.capabilities_json(Era::Legacy),
        "clientInfo": client_description.client_info(),
    });
    let params = Payload::from_json(params.to_string().into());
    let raw = peer.call("initialize").params(params).await.map_err(|error| fail(error.into()))?;
    let server = ServerDescription::from_initialize_result(raw)
        .map_err(|_| fail(HandshakeErrorKind::InvalidResponse))?;
    if !LEGACY_VERSIONS.contains(&server.protocol_version.as_str()) {
        let server_versions = vec![server.protocol_version];
        return Err(fail(HandshakeErrorKind::NoCommonVersion { server_versions }));
    }
    let sent = peer.notify("notifications/initialized", None).await;
    sent.map_err(|error| fail(error.into()))?;
    Ok(Client::new_legacy(peer, server))
}

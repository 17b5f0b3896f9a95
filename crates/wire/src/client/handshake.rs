//! How a connection begins: finds out which era the server lives in, without harm to one that never heard of it.

use std::time::Duration;

use serde_json::json;
use thiserror::Error;
use tokio::time::timeout;

use super::Client;
use crate::jsonrpc::message::{Payload, RpcError};
use crate::peer::{CallError, Peer};
use crate::protocol::capabilities::{ClientDescription, ServerDescription, supported_versions};
use crate::protocol::era::{Era, LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::protocol::errors::code;
use crate::transport_error::TransportError;

/// How long a server may be silent on the first question before we ask the other one beside it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// What is known of a server's era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraHint {
    /// Nothing: ask in the modern way first.
    Unknown,
    /// It is a legacy server: do not disturb it with a question that it may not know.
    Legacy,
}

/// A connection could not begin.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the server did not take up the connection")]
pub struct HandshakeError {
    /// What had been asked.
    pub stage: HandshakeStage,
    /// What went wrong.
    #[source]
    pub kind: HandshakeErrorKind,
}

/// What a server is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeStage {
    /// `server/discover`
    Discover,
    /// `initialize`
    Initialize,
}

/// Why a connection could not begin.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HandshakeErrorKind {
    /// The question failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The server speaks no version that we speak.
    #[error("the server speaks only {}", .server_versions.join(", "))]
    NoCommonVersion {
        /// Those it speaks.
        server_versions: Vec<String>,
    },
    /// The answer is no introduction.
    #[error("the server's answer makes no sense")]
    InvalidResponse,
}

/// What the first question told.
enum DiscoverOutcome {
    Modern(Box<Client>),
    /// It does not know the question; whoever answers so is a legacy server.
    Legacy,
    Failed(HandshakeErrorKind),
}

/// Begins a connection in the server's own era.
pub async fn negotiate(
    peer: &Peer,
    client_description: &ClientDescription,
    hint: EraHint,
) -> Result<Client, HandshakeError> {
    match hint {
        EraHint::Legacy => match initialize(peer, client_description).await {
            Ok(client) => Ok(client),
            // It may have learnt since.
            Err(error) if is_rpc_error(&error) => match discover(peer, client_description).await {
                DiscoverOutcome::Modern(client) => Ok(*client),
                DiscoverOutcome::Legacy | DiscoverOutcome::Failed(_) => Err(error),
            },
            Err(error) => Err(error),
        },
        EraHint::Unknown => probe(peer, client_description).await,
    }
}

/// Asks in the modern way, and in the legacy way beside it when the server is silent: a slow server answers
/// both, and which one it answers well says what it is.
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

/// Did the server hear the question and say no?
fn is_rpc_error(error: &HandshakeError) -> bool {
    matches!(error.kind, HandshakeErrorKind::Call(CallError::Remote(_)))
}

/// Did the server answer at all? A modern one that answers whatever it is asked makes no sense to `initialize`, and
/// the answer to the first question is still to come.
fn got_response(error: &HandshakeError) -> bool {
    match &error.kind {
        HandshakeErrorKind::NoCommonVersion { .. } | HandshakeErrorKind::InvalidResponse => true,
        HandshakeErrorKind::Call(_) => is_rpc_error(error),
    }
}

async fn discover(peer: &Peer, client_description: &ClientDescription) -> DiscoverOutcome {
    let version = MODERN_VERSIONS[0];
    let client = Client::new_modern(peer, client_description, version);
    let answer = client.request("server/discover").send().await;
    match answer {
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

/// Would `initialize` meet the same fate?
fn fails_in_both_eras(error: &TransportError) -> bool {
    match error {
        TransportError::Unreachable { .. } | TransportError::CrossOriginRedirect { .. } => true,
        TransportError::Status(answer) => {
            matches!(answer.status, 401 | 403 | 407 | 429 | 502..=504)
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
        // It answered, but not as a server that knows the question would.
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

/// What a refused first question says of the server. One that names other versions gets one that we have too.
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
    // Some servers refuse the first question whatever it is written in: asked again, they answer.
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

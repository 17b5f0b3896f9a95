//! How a connection begins: finds out which era the server lives in, without harm to one that never heard of it.

use std::time::Duration;

use serde_json::json;
use thiserror::Error;
use tokio::time::timeout;

use crate::client::Client;
use crate::era::{LEGACY, MODERN, code};
use crate::fault::Fault;
use crate::introduction::{Introduction, Offer, supported_versions};
use crate::message::{Payload, RemoteError};
use crate::peer::{CallError, Peer};

/// How long a server may be silent on the first question before we ask the other one beside it.
const PROBE: Duration = Duration::from_secs(1);

/// What is known of a server's era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
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
    pub stage: Stage,
    /// What went wrong.
    #[source]
    pub kind: HandshakeErrorKind,
}

/// What a server is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
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
    #[error("the server speaks only {}", .theirs.join(", "))]
    NoCommonVersion {
        /// Those it speaks.
        theirs: Vec<String>,
    },
    /// The answer is no introduction.
    #[error("the server's answer makes no sense")]
    Unreadable,
}

/// What the first question told.
enum Verdict {
    Modern(Box<Client>),
    /// It does not know the question; whoever answers so is a legacy server.
    Legacy,
    Failed(HandshakeErrorKind),
}

/// Begins a connection in the server's own era.
pub async fn open(peer: &Peer, offer: &Offer, hint: Hint) -> Result<Client, HandshakeError> {
    match hint {
        Hint::Legacy => match initialize(peer, offer).await {
            Ok(client) => Ok(client),
            // It may have learnt since.
            Err(error) if is_a_refusal(&error) => match discover(peer, offer).await {
                Verdict::Modern(client) => Ok(*client),
                Verdict::Legacy | Verdict::Failed(_) => Err(error),
            },
            Err(error) => Err(error),
        },
        Hint::Unknown => probe(peer, offer).await,
    }
}

/// Asks in the modern way, and in the legacy way beside it when the server is silent: a slow server answers
/// both, and which one it answers well says what it is.
async fn probe(peer: &Peer, offer: &Offer) -> Result<Client, HandshakeError> {
    let discover = discover(peer, offer);
    tokio::pin!(discover);
    if let Ok(verdict) = timeout(PROBE, &mut discover).await {
        return match verdict {
            Verdict::Modern(client) => Ok(*client),
            Verdict::Legacy => initialize(peer, offer).await,
            Verdict::Failed(kind) => Err(HandshakeError { stage: Stage::Discover, kind }),
        };
    }
    let initialize = initialize(peer, offer);
    tokio::pin!(initialize);
    tokio::select! {
        biased;
        verdict = &mut discover => match verdict {
            Verdict::Modern(client) => Ok(*client),
            Verdict::Legacy | Verdict::Failed(_) => initialize.await,
        },
        opened = &mut initialize => match opened {
            Ok(client) => Ok(client),
            Err(error) if !was_answered(&error) => Err(error),
            Err(error) => match discover.await {
                Verdict::Modern(client) => Ok(*client),
                Verdict::Legacy | Verdict::Failed(_) => Err(error),
            },
        },
    }
}

/// Did the server hear the question and say no?
fn is_a_refusal(error: &HandshakeError) -> bool {
    matches!(error.kind, HandshakeErrorKind::Call(CallError::Remote(_)))
}

/// Did the server answer at all? A modern one that answers whatever it is asked makes no sense to `initialize`, and
/// the answer to the first question is still to come.
fn was_answered(error: &HandshakeError) -> bool {
    match &error.kind {
        HandshakeErrorKind::NoCommonVersion { .. } | HandshakeErrorKind::Unreadable => true,
        HandshakeErrorKind::Call(_) => is_a_refusal(error),
    }
}

async fn discover(peer: &Peer, offer: &Offer) -> Verdict {
    let version = MODERN[0];
    let client = Client::modern(peer, offer, version);
    let answer = client.request("server/discover").send().await;
    match answer {
        Ok(raw) => understand(client, raw, version),
        Err(CallError::Remote(error)) => refused(peer, offer, error).await,
        Err(CallError::Lost(fault)) => match says_nothing_of_the_era(&fault) {
            true => Verdict::Failed(CallError::Lost(fault).into()),
            false => Verdict::Legacy,
        },
        Err(error @ (CallError::Timeout(_) | CallError::Ended { .. })) => {
            Verdict::Failed(error.into())
        }
    }
}

/// Would `initialize` meet the same fate?
fn says_nothing_of_the_era(fault: &Fault) -> bool {
    match fault {
        Fault::Unreachable { .. } | Fault::RedirectedAway { .. } => true,
        Fault::Status(answer) => matches!(answer.status, 401 | 403 | 407 | 429 | 502..=504),
        Fault::NotMcp { .. } | Fault::CutShort | Fault::Silent(_) | Fault::TooLarge { .. } => false,
    }
}

fn understand(client: Client, raw: Payload, version: &str) -> Verdict {
    let theirs = supported_versions(&raw);
    if theirs.is_empty() {
        // It answered, but not as a server that knows the question would.
        return Verdict::Legacy;
    }
    if !theirs.iter().any(|it| it == version) {
        let speaks_legacy = theirs.iter().any(|it| LEGACY.contains(&it.as_str()));
        return match speaks_legacy {
            true => Verdict::Legacy,
            false => Verdict::Failed(HandshakeErrorKind::NoCommonVersion { theirs }),
        };
    }
    match Introduction::modern(raw, version) {
        Ok(introduction) => Verdict::Modern(Box::new(client.introduced(introduction))),
        Err(_) => Verdict::Failed(HandshakeErrorKind::Unreadable),
    }
}

/// What a refused first question says of the server. One that names other versions gets one that we have too.
async fn refused(peer: &Peer, offer: &Offer, error: RemoteError) -> Verdict {
    match error.code {
        code::UNSUPPORTED_VERSION => {}
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY => {
            return Verdict::Failed(CallError::Remote(error).into());
        }
        _ => return Verdict::Legacy,
    }
    let theirs = error.data.as_ref().map(supported_versions).unwrap_or_default();
    let common = MODERN.iter().find(|ours| theirs.iter().any(|it| it == *ours));
    let Some(version) = common else {
        let speaks_legacy =
            theirs.is_empty() || theirs.iter().any(|it| LEGACY.contains(&it.as_str()));
        return match speaks_legacy {
            true => Verdict::Legacy,
            false => Verdict::Failed(HandshakeErrorKind::NoCommonVersion { theirs }),
        };
    };
    // Some servers refuse the first question whatever it is written in: asked again, they answer.
    let client = Client::modern(peer, offer, version);
    match client.request("server/discover").send().await {
        Ok(raw) => understand(client, raw, version),
        Err(error) => Verdict::Failed(error.into()),
    }
}

async fn initialize(peer: &Peer, offer: &Offer) -> Result<Client, HandshakeError> {
    let fail = |kind| HandshakeError { stage: Stage::Initialize, kind };
    let params = json!({
        "protocolVersion": LEGACY[0],
        "capabilities": offer.capabilities(crate::era::Era::Legacy),
        "clientInfo": offer.client_info(),
    });
    let params = Payload::from_json(params.to_string().into());
    let raw = peer.call("initialize").params(params).await.map_err(|error| fail(error.into()))?;
    let introduction =
        Introduction::legacy(raw).map_err(|_| fail(HandshakeErrorKind::Unreadable))?;
    if !LEGACY.contains(&introduction.version.as_str()) {
        let theirs = vec![introduction.version];
        return Err(fail(HandshakeErrorKind::NoCommonVersion { theirs }));
    }
    let said = peer.notify("notifications/initialized", None).await;
    said.map_err(|error| fail(error.into()))?;
    Ok(Client::legacy(peer, introduction))
}

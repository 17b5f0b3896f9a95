//! The handshake with a shared server. The first client performs it; the others get the same result, because a legacy
//! server accepts `initialize` once.

use switchboard_wire::jsonrpc::message::{Payload, RequestId, RpcError};
use switchboard_wire::protocol::era::Era;

use super::SessionId;

/// How far the handshake is.
#[derive(Debug, Default)]
pub(super) enum Handshake {
    /// No client has agreed on an era.
    #[default]
    New,
    /// `initialize` was sent; other clients wait for its result.
    Initializing { waiting: Vec<(SessionId, RequestId)> },
    /// The server is a legacy one.
    Legacy { result: Payload, is_initialized: bool },
    /// A client sent requests without `initialize`.
    Modern,
}

/// What to do with `initialize`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HandshakeStep {
    Forward,
    /// The response comes with that of another client.
    Wait,
    Respond(Payload),
}

impl Handshake {
    pub(super) fn era(&self) -> Option<Era> {
        match self {
            Handshake::New | Handshake::Initializing { .. } => None,
            Handshake::Legacy { .. } => Some(Era::Legacy),
            Handshake::Modern => Some(Era::Modern),
        }
    }

    pub(super) fn on_initialize(&mut self, session: SessionId, id: &RequestId) -> HandshakeStep {
        match self {
            Handshake::New => {
                *self = Handshake::Initializing { waiting: Vec::new() };
                HandshakeStep::Forward
            }
            Handshake::Initializing { waiting } => {
                waiting.push((session, id.clone()));
                HandshakeStep::Wait
            }
            Handshake::Legacy { result, .. } => HandshakeStep::Respond(result.clone()),
            // The server decides what to make of it.
            Handshake::Modern => HandshakeStep::Forward,
        }
    }

    /// The clients that get the same response.
    pub(super) fn on_initialize_response(
        &mut self,
        outcome: &Result<Payload, RpcError>,
    ) -> Vec<(SessionId, RequestId)> {
        let next = match outcome {
            Ok(result) => Handshake::Legacy { result: result.clone(), is_initialized: false },
            Err(_) => Handshake::New,
        };
        match std::mem::replace(self, next) {
            Handshake::Initializing { waiting } => waiting,
            modern @ Handshake::Modern => {
                *self = modern;
                Vec::new()
            }
            Handshake::New | Handshake::Legacy { .. } => Vec::new(),
        }
    }

    /// Whether `notifications/initialized` goes to the server: only the first one does.
    pub(super) fn on_initialized(&mut self) -> bool {
        match self {
            Handshake::Legacy { is_initialized, .. } => !std::mem::replace(is_initialized, true),
            Handshake::New | Handshake::Initializing { .. } | Handshake::Modern => false,
        }
    }

    /// A request outside of the handshake.
    pub(super) fn on_request(&mut self) {
        if let Handshake::New = self {
            *self = Handshake::Modern;
        }
    }
}

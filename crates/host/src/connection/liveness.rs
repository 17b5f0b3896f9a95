//! Decides when the server of an open connection is pinged, and whether a failed ping means that it is gone. Pure; the
//! actor pings.

use switchboard_config::entry::server::TransportKind;
use switchboard_wire::peer::CallError;

/// What the actor knows of a connection when it decides about a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionUsage {
    /// The server's transport. The end of a local program is noticed without a ping.
    pub(super) transport: TransportKind,
    /// Whether a user looks at the state of the connection.
    pub(super) is_watched: bool,
    /// Whether a request is under way.
    pub(super) is_in_use: bool,
}

impl ConnectionUsage {
    /// Whether the server is pinged at a regular check.
    pub(super) fn needs_ping(self) -> bool {
        self.is_remote() && (self.is_watched || self.is_in_use)
    }

    /// Whether the server is pinged after a request failed in its transport.
    pub(super) fn needs_ping_after_failure(self) -> bool {
        self.is_remote()
    }

    /// Whether a failed ping means that the connection is lost. A server that works on a request may have no time for a
    /// ping; the request has its own timeout.
    pub(super) fn is_lost(self, error: &CallError) -> bool {
        match error {
            CallError::Timeout(_) => !self.is_in_use,
            CallError::Transport(_) | CallError::Closed { .. } => true,
            CallError::Remote(_) => false,
        }
    }

    fn is_remote(self) -> bool {
        match self.transport {
            // An IDE knows no `ping`; the frames of a WebSocket show that it is there.
            TransportKind::Stdio | TransportKind::Sdk | TransportKind::WsIde => false,
            TransportKind::Sse
            | TransportKind::Http
            | TransportKind::Ws
            | TransportKind::SseIde
            | TransportKind::ConnectorProxy => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use switchboard_wire::transport_error::TransportError;

    use super::*;

    const IDLE: ConnectionUsage =
        ConnectionUsage { transport: TransportKind::Http, is_watched: false, is_in_use: false };

    #[test]
    fn a_remote_server_is_pinged_while_it_is_watched_or_used() {
        assert!(!IDLE.needs_ping());
        assert!(ConnectionUsage { is_watched: true, ..IDLE }.needs_ping());
        assert!(ConnectionUsage { is_in_use: true, ..IDLE }.needs_ping());
        assert!(IDLE.needs_ping_after_failure());
    }

    #[test]
    fn a_program_is_not_pinged() {
        let local =
            ConnectionUsage { transport: TransportKind::Stdio, is_watched: true, is_in_use: true };
        assert!(!local.needs_ping() && !local.needs_ping_after_failure());
    }

    #[test]
    fn a_server_that_works_on_a_request_need_not_answer_a_ping() {
        let late = CallError::Timeout(Duration::from_secs(8));
        let gone = CallError::Transport(TransportError::IncompleteResponse);
        let busy = ConnectionUsage { is_in_use: true, ..IDLE };
        assert!(IDLE.is_lost(&late) && !busy.is_lost(&late));
        assert!(IDLE.is_lost(&gone) && busy.is_lost(&gone));
    }
}

//! Classifies a failed call by the state of its connection.

use switchboard_wire::peer::CallError;
use switchboard_wire::transport_error::TransportError;

/// Whether the server no longer knows the session.
pub fn is_session_expired(error: &CallError) -> bool {
    // The error codes that existing servers use for an unknown session.
    const CODES: [i64; 3] = [-32001, -32000, -32600];
    match error {
        CallError::Transport(TransportError::Status(response)) => match response.status {
            404 => true,
            // Servers agree on no code, so only the text tells this from other bad requests.
            400 | 410 => mentions_session(&response.body),
            _ => false,
        },
        CallError::Remote(error) => CODES.contains(&error.code) && mentions_session(&error.message),
        CallError::Transport(_) | CallError::Timeout(_) | CallError::Closed { .. } => false,
    }
}

fn mentions_session(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("session")
        && ["not found", "no valid", "invalid", "expired", "unknown", "missing", "terminated"]
            .iter()
            .any(|word| text.contains(word))
}

/// Whether the server requires a login.
pub fn is_unauthorized(error: &CallError) -> bool {
    matches!(error, CallError::Transport(fault) if fault.status() == Some(401))
}

/// Whether the server requires a login or more scopes.
pub fn is_auth_rejection(error: &CallError) -> bool {
    matches!(error, CallError::Transport(fault) if matches!(fault.status(), Some(401 | 403)))
}

/// Whether the network or a gateway on the way to the server failed.
pub fn is_transport_failure(error: &CallError) -> bool {
    match error {
        CallError::Transport(fault) => match fault {
            TransportError::Unreachable { .. }
            | TransportError::IncompleteResponse
            | TransportError::Timeout(_) => true,
            TransportError::Status(response) => matches!(response.status, 502..=504),
            TransportError::CrossOriginRedirect { .. }
            | TransportError::NotMcp { .. }
            | TransportError::TooLarge { .. } => false,
        },
        CallError::Remote(_) | CallError::Timeout(_) | CallError::Closed { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::jsonrpc::message::RpcError;
    use switchboard_wire::transport_error::HttpErrorResponse;

    use super::*;

    fn status(status: u16, body: &str) -> CallError {
        let response =
            HttpErrorResponse { status, body: body.to_owned(), ..HttpErrorResponse::default() };
        CallError::Transport(TransportError::Status(Box::new(response)))
    }

    fn remote(code: i64, message: &str) -> CallError {
        CallError::Remote(RpcError { code, message: message.to_owned(), data: None })
    }

    #[test]
    fn the_known_errors_for_an_expired_session() {
        for expired in [
            status(404, ""),
            status(404, r#"{"error":{"code":-32001,"message":"Session not found"}}"#),
            status(400, "Bad Request: No valid session ID provided"),
            status(400, "Invalid or missing session ID"),
            remote(-32600, "Session has expired"),
            remote(-32001, "Session not found"),
        ] {
            assert!(is_session_expired(&expired), "{expired:?}");
        }
        for other in [
            status(400, "bad arguments"),
            status(500, "session not found"),
            remote(-32600, "no"),
            remote(-32602, "unknown session"),
        ] {
            assert!(!is_session_expired(&other), "{other:?}");
        }
    }
}

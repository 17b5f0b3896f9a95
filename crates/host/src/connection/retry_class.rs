//! What a failed call says of the connection it went over.

use switchboard_wire::peer::CallError;
use switchboard_wire::transport_error::TransportError;

/// Has the server forgotten us?
pub fn is_session_expired(error: &CallError) -> bool {
    // The codes that servers in the wild answer an unknown session with, beside the status.
    const CODES: [i64; 3] = [-32001, -32000, -32600];
    match error {
        CallError::Transport(TransportError::Status(answer)) => match answer.status {
            404 => true,
            // Only the words tell this from any other bad request; servers agree on no code.
            400 | 410 => mentions_session(&answer.body),
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

/// Does the server want a login?
pub fn is_unauthorized(error: &CallError) -> bool {
    matches!(error, CallError::Transport(fault) if fault.status() == Some(401))
}

/// Does the server not let us in, or not as far as that?
pub fn is_auth_rejection(error: &CallError) -> bool {
    matches!(error, CallError::Transport(fault) if matches!(fault.status(), Some(401 | 403)))
}

/// Is the way to the server broken?
pub fn is_transport_failure(error: &CallError) -> bool {
    match error {
        CallError::Transport(fault) => match fault {
            TransportError::Unreachable { .. }
            | TransportError::IncompleteResponse
            | TransportError::Timeout(_) => true,
            TransportError::Status(answer) => matches!(answer.status, 502..=504),
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
        let answer =
            HttpErrorResponse { status, body: body.to_owned(), ..HttpErrorResponse::default() };
        CallError::Transport(TransportError::Status(Box::new(answer)))
    }

    fn remote(code: i64, message: &str) -> CallError {
        CallError::Remote(RpcError { code, message: message.to_owned(), data: None })
    }

    #[test]
    fn the_known_ways_to_say_that_a_session_is_gone() {
        for gone in [
            status(404, ""),
            status(404, r#"{"error":{"code":-32001,"message":"Session not found"}}"#),
            status(400, "Bad Request: No valid session ID provided"),
            status(400, "Invalid or missing session ID"),
            remote(-32600, "Session has expired"),
            remote(-32001, "Session not found"),
        ] {
            assert!(is_session_expired(&gone), "{gone:?}");
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

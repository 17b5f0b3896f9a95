//! Errors of the host, and of lookups, as a client gets them.

use serde_json::json;
use switchboard::call::pipeline::ToolCallError;
use switchboard::request::send::RequestError;
use switchboard_wire::jsonrpc::message::RpcError;
use switchboard_wire::server;

use crate::downstream::request::Outcome;
use crate::json::payload;

/// The longest name that an error repeats, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Why a server did not respond. A server's own error is passed on unchanged.
pub(super) fn error_for_client(error: &RequestError) -> RpcError {
    match error {
        RequestError::ErrorResponse(remote) => remote.clone(),
        RequestError::NotConnected(view) => {
            let cause = view.status.cause().map(ToString::to_string);
            let cause = cause.unwrap_or_else(|| view.status.id().to_owned());
            server::internal_error(&format!("{error}: {cause}"))
        }
        RequestError::PermitRequired
        | RequestError::UnknownServer(_)
        | RequestError::Timeout { .. }
        | RequestError::TooLarge { .. }
        | RequestError::UrlElicitationDeclined { .. }
        | RequestError::Interrupted { .. }
        | RequestError::ConnectionLost { .. } => server::internal_error(&error.to_string()),
    }
}

/// A call that was denied has a result, so that the model reads the reason; all other failures are errors.
pub(super) fn failure_response(failure: ToolCallError) -> Outcome {
    match failure {
        ToolCallError::Denied { .. } => {
            let text = failure.to_string();
            Ok(payload(&json!({"content": [{"type": "text", "text": text}], "isError": true})))
        }
        ToolCallError::Request(error) => Err(error_for_client(&error)),
        ToolCallError::UnknownTool { .. } | ToolCallError::InvalidArguments { .. } => {
            Err(server::invalid_params(&failure.to_string()))
        }
    }
}

/// A name that is not in the catalogue.
pub(super) fn not_found(kind: &str, name: &str) -> RpcError {
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    server::invalid_params(&format!("there is no {kind} `{name}`"))
}

/// A `requestState` that cannot be opened, or that belongs to another request.
pub(crate) fn invalid_request_state() -> RpcError {
    server::invalid_params("`requestState` was not issued for this request, or it has expired")
}

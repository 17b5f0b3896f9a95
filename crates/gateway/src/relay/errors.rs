//! Errors of the host, and of lookups, as a client gets them.

use serde_json::json;
use switchboard::ToolCallError;
use switchboard::request::RequestError;
use switchboard_wire::jsonrpc::message::RpcError;
use switchboard_wire::server;

use crate::downstream::request::Outcome;
use crate::json::payload;

/// The code of an error for a method that is not permitted, or not permitted now.
const NOT_PERMITTED: i64 = -32000;
/// The longest name that an error repeats, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Why a server did not respond. A server's own error is passed on unchanged.
pub(super) fn error_for_client(error: &RequestError) -> RpcError {
    match error {
        RequestError::ErrorResponse(remote) => remote.clone(),
        RequestError::NotConnected(view) => {
            let cause = view.status.cause().map(|it| it.without_paths());
            let cause = cause.unwrap_or_else(|| view.status.label());
            server::internal_error(&format!("{error}: {cause}"))
        }
        RequestError::PermitRequired
        | RequestError::UnknownServer(_)
        | RequestError::TooManyConnections { .. }
        | RequestError::Timeout { .. }
        | RequestError::TooLarge { .. }
        | RequestError::UrlElicitationDeclined { .. }
        | RequestError::Interrupted { .. }
        | RequestError::ConnectionLost { .. } => server::internal_error(&error.to_string()),
    }
}

/// A call that was denied or cannot be recorded has a result, so that the model reads the reason; all other failures are
/// errors. Clients are not told the paths and errors of the operator's disk.
pub(super) fn failure_response(failure: ToolCallError) -> Outcome {
    match failure {
        ToolCallError::Denied { .. } | ToolCallError::Unrecorded { .. } => {
            let text = match &failure {
                ToolCallError::Denied { definition_diff: Some(diff), .. } => {
                    format!("{failure}\n{diff}")
                }
                ToolCallError::Denied { definition_diff: None, .. }
                | ToolCallError::Unrecorded { .. }
                | ToolCallError::Request(_)
                | ToolCallError::UnknownTool { .. }
                | ToolCallError::InvalidArguments { .. } => failure.to_string(),
            };
            Ok(payload(&json!({"content": [{"type": "text", "text": text}], "isError": true})))
        }
        ToolCallError::Request(error) => Err(error_for_client(&error)),
        ToolCallError::UnknownTool { .. } | ToolCallError::InvalidArguments { .. } => {
            Err(server::invalid_params(&failure.to_string()))
        }
    }
}

/// Why a method of an extension has no result.
pub(super) fn method_error(failure: ToolCallError) -> RpcError {
    match failure {
        ToolCallError::Denied { .. } | ToolCallError::Unrecorded { .. } => {
            RpcError { code: NOT_PERMITTED, message: failure.to_string(), data: None }
        }
        ToolCallError::Request(error) => error_for_client(&error),
        ToolCallError::UnknownTool { .. } | ToolCallError::InvalidArguments { .. } => {
            server::invalid_params(&failure.to_string())
        }
    }
}

/// Has the server ended its work on a request that failed like this? Otherwise it may still send messages for it.
pub(super) fn has_ended(error: &RequestError) -> bool {
    match error {
        RequestError::ErrorResponse(_)
        | RequestError::NotConnected(_)
        | RequestError::PermitRequired
        | RequestError::UnknownServer(_)
        | RequestError::TooManyConnections { .. }
        | RequestError::UrlElicitationDeclined { .. } => true,
        RequestError::Timeout { .. }
        | RequestError::TooLarge { .. }
        | RequestError::Interrupted { .. }
        | RequestError::ConnectionLost { .. } => false,
    }
}

/// The same for a call.
pub(super) fn has_call_ended(failure: &ToolCallError) -> bool {
    match failure {
        ToolCallError::Denied { .. }
        | ToolCallError::Unrecorded { .. }
        | ToolCallError::UnknownTool { .. }
        | ToolCallError::InvalidArguments { .. } => true,
        ToolCallError::Request(error) => has_ended(error),
    }
}

/// Too many calls of the client to one server run at the same time.
pub(super) fn too_many_calls(server: &str) -> RpcError {
    let message = format!("too many calls to `{server}` run at the same time; try again later");
    RpcError { code: NOT_PERMITTED, message, data: None }
}

/// A name that is not in the catalogue.
pub(super) fn not_found(kind: &str, name: &str) -> RpcError {
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    server::invalid_params(&format!("there is no {kind} `{name}`"))
}

/// A `requestState` that was used before.
pub(super) fn used_request_state() -> RpcError {
    server::invalid_params("`requestState` was used already; send the request again without it")
}

/// A client has used too many states lately.
pub(super) fn too_many_request_states() -> RpcError {
    let message = "too many requests with `requestState` lately; try again later".to_owned();
    RpcError { code: NOT_PERMITTED, message, data: None }
}

/// A `requestState` that cannot be opened, or that belongs to another request.
pub(crate) fn invalid_request_state() -> RpcError {
    server::invalid_params("`requestState` was not issued for this request, or it has expired")
}

//! Errors of the host, and of lookups, as a client gets them.

use serde_json::{Value as Json, json};
use switchboard::ToolCallError;
use switchboard::request::RequestError;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::server;

use crate::downstream::request::Outcome;
use crate::json::payload;

/// The code of an error for a method that is not permitted, or not permitted now.
const NOT_PERMITTED: i64 = -32000;
/// The code of an error that ends when the store is back.
const STORE_AWAY: i64 = -32010;
/// The code of an error for a quota that is used up. Its data say when to try again.
const QUOTA_EXCEEDED: i64 = -32029;
/// What the data of our own errors begin with, where HTTP says more than the code. A server may use the same codes for a
/// request that it has run, and the data of its errors, which are cut out of its message, never begin with white space.
const OWN_DATA: &[u8] = b" ";
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

/// A quota of the principal is used up.
pub(super) fn quota_exceeded(reason: &str, seconds: u128, data: &Json) -> RpcError {
    let message = format!("{reason}; try again in {seconds} s");
    RpcError { code: QUOTA_EXCEEDED, message, data: Some(own_data(data)) }
}

fn own_data(data: &Json) -> Payload {
    let mut text = OWN_DATA.to_vec();
    text.extend_from_slice(data.to_string().as_bytes());
    Payload::from_json(text.into())
}

/// Is this our own error with this code, and not one of a server?
fn is_own(error: &RpcError, code: i64) -> bool {
    let is_own = error.data.as_ref().is_some_and(|it| it.as_bytes().starts_with(OWN_DATA));
    error.code == code && is_own
}

/// The data of the error, if a quota of the principal is used up.
pub(crate) fn exceeded_quota(error: &RpcError) -> Option<&Payload> {
    error.data.as_ref().filter(|_| is_own(error, QUOTA_EXCEEDED))
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

/// The replica that ran a call has gone.
pub(crate) fn call_lost() -> RpcError {
    let text = "the replica that ran this call has stopped: the call may have been executed, and it is not repeated";
    server::internal_error(text)
}

/// What a request needs cannot be read or written now.
pub(crate) fn store_away() -> RpcError {
    let message = "the store that replicas share cannot be reached; try again later".to_owned();
    RpcError { code: STORE_AWAY, message, data: Some(own_data(&json!({"retryAfterSeconds": 1}))) }
}

/// Should the client try again when the store is back?
pub(crate) fn is_store_away(error: &RpcError) -> bool {
    is_own(error, STORE_AWAY)
}

//! The names of the protocol's methods and the codes of its errors.

use switchboard::wire::jsonrpc::message::RpcError;

pub(crate) const INITIALIZE: &str = "initialize";
pub(crate) const AUTHENTICATE: &str = "authenticate";
pub(crate) const SESSION_NEW: &str = "session/new";
pub(crate) const SESSION_LOAD: &str = "session/load";
pub(crate) const SESSION_RESUME: &str = "session/resume";
pub(crate) const SESSION_LIST: &str = "session/list";
pub(crate) const SESSION_CLOSE: &str = "session/close";
pub(crate) const SESSION_PROMPT: &str = "session/prompt";
pub(crate) const SESSION_SET_MODE: &str = "session/set_mode";
pub(crate) const SESSION_CANCEL: &str = "session/cancel";
pub(crate) const CANCEL_REQUEST: &str = "$/cancel_request";
pub(crate) const SESSION_UPDATE: &str = "session/update";
pub(crate) const REQUEST_PERMISSION: &str = "session/request_permission";
pub(crate) const ELICITATION_CREATE: &str = "elicitation/create";

/// A kind of error, with its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub(crate) enum ErrorCode {
    /// The line is not JSON.
    Parse = -32700,
    /// The request is not valid now.
    InvalidRequest = -32600,
    /// The method is unknown.
    MethodNotFound = -32601,
    /// The parameters are invalid.
    InvalidParams = -32602,
    /// The request failed.
    Internal = -32603,
    /// The session does not exist.
    NotFound = -32002,
}

/// An error response.
pub(crate) fn rpc_error(code: ErrorCode, message: impl Into<String>) -> RpcError {
    RpcError { code: code as i64, message: message.into(), data: None }
}

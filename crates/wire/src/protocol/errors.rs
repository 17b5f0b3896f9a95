//! JSON-RPC error codes that MCP gives a meaning, and constructors for the errors that a server sends.

use serde_json::{Value as Json, json};

use super::era::Era;
use crate::jsonrpc::message::RpcError;
use crate::jsonrpc::payload::Payload;

/// JSON-RPC error codes. Those from -32020 on belong to the modern era.
pub(crate) mod code {
    /// The message is not JSON.
    pub(crate) const PARSE: i64 = -32700;
    /// The request is not valid at this time.
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    /// The parameters are invalid.
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    /// The server failed.
    pub(crate) const INTERNAL: i64 = -32603;
    /// The resource does not exist; the modern era uses `INVALID_PARAMS` for it.
    pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The method does not exist.
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    /// A header does not match the body.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks a capability that the server requires.
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    /// The server does not support the requested version. The data lists the supported ones.
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
}

/// The parameters of a request are invalid.
pub fn invalid_params(message: &str) -> RpcError {
    rpc_error(code::INVALID_PARAMS, message)
}

/// The server failed, or is overloaded.
pub fn internal_error(message: &str) -> RpcError {
    rpc_error(code::INTERNAL, message)
}

/// The resource does not exist.
pub fn resource_not_found(era: Era, uri: &str) -> RpcError {
    let code = match era {
        Era::Legacy => code::RESOURCE_NOT_FOUND,
        Era::Modern => code::INVALID_PARAMS,
    };
    let uri: String = uri.chars().take(200).collect();
    with_data(rpc_error(code, "there is no such resource"), &json!({"uri": uri}))
}

/// The client lacks a capability that the request requires.
pub fn missing_capability(capabilities: &Json) -> RpcError {
    let error = rpc_error(code::MISSING_CAPABILITY, "the client lacks a capability");
    with_data(error, &json!({"requiredCapabilities": capabilities}))
}

/// The method does not exist.
pub fn method_not_found(method: &str) -> RpcError {
    let method: String = method.chars().take(100).collect();
    rpc_error(code::METHOD_NOT_FOUND, &format!("there is no method `{method}`"))
}

pub(crate) fn rpc_error(code: i64, message: &str) -> RpcError {
    RpcError { code, message: message.to_owned(), data: None }
}

pub(crate) fn with_data(error: RpcError, data: &Json) -> RpcError {
    RpcError { data: Some(Payload::from_json(data.to_string().into())), ..error }
}

/// The HTTP status of an error response to a modern request.
pub fn http_status(error: &RpcError) -> u16 {
    match error.code {
        code::METHOD_NOT_FOUND => 404,
        code::HEADER_MISMATCH
        | code::MISSING_CAPABILITY
        | code::UNSUPPORTED_VERSION
        | code::INVALID_REQUEST
        | code::PARSE => 400,
        _ => 200,
    }
}

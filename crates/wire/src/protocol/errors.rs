//! JSON-RPC error codes that MCP gives a meaning, and constructors for the errors that a server sends.

use serde_json::{Value as Json, json};

use super::era::Era;
use crate::jsonrpc::message::RpcError;
use crate::jsonrpc::payload::Payload;

/// Error codes that one side gives a meaning to; those from -32020 on are the modern era's own.
pub(crate) mod code {
    /// What came is no JSON.
    pub(crate) const PARSE: i64 = -32700;
    /// The question comes at the wrong time.
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    /// The parameters make no sense.
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    /// Whoever answers failed.
    pub(crate) const INTERNAL: i64 = -32603;
    /// There is no such resource; the modern era counts that among the parameters.
    pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
    /// There is no such method.
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    /// A header and the body say different things.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    /// The client lacks a capability that the server needs.
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    /// The server does not speak this version; it says which it speaks.
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
}

/// The parameters of a question make no sense.
pub fn invalid_params(message: &str) -> RpcError {
    rpc_error(code::INVALID_PARAMS, message)
}

/// Whoever answers failed, or cannot take more.
pub fn internal_error(message: &str) -> RpcError {
    rpc_error(code::INTERNAL, message)
}

/// There is no such resource.
pub fn resource_not_found(era: Era, uri: &str) -> RpcError {
    let code = match era {
        Era::Legacy => code::RESOURCE_NOT_FOUND,
        Era::Modern => code::INVALID_PARAMS,
    };
    let uri: String = uri.chars().take(200).collect();
    with_data(rpc_error(code, "there is no such resource"), &json!({"uri": uri}))
}

/// The client cannot do what the answer needs.
pub fn missing_capability(capabilities: &Json) -> RpcError {
    let error = rpc_error(code::MISSING_CAPABILITY, "the client lacks a capability");
    with_data(error, &json!({"requiredCapabilities": capabilities}))
}

/// There is no such method.
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

/// The status that goes with an error to a modern question.
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

//! Why a handler has no result. The response depends on the method and the protocol era.

use std::future::Future;
use std::pin::Pin;

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::RpcError;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::server;

use crate::kit::tool_output::ToolOutput;

/// The future of a handler.
pub type HandlerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send + 'a>>;

/// The error of a handler. Pass it on with `?`.
#[derive(Debug)]
pub struct HandlerError(pub(crate) HandlerErrorKind);

#[derive(Debug)]
pub(crate) enum HandlerErrorKind {
    /// The call failed; the model reads the message.
    Failed(String),
    /// The parameters are invalid.
    InvalidParams(String),
    /// The resource does not exist.
    ResourceNotFound(String),
    /// The client lacks a required capability.
    MissingCapability(Json),
    /// The client must answer a request first and repeat the call.
    InputRequired { key: String, request: Json },
}

impl HandlerError {
    /// The message that the model reads, if the call failed.
    pub fn message(&self) -> Option<&str> {
        match &self.0 {
            HandlerErrorKind::Failed(message) => Some(message),
            HandlerErrorKind::InvalidParams(_)
            | HandlerErrorKind::ResourceNotFound(_)
            | HandlerErrorKind::MissingCapability(_)
            | HandlerErrorKind::InputRequired { .. } => None,
        }
    }
}

impl std::fmt::Display for HandlerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            HandlerErrorKind::Failed(message) | HandlerErrorKind::InvalidParams(message) => {
                f.write_str(message)
            }
            HandlerErrorKind::ResourceNotFound(uri) => write!(f, "there is no resource {uri}"),
            HandlerErrorKind::MissingCapability(_) => {
                f.write_str("the client lacks a required capability")
            }
            HandlerErrorKind::InputRequired { key, .. } => {
                write!(f, "the client has to answer `{key}` first")
            }
        }
    }
}

impl HandlerError {
    /// The call failed. The model reads the message and may correct the call.
    pub fn failed(message: impl Into<String>) -> HandlerError {
        HandlerError(HandlerErrorKind::Failed(message.into()))
    }

    /// The parameters are invalid.
    pub fn invalid_params(message: impl Into<String>) -> HandlerError {
        HandlerError(HandlerErrorKind::InvalidParams(message.into()))
    }

    /// There is no resource with this URI.
    pub fn resource_not_found(uri: impl Into<String>) -> HandlerError {
        HandlerError(HandlerErrorKind::ResourceNotFound(uri.into()))
    }

    /// The result of a tool call: failures that the model can correct become a tool result, others a JSON-RPC
    /// error.
    pub(crate) fn into_tool_result(self, era: Era) -> Result<ToolOutput, RpcError> {
        match (self.0, era) {
            (HandlerErrorKind::Failed(message), _) => Ok(ToolOutput::error(message)),
            (HandlerErrorKind::MissingCapability(_), Era::Legacy) => {
                Ok(ToolOutput::error("the client does not support elicitation".to_owned()))
            }
            (kind, era) => Err(HandlerError(kind).into_remote_error(era)),
        }
    }

    /// The JSON-RPC error for all other methods.
    pub(crate) fn into_remote_error(self, era: Era) -> RpcError {
        match self.0 {
            HandlerErrorKind::Failed(message) => server::internal_error(&message),
            HandlerErrorKind::InvalidParams(message) => server::invalid_params(&message),
            HandlerErrorKind::ResourceNotFound(uri) => server::resource_not_found(era, &uri),
            HandlerErrorKind::MissingCapability(capabilities) => {
                server::missing_capability(&capabilities)
            }
            // Unreachable: `dispatch` turns it into a result.
            HandlerErrorKind::InputRequired { key, .. } => {
                server::internal_error(&format!("`{key}` has no response"))
            }
        }
    }

    pub(crate) fn missing_elicitation(mode: &str) -> HandlerError {
        HandlerError(HandlerErrorKind::MissingCapability(json!({"elicitation": {mode: {}}})))
    }
}

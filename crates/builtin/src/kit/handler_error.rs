//! Why a handler has no result. How that is said to the client depends on what it asked, and in which era.

use std::future::Future;
use std::pin::Pin;

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::RpcError;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::server;

use crate::kit::tool_output::ToolOutput;

/// What a handler does: takes its time, and comes to a result or to none.
pub type HandlerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HandlerError>> + Send + 'a>>;

/// A handler stops here. Hand it on with `?`.
#[derive(Debug)]
pub struct HandlerError(pub(crate) HandlerErrorKind);

#[derive(Debug)]
pub(crate) enum HandlerErrorKind {
    /// It did not work out; a model may read why and do better.
    Failed(String),
    /// The parameters make no sense.
    InvalidParams(String),
    /// There is no such resource.
    ResourceNotFound(String),
    /// The client cannot be asked what would have to be asked.
    MissingCapability(Json),
    /// The client has to answer first, and ask again.
    InputRequired { key: String, request: Json },
}

impl HandlerError {
    /// It did not work out. A model is told, and may do better.
    pub fn failed(message: impl Into<String>) -> HandlerError {
        HandlerError(HandlerErrorKind::Failed(message.into()))
    }

    /// What was asked makes no sense.
    pub fn invalid_params(message: impl Into<String>) -> HandlerError {
        HandlerError(HandlerErrorKind::InvalidParams(message.into()))
    }

    /// There is no resource at this address.
    pub fn resource_not_found(uri: impl Into<String>) -> HandlerError {
        HandlerError(HandlerErrorKind::ResourceNotFound(uri.into()))
    }

    /// The end of a tool's call: what a model may mend is a result, the rest is an error.
    pub(crate) fn into_tool_result(self, era: Era) -> Result<ToolOutput, RpcError> {
        match (self.0, era) {
            (HandlerErrorKind::Failed(message), _) => Ok(ToolOutput::error(message)),
            (HandlerErrorKind::MissingCapability(_), Era::Legacy) => {
                Ok(ToolOutput::error("the client cannot ask anybody".to_owned()))
            }
            (kind, era) => Err(HandlerError(kind).into_remote_error(era)),
        }
    }

    /// The same for everything else.
    pub(crate) fn into_remote_error(self, era: Era) -> RpcError {
        match self.0 {
            HandlerErrorKind::Failed(message) => server::internal_error(&message),
            HandlerErrorKind::InvalidParams(message) => server::invalid_params(&message),
            HandlerErrorKind::ResourceNotFound(uri) => server::resource_not_found(era, &uri),
            HandlerErrorKind::MissingCapability(capabilities) => {
                server::missing_capability(&capabilities)
            }
            // Said as a result before it comes to this.
            HandlerErrorKind::InputRequired { key, .. } => {
                server::internal_error(&format!("`{key}` has no answer"))
            }
        }
    }

    pub(crate) fn missing_elicitation(mode: &str) -> HandlerError {
        HandlerError(HandlerErrorKind::MissingCapability(json!({"elicitation": {mode: {}}})))
    }
}

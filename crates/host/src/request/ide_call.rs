//! Calls of the host itself to the connected IDE. No permission rule applies to them, so only a closed list of tools can be
//! called, and only at the server of an IDE.

use serde_json::{Value as Json, json};
use switchboard_wire::jsonrpc::message::Payload;
use thiserror::Error;

use crate::connection::status::Status;
use crate::ide::{IDE_SERVER, IdeTool, IdeToolResult, is_ide};
use crate::request::error::RequestError;
use crate::request::send::{RequestSender, TOOL_CALL};
use crate::request::server_request::{
    Idempotency, RequestOptions, ServerRequest, UrlElicitationPolicy,
};

/// Why a call of the host to an IDE has no result.
#[derive(Debug, Error)]
pub enum IdeCallError {
    /// No IDE is connected.
    #[error("no IDE is connected")]
    NotConnected,
    /// The request failed.
    #[error("the call of the IDE's tool failed")]
    Request(#[source] RequestError),
    /// The result is not the result of a tool.
    #[error("the response of the IDE is invalid")]
    InvalidResult,
}

impl RequestSender {
    /// Calls a tool of the connected IDE. Does not connect to it.
    pub(crate) async fn call_ide(
        &self,
        tool: IdeTool,
        arguments: &Json,
    ) -> Result<IdeToolResult, IdeCallError> {
        let view = self.engine().connection(IDE_SERVER).map(|it| it.view());
        let is_connected =
            view.is_some_and(|it| is_ide(it.transport) && it.status == Status::Connected);
        if !is_connected {
            return Err(IdeCallError::NotConnected);
        }
        let params = json!({"name": tool.name(), "arguments": arguments});
        let request = ServerRequest {
            method: TOOL_CALL.into(),
            params: Some(Payload::from_json(params.to_string().into())),
            idempotency: Idempotency::NotIdempotent,
            param_headers: None,
            url_elicitation: UrlElicitationPolicy::ReturnError,
            options: RequestOptions::new(tool.timeout()),
        };
        let response = self.send_to_ide(&request).await.map_err(IdeCallError::Request)?;
        let result: Json = response.decode().map_err(|_| IdeCallError::InvalidResult)?;
        IdeToolResult::from_json(&result).ok_or(IdeCallError::InvalidResult)
    }
}

//! What the task of a session is told, by the agent and by the prompts of its conversation.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{ContentBlock as EditorBlock, ToolCallContent};
use serde_json::Value as Json;
use switchboard::config::permission::PermissionMode;
use switchboard::wire::jsonrpc::message::RequestId;

use crate::client::PreparedRequest;

/// How many commands may wait for the task of a session.
pub(crate) const COMMAND_QUEUE: usize = 64;

/// What the task of a session is told.
#[derive(Debug)]
pub(crate) enum SessionCommand {
    /// Sends a message to the model, in response to this request.
    Prompt { request: RequestId, prompt: Vec<EditorBlock> },
    /// Ends the running turn.
    Cancel,
    /// Ends the running turn if it belongs to this request.
    CancelRequest(RequestId),
    /// Changes the permission mode.
    SetMode { request: RequestId, mode: PermissionMode },
    /// Sends a request to the editor.
    Ask(Box<EditorRequest>),
    /// Shows the changes to files that a call will make.
    ShowChanges { id: Arc<str>, content: Vec<ToolCallContent> },
    /// A call was permitted and starts.
    CallPermitted { id: Arc<str> },
    /// Shows a warning.
    Warn(String),
    /// Ends the session, in response to this request.
    Close(RequestId),
}

/// A request to the editor. The session's id is added to its parameters.
#[derive(Debug)]
pub(crate) struct EditorRequest {
    pub(crate) request: PreparedRequest,
    pub(crate) method: &'static str,
    pub(crate) params: Json,
    /// The call whose changes are added to its parameters.
    pub(crate) call_id: Option<Arc<str>>,
}

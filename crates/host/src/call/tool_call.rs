//! A tool call, and why one fails.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use thiserror::Error;

use crate::audit::log::CallOutcome;
use crate::permission::definition_diff::DefinitionDiff;
use crate::permission::permit::PermitDenial;
use crate::pool::argument_check::ArgumentFault;
use crate::pool::tool::Tool;
use crate::request::error::RequestError;
use crate::request::server_request::RequestOptions;

/// A tool call.
#[derive(Debug)]
pub struct ToolCall {
    /// The caller, for permission requests and the audit log.
    pub caller: String,
    /// The id of the call in the caller's conversation, for permission requests.
    pub call_id: Option<Arc<str>>,
    /// The tool's exposed name.
    pub exposed_name: String,
    /// The arguments.
    pub arguments: Json,
    /// Timeout, progress and client.
    pub options: RequestOptions,
}

impl ToolCall {
    /// The default timeout.
    pub const DEFAULT_TIMEOUT: Duration = RequestOptions::DEFAULT_TIMEOUT;

    /// A call by the program itself, with the default options.
    pub fn new(exposed_name: &str, arguments: Json) -> ToolCall {
        ToolCall {
            caller: "program".to_owned(),
            call_id: None,
            exposed_name: exposed_name.to_owned(),
            arguments,
            options: RequestOptions::default(),
        }
    }
}

/// Why a call has no result.
#[derive(Debug, Error)]
pub enum ToolCallError {
    /// There is no such tool.
    #[error("there is no tool `{name}`")]
    UnknownTool {
        /// The requested name.
        name: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// The arguments do not match the tool's schema.
    #[error("the arguments of `{tool}` do not fit")]
    InvalidArguments {
        /// The tool.
        tool: String,
        /// The validation errors.
        faults: Vec<ArgumentFault>,
    },
    /// The call is not permitted.
    #[error("`{tool}` is not permitted: {because}")]
    Denied {
        /// The tool.
        tool: String,
        /// The reason.
        because: String,
        /// The change of the tool's definition that needs an approval, if that is why.
        definition_diff: Option<DefinitionDiff>,
    },
    /// The call cannot be recorded in the audit log, and the settings refuse such calls.
    #[error("`{tool}` was not called, because the audit log cannot be written")]
    Unrecorded {
        /// The tool.
        tool: String,
        /// Why the log cannot be written.
        #[source]
        error: Arc<io::Error>,
    },
    /// The request to the server failed.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl ToolCallError {
    pub(super) fn denied(tool: &Tool, denial: PermitDenial) -> ToolCallError {
        let PermitDenial { because, definition_diff } = denial;
        ToolCallError::Denied { tool: tool.exposed_name.clone(), because, definition_diff }
    }
}

impl From<&ToolCallError> for CallOutcome {
    fn from(error: &ToolCallError) -> CallOutcome {
        match error {
            ToolCallError::UnknownTool { .. } | ToolCallError::InvalidArguments { .. } => {
                CallOutcome::Invalid
            }
            ToolCallError::Denied { .. } | ToolCallError::Unrecorded { .. } => CallOutcome::Denied,
            ToolCallError::Request(RequestError::Timeout { .. }) => CallOutcome::Timeout,
            ToolCallError::Request(_) => CallOutcome::Failed,
        }
    }
}

//! Tool calls.

use std::io;

use switchboard_wire::jsonrpc::message::Payload;

use super::Host;
use crate::audit::log::CallOutcome;
use crate::call::context::CallContext;
use crate::call::pipeline;
use crate::call::relay;
use crate::call::relay::RelayedCall;
use crate::call::tool_call::{ToolCall, ToolCallError};
use crate::tool_result::ToolOutput;

impl Host {
    /// A context for calls: no rules and no user to ask, so that only tools of trusted servers are permitted.
    pub fn call_context(&self) -> io::Result<CallContext> {
        CallContext::new(self.watch_pool(), &self.context().paths)
    }

    /// Calls a tool, and records the call whatever its outcome. Dropping the future cancels the call.
    pub async fn call_with(
        &self,
        context: &CallContext,
        call: ToolCall,
    ) -> Result<ToolOutput, ToolCallError> {
        pipeline::call(&self.services, context, call).await
    }

    /// Relays a client's call byte for byte, and records it whatever its outcome.
    pub async fn relay(
        &self,
        context: &CallContext,
        call: RelayedCall<'_>,
    ) -> (CallOutcome, Result<Payload, ToolCallError>) {
        relay::relay(&self.services, context, call).await
    }
}

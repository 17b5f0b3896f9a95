//! Tool calls.

use std::io;
use std::time::Duration;

use serde_json::Value as Json;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::Progress;
use tokio::sync::mpsc;

use super::Host;
use crate::audit::log::CallOutcome;
use crate::call::context::CallContext;
use crate::call::pipeline;
use crate::call::relay;
use crate::call::relay::RelayedCall;
use crate::call::tool_call::{ToolCall, ToolCallError};
use crate::connection::status::Status;
use crate::pool::naming::{NameOrigin, prefix};
use crate::tool_result::ToolOutput;

/// A tool call with options. See [`Host::tool_call`].
#[derive(Debug)]
#[must_use = "a call does nothing before `send`"]
pub struct ToolCallBuilder<'h> {
    host: &'h Host,
    call: ToolCall,
}

impl ToolCallBuilder<'_> {
    /// Names the caller, for permission requests and the audit log.
    pub fn caller(mut self, caller: &str) -> Self {
        caller.clone_into(&mut self.call.caller);
        self
    }

    /// Sets how long the server may take. Each progress notification starts the timeout again.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.call.options.timeout = timeout;
        self
    }

    /// Sets the receiver of progress notifications.
    pub fn progress(mut self, progress: mpsc::Sender<Progress>) -> Self {
        self.call.options.progress = Some(progress);
        self
    }

    /// Calls the tool. Connects its server where it is not connected. Dropping the future cancels the call.
    pub async fn send(self) -> Result<ToolOutput, ToolCallError> {
        let ToolCallBuilder { host, call } = self;
        let context = host.default_call_context(&call.exposed_name)?;
        if let Some(server) = host.disconnected_server_of(&call.exposed_name) {
            Box::pin(host.ensure_connected(&server)).await?;
            host.settled_pool().await;
        }
        host.call_with(context, call).await
    }
}

impl Host {
    /// Calls a tool by its exposed name, with the default options. The tool must belong to a trusted server, or the
    /// permission prompt must allow the call.
    pub async fn call(&self, name: &str, arguments: Json) -> Result<ToolOutput, ToolCallError> {
        self.tool_call(name, arguments).send().await
    }

    /// A call with options: `host.tool_call(name, arguments).timeout(limit).send().await`.
    pub fn tool_call(&self, name: &str, arguments: Json) -> ToolCallBuilder<'_> {
        ToolCallBuilder { host: self, call: ToolCall::new(name, arguments) }
    }

    /// A context for calls: no rules and no user to ask, so that only tools of trusted servers are permitted.
    pub fn call_context(&self) -> io::Result<CallContext> {
        CallContext::new(self.watch_pool(), &self.context().paths)
    }

    /// Calls a tool in a context of the caller, and records the call whatever its outcome. Dropping the future cancels
    /// the call.
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

    /// The context of the builder, or an empty one. Without an audit log no call is permitted.
    fn default_call_context(&self, tool: &str) -> Result<&CallContext, ToolCallError> {
        if let Some(context) = self.default_context.get() {
            return Ok(context);
        }
        let context = self.call_context().map_err(|error| ToolCallError::Denied {
            tool: tool.to_owned(),
            because: format!("the audit log cannot be opened: {error}"),
            definition_diff: None,
        })?;
        Ok(self.default_context.get_or_init(|| context))
    }

    /// The server that a tool is named after, where the tool is not known and the server is not connected.
    fn disconnected_server_of(&self, exposed_name: &str) -> Option<String> {
        if self.pool().find(exposed_name).is_some() {
            return None;
        }
        let snapshot = self.snapshot();
        let mut missing = snapshot.servers.values().filter(|view| view.status != Status::Connected);
        let server = missing.find(|view| {
            let prefix = prefix(&view.name, NameOrigin::of(view.scope));
            exposed_name.starts_with(&format!("mcp__{prefix}__"))
        });
        server.map(|view| view.name.clone())
    }
}

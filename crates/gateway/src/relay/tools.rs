//! A tool call: found by the name that the client sees, permitted under the rules of its principal, and passed on.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use switchboard::audit::log::CallOutcome;
use switchboard::call::pipeline::{RelayedCall, ToolCallError};
use switchboard::pool::tool::Tool;
use switchboard::request::send::RequestOptions;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::Progress;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::request_state::{Approval, StateBinding};
use super::router::not_found;
use super::{
    InboundRequest, REQUEST_TIMEOUT, Relay, error_for_client, payload, progress, provenance,
};
use crate::downstream::permission_prompt::ClientPermissionPrompt;
use crate::downstream::request_context::RequestContext;
use crate::exposed::catalogue::ExposedCatalogue;
use crate::exposed::search;
use crate::multi_round_trip::modern_request::request_digest;

/// How long it takes at most until the tools of a server that is connected are served.
const TOOLS_LISTED_TIMEOUT: Duration = Duration::from_secs(5);

impl Relay {
    pub(super) async fn call_tool(&self, mut request: InboundRequest) -> Result<Payload, RpcError> {
        let mut params = std::mem::take(&mut request.params);
        let mut name = tool_name(&params)?;
        let mut catalogue = self.catalogue();
        if catalogue.is_search_tool(&name) {
            if name == search::SEARCH_TOOL {
                let is_visible = |tool: &Tool| self.shows_tool(&request.client.principal, tool);
                return search::search(&catalogue, params.get("arguments"), &is_visible);
            }
            params = search::inner_call(params)?;
            name = tool_name(&params)?;
        }
        if !catalogue.tools.contains_key(&name)
            && let Some(tool) = catalogue.disconnected_tools.get(&name).cloned()
            && self.shows_tool(&request.client.principal, &tool)
        {
            catalogue = Box::pin(self.reconnect(&name, &tool.server)).await?;
        }
        let tool = catalogue.tools.get(&name).ok_or_else(|| not_found("tool", &name))?;
        params.remove("name");
        let arguments = params.remove("arguments");
        let call = ResolvedCall { tool, exposed_name: &name, arguments };
        progress::with_progress(&request, |progress| {
            self.forward_call(&request, call, params, progress)
        })
        .await
    }

    /// What is served once the server of a tool is connected again. Its tools may be others then.
    async fn reconnect(&self, name: &str, server: &str) -> Result<Arc<ExposedCatalogue>, RpcError> {
        self.host.ensure_connected(server).await.map_err(|it| error_for_client(&it))?;
        let mut catalogue = self.catalogues.clone();
        let is_known = |it: &Arc<ExposedCatalogue>| {
            it.tools.contains_key(name) || !it.disconnected_tools.contains_key(name)
        };
        match timeout(TOOLS_LISTED_TIMEOUT, catalogue.wait_for(is_known)).await {
            Ok(_it_or_the_end) => Ok(self.catalogue()),
            Err(_) => {
                let text = format!("`{server}` has not said yet which tools it has");
                Err(server::internal_error(&text))
            }
        }
    }

    async fn forward_call(
        &self,
        request: &InboundRequest,
        call: ResolvedCall<'_>,
        mut params: RawObject,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Result<Payload, RpcError> {
        let principal = &request.client.principal;
        let context =
            Arc::new(RequestContext::new(request.client.clone(), request.channel.clone()));
        let (called, arguments) = (call.exposed_name, call.arguments.clone());
        let digest = || call_digest(called, arguments.as_ref());
        let binding = StateBinding { server: &call.tool.server, principal, digest: &digest };
        if request.client.era == Era::Modern
            && self.unwrap_state(&binding, &mut params)? == Approval::Given
        {
            context.approve();
        }
        if request.client.log_level().is_some() {
            Box::pin(self.send_log_level_for(request, &call.tool.server)).await;
        }
        let call_context = self.call_context(principal);
        let span = self.tracer.start_upstream_call(request, &call.tool.server, &call.tool.name);
        let behest = self.on_behalf_of(request, context.clone(), (&call.tool.server, &span));
        let consent = ClientPermissionPrompt { context: &context, fallback: &*call_context.prompt };
        let relayed = RelayedCall {
            caller: principal,
            requested_name: call.exposed_name,
            tool: call.tool,
            arguments: call.arguments,
            other_params: params.into_members(),
            options: RequestOptions {
                timeout: REQUEST_TIMEOUT,
                progress,
                on_behalf_of: Some(behest),
            },
            prompt: &consent,
            origin: provenance(request),
        };
        let timer = self.metrics.start_call(&call.tool.server);
        let (ended, outcome) = self.host.relay(&call_context, relayed).await;
        timer.finish(ended);
        span.finish(Some(ended).filter(|it| *it != CallOutcome::Succeeded).map(CallOutcome::id));
        let result = outcome.or_else(failure_response)?;
        self.task_owners.record(&result, &call.tool.server, principal);
        let approval = if context.is_approved() { Approval::Given } else { Approval::NotGiven };
        Ok(self.wrap_state(&binding, result, approval))
    }
}

/// A tool with the name that the client used, and the arguments.
struct ResolvedCall<'a> {
    tool: &'a Arc<Tool>,
    exposed_name: &'a str,
    arguments: Option<Payload>,
}

fn tool_name(params: &RawObject) -> Result<String, RpcError> {
    params
        .get_string("name")
        .ok_or_else(|| server::invalid_params("`name` is missing, or is no text"))
}

/// What a call is about: leave and answers for one are no good for another with other arguments.
fn call_digest(called: &str, arguments: Option<&Payload>) -> String {
    let mut params = RawObject::default();
    params.insert("name", payload(&called.into()));
    if let Some(arguments) = arguments {
        params.insert("arguments", arguments.clone());
    }
    request_digest("tools/call", &params)
}

/// A call that was not permitted is a result, so that a model reads why; everything else is an error.
fn failure_response(failure: ToolCallError) -> Result<Payload, RpcError> {
    match failure {
        ToolCallError::Denied { .. } => {
            let text = failure.to_string();
            Ok(payload(&json!({"content": [{"type": "text", "text": text}], "isError": true})))
        }
        ToolCallError::Request(error) => Err(error_for_client(&error)),
        ToolCallError::UnknownTool { .. } | ToolCallError::InvalidArguments { .. } => {
            Err(server::invalid_params(&failure.to_string()))
        }
    }
}

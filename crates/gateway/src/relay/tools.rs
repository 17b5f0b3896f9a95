//! `tools/call`: finds the tool by its exposed name and makes the call with the permissions of the principal.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use switchboard::audit::log::CallOutcome;
use switchboard::pool::Tool;
use switchboard::request::RequestOptions;
use switchboard::{CallContext, RelayedCall, ToolCallError};
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::Progress;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::errors::{error_for_client, failure_response, has_call_ended, method_error, not_found};
use super::progress::with_progress;
use super::request_state::request_digest;
use super::used_states::StateUse;
use super::{REQUEST_TIMEOUT, Relay};
use crate::downstream::leases::ConnectionLease;
use crate::downstream::permission_prompt::ClientPermissionPrompt;
use crate::downstream::request::{InboundRequest, Outcome};
use crate::exposed::catalogue::ExposedCatalogue;
use crate::exposed::search;
use crate::json::payload;
use crate::method::Method;

/// How long a connected server may take to list its tools.
const TOOLS_LISTED_TIMEOUT: Duration = Duration::from_secs(5);

impl Relay {
    pub(super) async fn call_tool(&self, request: &InboundRequest) -> Outcome {
        let mut params = Cow::Borrowed(&request.params);
        let mut name = tool_name(&params)?;
        let mut catalogue = self.catalogue();
        if catalogue.is_search_tool(&name) {
            if name == search::SEARCH_TOOL {
                let is_visible = |tool: &Tool| self.shows_tool(request.principal(), tool);
                let tools = (&catalogue.tools, &*catalogue.pool);
                return search::search(tools, params.get("arguments"), &is_visible);
            }
            params = Cow::Owned(search::inner_call(params.into_owned())?);
            name = tool_name(&params)?;
        }
        if !catalogue.tools.contains_key(&name) && catalogue.unconnected_tool(&name).is_none() {
            Box::pin(self.first_lists.wait()).await;
            catalogue = self.catalogue();
        }
        if let Some(tool) = catalogue.unconnected_tool(&name).cloned()
            && self.shows_tool(request.principal(), &tool)
        {
            catalogue = Box::pin(self.reconnect(&name, &tool.server)).await?;
        }
        let tool = catalogue.tools.get(&name).ok_or_else(|| not_found("tool", &name))?;
        with_progress(request, |progress| {
            self.forward_call(request, (&name, tool), &params, progress)
        })
        .await
    }

    /// Connects the server of a tool, and returns the catalogue with its tools. The tool may be gone then.
    async fn reconnect(&self, name: &str, server: &str) -> Result<Arc<ExposedCatalogue>, RpcError> {
        let max_wait = self.host.connect_timeout(server);
        match timeout(max_wait, self.host.ensure_connected(server)).await {
            Ok(connected) => connected.map_err(|it| error_for_client(&it))?,
            Err(_) => {
                let text = format!("`{server}` is not connected yet");
                return Err(server::internal_error(&text));
            }
        }
        let mut catalogues = self.catalogues.clone();
        let is_listed = |it: &Arc<ExposedCatalogue>| it.is_listed(name, server);
        match timeout(TOOLS_LISTED_TIMEOUT, catalogues.wait_for(is_listed)).await {
            Ok(_listed_or_closed) => Ok(self.catalogue()),
            Err(_) => {
                let text = format!("`{server}` has not listed its tools yet");
                Err(server::internal_error(&text))
            }
        }
    }

    async fn forward_call(
        &self,
        request: &InboundRequest,
        (exposed_name, tool): (&str, &Arc<Tool>),
        params: &RawObject,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Outcome {
        let _running = self.count_for_quotas(request, (exposed_name, tool)).await?;
        let principal = request.principal();
        let server = tool.server.as_str();
        let arguments = params.get("arguments");
        let mut other_params = params.without(&["name", "arguments"]);
        let digest = || call_digest(exposed_name, arguments);
        if request.client().era == Era::Modern {
            let state_use = match tool.annotations.read_only {
                true => StateUse::UntilExpired,
                false => StateUse::Once,
            };
            self.unwrap_state(server, request, (digest, state_use), &mut other_params).await?;
        }
        let context = self.shared_context(request.client()).await?;
        let lease = self.lease_connection(request, server).await?;
        if request.client().log_level().is_some() {
            Box::pin(self.send_log_level_for(request, (server, lease.as_ref()))).await;
        }
        let params = (arguments.cloned(), other_params.into_members());
        let outcome = self
            .relay_call(request, (exposed_name, tool), params, (progress, lease, context))
            .await;
        let result = outcome.or_else(failure_response)?;
        self.record_task(&result, server, principal).await;
        Ok(self.wrap_state(server, request, digest, result))
    }

    /// Makes a call with the permissions of the principal, and records it.
    async fn relay_call(
        &self,
        request: &InboundRequest,
        (requested_name, tool): (&str, &Arc<Tool>),
        (arguments, other_params): (Option<Payload>, Vec<(String, Payload)>),
        (progress, lease, call_context): (
            Option<mpsc::Sender<Progress>>,
            Option<ConnectionLease>,
            Arc<CallContext>,
        ),
    ) -> Result<Payload, ToolCallError> {
        let (principal, server) = (request.principal(), tool.server.as_str());
        let attributes = request.upstream_attributes(server, Some(&tool.name));
        let span = self.tracer.start_upstream(&attributes);
        let prompt =
            ClientPermissionPrompt { context: &request.context, operator: &*call_context.prompt };
        let call = RelayedCall {
            caller: principal,
            requested_name,
            tool,
            arguments,
            other_params,
            options: RequestOptions {
                timeout: REQUEST_TIMEOUT,
                progress,
                on_behalf_of: Some(self.on_behalf_of(request, (server, lease.as_ref()), &span)),
            },
            prompt: &prompt,
            origin: request.origin(),
        };
        let timer = self.metrics.start_call(server);
        let of_principal = self.principals.start_call(principal);
        let (call_outcome, outcome) = self.host.relay(&call_context, call).await;
        timer.finish(call_outcome);
        of_principal.finish(call_outcome);
        if let Some(lease) = &lease
            && outcome.as_ref().err().is_none_or(has_call_ended)
        {
            lease.complete();
        }
        let failure = Some(call_outcome).filter(|it| *it != CallOutcome::Succeeded);
        span.finish(failure.map(CallOutcome::id));
        outcome
    }

    /// Forwards a method of an extension, as a call.
    pub(super) async fn relay_method(
        &self,
        request: &InboundRequest,
        tool: &Arc<Tool>,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Outcome {
        let _running = self.count_for_quotas(request, (&tool.exposed_name, tool)).await?;
        let server = tool.server.as_str();
        let digest = || request_digest(&request.method, &request.params);
        let mut params = request.params.clone();
        if request.client().era == Era::Modern {
            self.unwrap_state(server, request, (digest, StateUse::Once), &mut params).await?;
        }
        let params = (Some(params.to_payload()), Vec::new());
        let context = self.shared_context(request.client()).await?;
        let lease = self.lease_connection(request, server).await?;
        let target = (&*tool.exposed_name, tool);
        let outcome = self.relay_call(request, target, params, (progress, lease, context)).await;
        let result = outcome.map_err(method_error)?;
        self.record_task(&result, server, request.principal()).await;
        Ok(self.wrap_state(server, request, digest, result))
    }
}

fn tool_name(params: &RawObject) -> Result<String, RpcError> {
    params
        .get_string("name")
        .ok_or_else(|| server::invalid_params("`name` is missing or is not a string"))
}

/// The digest of a call, over the tool and its arguments. An approval or a state for one call is invalid for another.
fn call_digest(exposed_name: &str, arguments: Option<&Payload>) -> String {
    let mut params = RawObject::default();
    params.insert("name", payload(&exposed_name.into()));
    if let Some(arguments) = arguments {
        params.insert("arguments", arguments.clone());
    }
    request_digest(&Method::ToolsCall, &params)
}

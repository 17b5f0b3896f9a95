//! One question of a client, from its method to its answer: looks up whose it is, and passes it on. Nothing here knows
//! how the client is connected; what is asked back goes through the question's own outlet.

mod era_result;
mod progress;
mod request_state;
mod router;
mod tools;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use switchboard::audit::log::RequestOrigin;
use switchboard::call::pipeline::{CallContext, ToolCall};
use switchboard::catalogue::fetch::ListKind;
use switchboard::host::Host;
use switchboard::pool::naming;
use switchboard::pool::tool::Tool;
use switchboard::request::send::{OnBehalfOf, OnInputRequired, RequestError, ServerRequest};
use switchboard_config::permission::{self, PermissionEffect, PermissionRules, RuleEntry};
use switchboard_config::settings::principals::Principals;
use switchboard_wire::client::ClientMeta;
use switchboard_wire::jsonrpc::message::{Payload, RequestId, RpcError};
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::request_meta::{RawObject, RequestMeta};
use switchboard_wire::server;
use switchboard_wire::server::ServerIdentity;
use tokio::sync::watch;

use crate::downstream::client::Client;
use crate::downstream::request_context::{ClientChannel, RequestContext};
use crate::exposed::catalogue::ExposedCatalogue;
use crate::multi_round_trip::modern_request::request_digest;
use crate::sealed_state::StateSealer;
use crate::task_owners::TaskOwners;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::spans::{ActiveSpan, Tracer};
use crate::telemetry::trace_context;
use crate::telemetry::trace_context::{TRACEPARENT, TraceContext};

use request_state::{Approval, StateBinding};
pub(crate) use request_state::{REQUEST_STATE_TTL, RequestState, invalid_request_state};

/// How many principals are known at once.
const MAX_CALL_CONTEXTS: usize = 10_000;
/// How long a server may take to answer.
const REQUEST_TIMEOUT: Duration = ToolCall::DEFAULT_TIMEOUT;

/// What we say our version is.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What every client of a gateway shares.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) host: Host,
    pub(crate) catalogues: watch::Receiver<Arc<ExposedCatalogue>>,
    pub(crate) sealer: StateSealer,
    pub(crate) task_owners: TaskOwners,
    pub(crate) metrics: Metrics,
    pub(crate) tracer: Tracer,
    /// How much of its log each client wants to hear, by number.
    pub(crate) log_levels: watch::Sender<HashMap<u64, &'static str>>,
    base_context: CallContext,
    principals: watch::Sender<Principals>,
    /// The desks of those who have rules of their own or answered for a session.
    contexts: watch::Sender<HashMap<Arc<str>, Arc<CallContext>>>,
}

/// A question.
#[derive(Debug, Clone)]
pub(crate) struct InboundRequest {
    pub(crate) client: Arc<Client>,
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: RawObject,
    pub(crate) meta: RequestMeta,
    pub(crate) channel: Arc<dyn ClientChannel>,
    pub(crate) origin: TraceOrigin,
}

/// Where a question came from, for those who watch.
#[derive(Debug, Clone)]
pub(crate) struct TraceOrigin {
    id: RequestId,
    /// The trace that the client says it belongs to.
    pub(crate) parent: Option<TraceContext>,
    /// The place in a trace that is ours.
    pub(crate) span: Option<TraceContext>,
}

/// The longest name of a request that is recorded, in characters.
const MAX_ID_CHARS: usize = 100;

impl TraceOrigin {
    /// A question that its client calls so.
    pub(crate) fn new(id: RequestId) -> TraceOrigin {
        TraceOrigin { id, parent: None, span: None }
    }

    /// What the client calls it.
    pub(crate) fn id_text(&self) -> String {
        let json = self.id.to_json();
        let text = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
        text.chars().take(MAX_ID_CHARS).collect()
    }
}

impl Relay {
    pub(crate) fn new(
        host: Host,
        base_context: CallContext,
        catalogues: watch::Receiver<Arc<ExposedCatalogue>>,
        tracer: Tracer,
    ) -> Relay {
        Relay {
            host,
            catalogues,
            sealer: StateSealer::new(),
            task_owners: TaskOwners::default(),
            metrics: Metrics::default(),
            tracer,
            log_levels: watch::Sender::default(),
            base_context,
            principals: watch::Sender::default(),
            contexts: watch::Sender::default(),
        }
    }

    /// What is served now.
    pub(crate) fn catalogue(&self) -> Arc<ExposedCatalogue> {
        self.catalogues.borrow().clone()
    }

    /// What we say of ourselves to this principal.
    pub(crate) fn server_identity(&self, era: Era, principal: &Arc<str>) -> ServerIdentity {
        let catalogue = self.catalogue();
        ServerIdentity {
            name: "switchboard".to_owned(),
            title: Some("Switchboard".to_owned()),
            version: VERSION.to_owned(),
            instructions: catalogue.instructions(|it| self.shows_server(principal, it)),
            capabilities: catalogue.capabilities(era).clone(),
        }
    }

    /// What calls of this principal depend on.
    pub(crate) fn call_context(&self, principal: &Arc<str>) -> Arc<CallContext> {
        if let Some(context) = self.contexts.borrow().get(principal) {
            return context.clone();
        }
        let mut context = self.base_context.clone();
        context.rules = context.rules.fork();
        if let Some(own) = self.principals.borrow().rules(principal) {
            context.rules.replace(self.base_context.rules.current().as_ref().clone().merge(own));
        }
        let context = Arc::new(context);
        let mut context_in_map = context.clone();
        self.contexts.send_modify(|contexts| {
            // Who comes back has only to answer again what was answered for a session.
            if contexts.len() >= MAX_CALL_CONTEXTS {
                contexts.clear();
            }
            context_in_map = contexts.entry(principal.clone()).or_insert(context).clone();
        });
        context_in_map
    }

    /// A client is gone, and with it what was only its own.
    pub(crate) async fn client_disconnected(&self, client: &Client) {
        self.log_levels.send_if_modified(|it| it.remove(&client.id).is_some());
        let lane = self.catalogue().own_connection_key(client);
        if let Some(lane) = lane {
            self.host.close_dedicated(&lane).await;
        }
    }

    /// The rules changed.
    pub(crate) fn set_rules(&self, rules: &PermissionRules, principals: &Principals) {
        self.base_context.rules.replace(rules.clone());
        self.principals.send_replace(principals.clone());
        for (principal, context) in self.contexts.borrow().iter() {
            let own = principals.rules(principal).unwrap_or_default();
            context.rules.replace(rules.clone().merge(own));
        }
    }

    /// Are there things that others see and this principal does not?
    pub(crate) fn hides_anything(&self, principal: &Arc<str>) -> bool {
        let denies = |it: &RuleEntry| it.effect == PermissionEffect::Deny;
        let rules = self.call_context(principal).rules.current();
        rules.entries().iter().any(denies)
    }

    /// May this principal see the tool?
    pub(crate) fn shows_tool(&self, principal: &Arc<str>, tool: &Tool) -> bool {
        let rules = self.call_context(principal).rules.current();
        let name = naming::sanitise_borrowed(&tool.name);
        permission::tool_hidden_by(&rules, &tool.prefix, &name).is_none()
    }

    /// May this principal see anything of the server? Who may call none of its tools has no business with the rest.
    pub(crate) fn shows_server(&self, principal: &Arc<str>, server: &str) -> bool {
        let rules = self.call_context(principal).rules.current();
        let catalogue = self.catalogues.borrow();
        let prefix = catalogue.servers.iter().find(|it| *it.server == *server).map(|it| &it.prefix);
        prefix.is_none_or(|it| permission::server_hidden_by(&rules, it).is_none())
    }

    /// Answers a question that is neither the beginning of a conversation nor about changes.
    pub(crate) async fn respond(&self, mut request: InboundRequest) -> Result<Payload, RpcError> {
        self.metrics.count_request(&request.method);
        request.origin.parent = TraceContext::from_meta(&request.meta);
        let span = self.tracer.start_request(&request);
        request.origin.span = span.context();
        let outcome = self.respond_in_era(request).await;
        span.finish_with(&outcome);
        outcome
    }

    async fn respond_in_era(&self, request: InboundRequest) -> Result<Payload, RpcError> {
        let (era, method) = (request.client.era, request.method.clone());
        let result = self.route(request).await;
        match era {
            Era::Legacy => result,
            Era::Modern => result
                .map(|it| era_result::to_modern_result(&method, it))
                .map_err(era_result::to_modern_error),
        }
    }

    /// A page of a list, without what is hidden from whoever asks.
    fn list(&self, list: ListKind, request: &InboundRequest) -> Result<Payload, RpcError> {
        let catalogue = self.catalogue();
        let cursor = request.params.get_string("cursor");
        let pages = catalogue.lists.get(&list);
        let pages = pages.ok_or_else(|| server::invalid_params("nothing is listed yet"))?;
        let page = pages.page(request.client.era, cursor.as_deref())?;
        let principal = &request.client.principal;
        if !self.hides_anything(principal) {
            return Ok(page);
        }
        let mut page: Map<String, Json> =
            page.decode().map_err(|_| server::internal_error("the list cannot be read"))?;
        if let Some(Json::Array(entries)) = page.get_mut(list.id()) {
            entries.retain(|entry| match (list, catalogue.owner_of_entry(list, entry)) {
                (ListKind::Tools, _) => {
                    let name = entry["name"].as_str();
                    let tool = name.and_then(|name| catalogue.tools.get(name));
                    tool.is_none_or(|tool| self.shows_tool(principal, tool))
                }
                (_, owner) => owner.is_none_or(|server| self.shows_server(principal, server)),
            });
        }
        Ok(payload(&Json::Object(page)))
    }

    /// Passes a question on to one server, as it is.
    async fn forward(
        &self,
        server: &str,
        request: &InboundRequest,
        mut params: RawObject,
    ) -> Result<Payload, RpcError> {
        if !self.shows_server(&request.client.principal, server) {
            return Err(server::invalid_params("there is no such thing here"));
        }
        let original_params = params.clone();
        let digest = || request_digest(&request.method, &original_params);
        let binding =
            StateBinding { server, principal: &request.client.principal, digest: &digest };
        if request.client.era == Era::Modern {
            self.unwrap_state(&binding, &mut params)?;
        }
        self.send_log_level_for(request, server).await;
        let request_context =
            Arc::new(RequestContext::new(request.client.clone(), request.channel.clone()));
        let span = self.tracer.start_upstream(request, server);
        let answer = progress::with_progress(request, |progress| async {
            let question = ServerRequest::idempotent(request.method.clone(), REQUEST_TIMEOUT)
                .params(params.to_payload())
                .progress(progress);
            let question =
                question.on_behalf_of(self.on_behalf_of(request, request_context, (server, &span)));
            let answer = self.host.request(server, question).await;
            answer.map_err(|it| error_for_client(&it))
        });
        let answer = answer.await;
        span.finish_with(&answer);
        Ok(self.wrap_state(&binding, answer?, Approval::NotGiven))
    }

    /// The server is told that what it does belongs to the span, where there is one.
    fn on_behalf_of(
        &self,
        request: &InboundRequest,
        request_context: Arc<RequestContext>,
        (server, span): (&str, &ActiveSpan),
    ) -> OnBehalfOf {
        let client = &request.client;
        let members = match span.context() {
            None => request.meta.forwarded_members(client.log_level()),
            Some(context) => {
                let mut meta = request.meta.clone();
                meta.other_members
                    .insert(TRACEPARENT, trace_context::json_string(&context.to_traceparent()));
                meta.forwarded_members(client.log_level())
            }
        };
        OnBehalfOf {
            handler: request_context,
            client_meta: ClientMeta {
                capabilities: Some(client.capabilities_json.clone()),
                members,
            },
            on_input_required: match client.era {
                Era::Legacy => OnInputRequired::Answer,
                Era::Modern => OnInputRequired::PassThrough,
            },
            dedicated_connection: self.catalogues.borrow().dedicated_connection(client, server),
        }
    }
}

/// Where a call came from, for the records.
fn provenance(request: &InboundRequest) -> RequestOrigin {
    let trace = request.origin.span.or(request.origin.parent);
    RequestOrigin {
        session: request.client.session_digest().map(str::to_owned).unwrap_or_default(),
        request: request.origin.id_text(),
        trace: trace.map(|it| it.trace_id()).unwrap_or_default(),
    }
}

/// Why a server did not answer, as the client is told. What the server itself said is said again.
pub(crate) fn error_for_client(error: &RequestError) -> RpcError {
    match error {
        RequestError::ErrorResponse(remote) => remote.clone(),
        RequestError::NotConnected(view) => {
            let why = view.status.cause().map(ToString::to_string);
            let why = why.unwrap_or_else(|| view.status.id().to_owned());
            server::internal_error(&format!("{error}: {why}"))
        }
        RequestError::PermitRequired
        | RequestError::UnknownServer(_)
        | RequestError::Timeout { .. }
        | RequestError::TooLarge { .. }
        | RequestError::UrlElicitationDeclined { .. }
        | RequestError::Interrupted { .. }
        | RequestError::ConnectionLost { .. } => server::internal_error(&error.to_string()),
    }
}

/// A value as it is sent.
pub(crate) fn payload(json: &Json) -> Payload {
    Payload::from_json(json.to_string().into())
}

fn empty_object() -> Payload {
    payload(&json!({}))
}

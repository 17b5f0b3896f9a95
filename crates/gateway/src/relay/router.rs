//! Responds to a request: counts it, records its span, chooses the handler of its method, and adapts the result to the
//! client's era.

use switchboard::catalogue::fetch::ListKind;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::server;

use super::Relay;
use super::era_result;
use super::lookup::{LEGACY_TASKS, SKILLS_EXTENSION};
use crate::downstream::request::{InboundRequest, Outcome};
use crate::method::Method;

impl Relay {
    /// Responds to a request that is neither part of a handshake nor a subscription.
    pub(crate) async fn respond(&self, request: &InboundRequest) -> Outcome {
        self.metrics.count_request(&request.method);
        let span = self.tracer.start_request(|| request.span_attributes());
        request.set_span(span.context());
        let outcome = self.respond_in_era(request).await;
        span.finish_with(&outcome);
        outcome
    }

    async fn respond_in_era(&self, request: &InboundRequest) -> Outcome {
        let result = self.route(request).await;
        match request.client().era {
            Era::Legacy => result,
            Era::Modern => result
                .map(|it| era_result::to_modern_result(&request.method, it))
                .map_err(era_result::to_modern_error),
        }
    }

    async fn route(&self, request: &InboundRequest) -> Outcome {
        let has_tools =
            || self.catalogues.borrow().capabilities(request.client().era).contains_key("tools");
        match request.method == Method::ToolsCall && has_tools() {
            true => self.call_tool(request).await,
            // Boxed, so that the future of a call has no room for all other handlers.
            false => Box::pin(self.route_other(request)).await,
        }
    }

    async fn route_other(&self, request: &InboundRequest) -> Outcome {
        let catalogue = self.catalogue();
        let era = request.client().era;
        let any = |name: &str| catalogue.capabilities(era).contains_key(name);
        match &request.method {
            Method::ToolsList if any("tools") => self.list(ListKind::Tools, request),
            Method::ResourcesList if any("resources") => self.list(ListKind::Resources, request),
            Method::ResourceTemplatesList if any("resources") => {
                self.list(ListKind::ResourceTemplates, request)
            }
            Method::ResourcesRead if any("resources") => self.read_resource(request).await,
            Method::PromptsList if any("prompts") => self.list(ListKind::Prompts, request),
            Method::PromptsGet if any("prompts") => self.get_prompt(request).await,
            Method::Complete if any("completions") => self.complete(request).await,
            Method::SetLogLevel if era == Era::Legacy && any("logging") => {
                self.set_log_level(request).await
            }
            Method::SkillsList => self.list_across_servers(request, SKILLS_EXTENSION).await,
            Method::SkillsGet | Method::ResourceDirectoryRead => {
                match catalogue.servers_with(SKILLS_EXTENSION).next() {
                    Some(_) => self.read_resource(request).await,
                    None => Err(server::method_not_found(request.method.as_str())),
                }
            }
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => {
                self.forward_task(request).await
            }
            Method::TasksResult if era == Era::Legacy => self.forward_task(request).await,
            Method::TasksList if era == Era::Legacy && any(LEGACY_TASKS) => {
                self.list_across_servers(request, LEGACY_TASKS).await
            }
            Method::TasksResult | Method::TasksList => {
                Err(server::method_not_found(request.method.as_str()))
            }
            Method::ToolsCall
            | Method::ToolsList
            | Method::ResourcesList
            | Method::ResourceTemplatesList
            | Method::ResourcesRead
            | Method::PromptsList
            | Method::PromptsGet
            | Method::Complete
            | Method::SetLogLevel
            | Method::Initialize
            | Method::Ping
            | Method::Discover
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::SubscriptionsListen
            | Method::Other(_) => self.forward_extension(request).await,
        }
    }
}

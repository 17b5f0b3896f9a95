//! Responds to a request: counts it, records its span, chooses the handler of its method, and adapts the result to the
//! client's era.

use std::time::{Duration, Instant};

use switchboard::catalogue::ListKind;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::server;
use tracing::{Level, debug, enabled};

use super::Relay;
use super::era_result;
use super::lookup::{LEGACY_TASKS, SKILLS_EXTENSION};
use crate::downstream::request::{InboundRequest, Outcome};
use crate::method::Method;

/// Logs a request without its parameters.
fn log_request(request: &InboundRequest, outcome: &Outcome, elapsed: Duration) {
    let client = request.client();
    let (principal, session) = (&*client.principal, client.session_digest());
    let error_code = outcome.as_ref().err().map(|it| it.code);
    let method = request.method.as_str();
    debug!(principal, session, method, error_code, ?elapsed, "request answered");
}

impl Relay {
    /// Responds to a request that is neither part of a handshake nor a subscription.
    pub(crate) async fn respond(&self, request: &InboundRequest) -> Outcome {
        self.metrics.count_request(&request.method);
        self.principals.seen(request.principal());
        let span = self.tracer.start_request(|| request.span_attributes());
        request.set_span(span.context());
        let started = enabled!(Level::DEBUG).then(Instant::now);
        let outcome = self.respond_in_era(request).await;
        if let Some(started) = started {
            log_request(request, &outcome, started.elapsed());
        }
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
        match request.method == Method::ToolsCall {
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
            Method::ToolsList => self.list(ListKind::Tools, request).await,
            Method::ResourcesList => self.list(ListKind::Resources, request).await,
            Method::ResourceTemplatesList => self.list(ListKind::ResourceTemplates, request).await,
            Method::ResourcesRead => self.read_resource(request).await,
            Method::PromptsList => self.list(ListKind::Prompts, request).await,
            Method::PromptsGet => self.get_prompt(request).await,
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

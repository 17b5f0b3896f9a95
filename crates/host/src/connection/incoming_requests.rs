//! Requests of the server to the client: each is answered by a task, within limits, until the server cancels it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Json;
use switchboard_wire::client::RequestHandler;
use switchboard_wire::jsonrpc::message::{Payload, RequestId, RpcError};
use switchboard_wire::peer::{Attribution, CallOwner, IncomingRequest};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{debug, warn};

use crate::connection::context::ConnectionContext;

/// The maximum number of concurrent requests.
const MAX_CONCURRENT_REQUESTS: usize = 32;
/// The same for requests that belong to a client's call. Each may wait for another user.
const MAX_CONCURRENT_ATTRIBUTED_REQUESTS: usize = 4096;
const INTERNAL_ERROR: i64 = -32603;
const METHOD_NOT_FOUND: i64 = -32601;
const ROOTS_LIST: &str = "roots/list";
const ELICITATION_CREATE: &str = "elicitation/create";

/// The requests that are being answered.
#[derive(Default)]
pub(super) struct IncomingRequests {
    tasks: JoinSet<()>,
    running: Vec<(RequestId, AbortHandle)>,
}

impl IncomingRequests {
    /// Starts to answer a request of a server. `default_handler` answers requests that belong to no call.
    pub(super) fn accept(
        &mut self,
        request: IncomingRequest,
        server: &str,
        context: &ConnectionContext,
        default_handler: Option<&Arc<dyn CallOwner>>,
    ) {
        let limit = match &request.attribution {
            Attribution::Owner(_) => MAX_CONCURRENT_ATTRIBUTED_REQUESTS,
            Attribution::None | Attribution::Ambiguous => MAX_CONCURRENT_REQUESTS,
        };
        if self.tasks.len() >= limit {
            warn!(server, limit, "request of the server rejected: too many at once");
            return self.reject(request, "too many requests at once");
        }
        let mut has_client = false;
        let responder: Arc<dyn RequestHandler> = match &request.attribution {
            Attribution::None => {
                let shared = || context.client_features.default_handler();
                match default_handler.cloned().or_else(shared) {
                    Some(owner) => {
                        has_client = true;
                        owner
                    }
                    None => context.responder(server),
                }
            }
            Attribution::Owner(owner) => owner.clone(),
            // Asking the wrong client would show one client what another does.
            Attribution::Ambiguous => {
                let text =
                    "a request was rejected: it does not say which client's call it belongs to";
                context.stderr_log.note(server, text);
                warn!(server, "request of the server rejected: it names no client's call");
                return self.reject(
                    request,
                    "several clients are connected, and the request does not say which call it belongs to",
                );
            }
        };
        debug!(server, method = &*request.method, "request of the server accepted");
        let id = request.id.clone();
        // Hooks come before a client that answers requests outside of its calls; our own responder asks them itself, and
        // so do the clients of calls.
        let is_for_client = matches!(request.attribution, Attribution::None) && has_client;
        let hooks = (is_for_client && *request.method == *ELICITATION_CREATE)
            .then(|| (context.client_features.clone(), server.to_owned()));
        let own_roots =
            (*request.method == *ROOTS_LIST).then(|| context.client_features.roots()).flatten();
        let answering = self.tasks.spawn(async move {
            let method = request.method.clone();
            let params = request.params.clone();
            if let Some((features, server)) = hooks {
                let asked = params.as_ref().and_then(|it| it.decode().ok()).unwrap_or_default();
                if let Some(result) = features.hook_result(&server, asked).await {
                    return request.respond(Payload::from_json(result.to_string().into())).await;
                }
            }
            match (responder.respond(&method, params).await, own_roots) {
                (Ok(result), _) => request.respond(result).await,
                // A client without roots.
                (Err(RpcError { code: METHOD_NOT_FOUND, .. }), Some(roots)) => {
                    request.respond(Payload::from_json(roots.to_string().into())).await;
                }
                (Err(error), _) => request.reject(error).await,
            }
        });
        self.running.retain(|(_, answering)| !answering.is_finished());
        self.running.push((id, answering));
    }

    fn reject(&mut self, request: IncomingRequest, message: &str) {
        let error = RpcError { code: INTERNAL_ERROR, message: message.to_owned(), data: None };
        self.tasks.spawn(request.reject(error));
    }

    /// Cancels the request that a `notifications/cancelled` names.
    pub(super) fn cancel(&mut self, params: Option<&Payload>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct CancelledParams {
            request_id: Json,
        }
        let Some(cancelled) = params.and_then(|it| it.decode::<CancelledParams>().ok()) else {
            return;
        };
        let cancelled = RequestId::from_json(&cancelled.request_id);
        self.running.retain(|(id, answering)| {
            let is_cancelled = *id == cancelled;
            if is_cancelled {
                answering.abort();
            }
            !is_cancelled
        });
    }

    /// Removes the tasks that have ended.
    pub(super) fn reap(&mut self) {
        while self.tasks.try_join_next().is_some() {}
    }

    /// Cancels all requests.
    pub(super) async fn abort_all(&mut self) {
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
    }
}

//! Sends a request to a server: connects where needed, signs in where the server requires it, and retries where that is
//! safe. Every request of the host goes through `RequestSender::send`.

use std::sync::Arc;
use std::time::Duration;

use switchboard_auth::scopes::StepUpLimit;
use switchboard_wire::client::RequestBuilder;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{CallError, Delivery};
use switchboard_wire::transport_error::TransportError;
use tracing::{debug, info};

use crate::connection::context::ConnectionContext;
use crate::connection::handle::ConnectionHandle;
use crate::connection::retry_class;
use crate::connection::status::ActiveConnection;
use crate::elicitation::url;
use crate::engine::handle::EngineHandle;
use crate::ide::IDE_SERVER;
use crate::permission::permit::Permit;

pub(crate) use crate::request::error::RequestError;
pub(crate) use crate::request::server_request::{
    Idempotency, OnBehalfOf, OnInputRequired, ServerRequest, UrlElicitationPolicy,
};

/// The maximum number of attempts of one request.
const MAX_ATTEMPTS: usize = 3;
/// The method that needs a permit.
pub(crate) const TOOL_CALL: &str = "tools/call";

/// The authorization of a request.
pub(crate) enum Authority {
    /// Nothing is needed: any method but `tools/call`.
    Request,
    /// A permit for this tool call.
    ToolCall(Permit),
}

/// Sends requests to the servers of a host.
#[derive(Debug, Clone)]
pub(crate) struct RequestSender {
    engine: EngineHandle,
    context: Arc<ConnectionContext>,
}

impl RequestSender {
    pub(crate) fn new(engine: EngineHandle, context: Arc<ConnectionContext>) -> RequestSender {
        RequestSender { engine, context }
    }

    pub(crate) fn engine(&self) -> &EngineHandle {
        &self.engine
    }

    pub(crate) fn context(&self) -> &Arc<ConnectionContext> {
        &self.context
    }

    /// Sends a request, and again after URL elicitations where its policy is to resolve them.
    pub(crate) async fn send(
        &self,
        server: &str,
        request: &ServerRequest,
        authority: Authority,
    ) -> Result<Payload, RequestError> {
        match authority {
            Authority::Request if request.method == TOOL_CALL => {
                return Err(RequestError::PermitRequired);
            }
            Authority::Request => {}
            // The permit is for this one call.
            Authority::ToolCall(permit) => drop(permit),
        }
        let client = request.options.on_behalf_of.as_ref();
        let elicitor = match request.url_elicitation {
            UrlElicitationPolicy::Resolve => Some(self.context.client_features.elicitor()),
            UrlElicitationPolicy::ReturnError => {
                client.and_then(|it| it.url_elicitor.as_ref()).map(|it| &*it.0)
            }
        };
        let Some(elicitor) = elicitor else { return self.send_with_retries(server, request).await };
        for _ in 0..url::MAX_ROUNDS {
            // Subscribed before the request is sent, because the server may complete an elicitation early.
            let mut completed = self.context.completed_elicitations.subscribe();
            let error = match self.send_with_retries(server, request).await {
                Err(RequestError::ErrorResponse(error)) if url::is_required_by(&error) => error,
                outcome => return outcome,
            };
            Box::pin(url::complete_url_elicitations(elicitor, server, &error, &mut completed))
                .await
                .map_err(|reason| {
                    let server = server.to_owned();
                    RequestError::UrlElicitationDeclined { server, reason }
                })?;
        }
        self.send_with_retries(server, request).await
    }

    /// Sends a request to the connected IDE. Only [`RequestSender::call_ide`] uses this: its tools need no permit.
    pub(super) async fn send_to_ide(
        &self,
        request: &ServerRequest,
    ) -> Result<Payload, RequestError> {
        self.send_with_retries(IDE_SERVER, request).await
    }

    async fn send_with_retries(
        &self,
        server: &str,
        request: &ServerRequest,
    ) -> Result<Payload, RequestError> {
        let unknown_server = || RequestError::UnknownServer(server.to_owned());
        let client = request.options.on_behalf_of.as_ref();
        let connections = self.engine.connections();
        let dedicated = match client.and_then(|it| it.dedicated_connection.as_ref()) {
            Some(dedicated) => {
                let handle = Box::pin(self.engine.connection_for(server, Some(dedicated))).await;
                let refused = || match connections.contains_key(server) {
                    true => RequestError::TooManyConnections { server: server.to_owned() },
                    false => unknown_server(),
                };
                Some(handle.ok_or_else(refused)?)
            }
            None => None,
        };
        let handle =
            dedicated.as_ref().or_else(|| connections.get(server)).ok_or_else(unknown_server)?;
        let _use = handle.begin_use();
        // The timeout of a server's entry has priority for tool calls.
        let timeout = match handle.desired().spec.common.timeout {
            Some(timeout) if request.method == TOOL_CALL => timeout,
            Some(_) | None => request.options.timeout,
        };
        let mut active = handle.ensure_active(None).await.map_err(RequestError::NotConnected)?;
        let mut attempt = 1;
        let mut was_retried = false;
        let mut step_ups = StepUpLimit::default();
        loop {
            let error = match self.send_once(server, &active, request, timeout).await {
                Ok(result) => return Ok(result),
                Err(error) => error,
            };
            // The futures below are rare and large; boxed, they do not enlarge the future of every call.
            // A rejected request was not run, so that it may be sent again.
            if retry_class::is_auth_rejection(&error)
                && step_ups.try_acquire()
                && Box::pin(self.sign_in(handle)).await
            {
                info!(server, method = &*request.method, "request repeated after a login");
                continue;
            }
            Box::pin(handle.report_failure(&active, &error)).await;
            let seen = match after_failure(&error, request.idempotency, attempt, was_retried) {
                AfterFailure::RetryOnSame => None,
                AfterFailure::RetryOnNewer => Some(active.generation),
                AfterFailure::Fail => {
                    let (method, error_kind) = (&*request.method, error.log_label());
                    debug!(server, method, attempt, error = error_kind, "request failed");
                    return Err(into_request_error(server, error, request.idempotency));
                }
            };
            let (method, error_kind) = (&*request.method, error.log_label());
            info!(server, method, attempt, error = error_kind, "request failed, retrying");
            was_retried |= !was_not_delivered(&error);
            attempt += 1;
            let reconnected = Box::pin(handle.ensure_active(seen)).await;
            active = reconnected.map_err(RequestError::NotConnected)?;
        }
    }

    async fn send_once(
        &self,
        server: &str,
        active: &ActiveConnection,
        request: &ServerRequest,
        timeout: Duration,
    ) -> Result<Payload, CallError> {
        let options = &request.options;
        let mut call = active.client.request(request.method.clone());
        call = match &options.on_behalf_of {
            None => {
                let call = call.progress_timeout(timeout);
                call.input_handler(self.context.responder(server))
            }
            // A client that wants no progress gets none: the server is not asked for it.
            Some(client) => {
                let call = match options.progress {
                    Some(_) => call.progress_timeout(timeout),
                    None => call.server_timeout(timeout),
                };
                apply_client(call, client)
            }
        };
        if let Some(params) = &request.params {
            call = call.params(params.clone());
        }
        if let Some(progress) = &options.progress {
            call = call.progress_sender(progress.clone());
        }
        if let Some(headers) = &request.param_headers {
            call = call.param_headers(headers.clone());
        }
        let result = call.send().await;
        if matches!(result, Ok(_) | Err(CallError::Remote(_))) {
            active.record_success();
        }
        result
    }

    /// Signs in after a rejection, where the server has said what it requires and there is a guide.
    async fn sign_in(&self, handle: &ConnectionHandle) -> bool {
        handle.login_slot().sign_in_if_required(handle.desired(), &self.context.login).await
    }

    /// The open connection of a server, opened now where there is none.
    pub(crate) async fn active_connection(
        &self,
        server: &str,
    ) -> Result<ActiveConnection, RequestError> {
        let unknown_server = || RequestError::UnknownServer(server.to_owned());
        let handle = self.engine.connection(server).ok_or_else(unknown_server)?;
        handle.ensure_active(None).await.map_err(RequestError::NotConnected)
    }

    /// Pings a server and returns the round-trip time.
    pub(crate) async fn ping(
        &self,
        server: &str,
        timeout: Duration,
    ) -> Result<Duration, RequestError> {
        let unknown_server = || RequestError::UnknownServer(server.to_owned());
        let handle = self.engine.connection(server).ok_or_else(unknown_server)?;
        let active = handle.ensure_active(None).await.map_err(RequestError::NotConnected)?;
        let result = active.client.ping(timeout).await;
        if let Err(error) = &result {
            handle.report_failure(&active, error).await;
        }
        result.map_err(|error| into_request_error(server, error, Idempotency::Idempotent))
    }
}

fn apply_client(call: RequestBuilder, client: &OnBehalfOf) -> RequestBuilder {
    let call = call.client_meta(client.client_meta.clone()).owner(client.handler.clone());
    match client.on_input_required {
        OnInputRequired::Answer => call.input_handler(client.handler.clone()),
        OnInputRequired::PassThrough => call,
    }
}

/// The next action after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterFailure {
    /// Send again, on the same connection where it is still open.
    RetryOnSame,
    /// Send again on a newer connection.
    RetryOnNewer,
    /// Give up.
    Fail,
}

/// A request that was not delivered may be sent again; one that may have been delivered once more, where it is
/// idempotent. `was_retried` says whether that has happened.
fn after_failure(
    error: &CallError,
    idempotency: Idempotency,
    attempt: usize,
    was_retried: bool,
) -> AfterFailure {
    let is_safe =
        was_not_delivered(error) || (idempotency == Idempotency::Idempotent && !was_retried);
    let is_session_expired = retry_class::is_session_expired(error);
    let is_connection_failure = match error {
        CallError::Closed { .. } => true,
        CallError::Transport(_) => is_session_expired || retry_class::is_transport_failure(error),
        CallError::Remote(_) => is_session_expired,
        CallError::Timeout(_) => false,
    };
    if !is_connection_failure || !is_safe || attempt >= MAX_ATTEMPTS {
        return AfterFailure::Fail;
    }
    match matches!(error, CallError::Closed { .. }) || is_session_expired {
        true => AfterFailure::RetryOnNewer,
        false => AfterFailure::RetryOnSame,
    }
}

/// Whether the server has certainly not run the request.
fn was_not_delivered(error: &CallError) -> bool {
    match error {
        CallError::Closed { delivery, .. } => *delivery == Delivery::NotSent,
        CallError::Transport(error) => error.is_before_delivery(),
        // A server that does not know the session has not run the request.
        CallError::Remote(_) => retry_class::is_session_expired(error),
        CallError::Timeout(_) => false,
    }
}

fn into_request_error(server: &str, error: CallError, idempotency: Idempotency) -> RequestError {
    let server = server.to_owned();
    match error {
        CallError::Remote(error) => RequestError::ErrorResponse(error),
        CallError::Timeout(after) => RequestError::Timeout { server, after },
        CallError::Transport(TransportError::TooLarge { limit }) => {
            RequestError::TooLarge { server, limit }
        }
        error @ (CallError::Transport(_) | CallError::Closed { .. }) => {
            match idempotency == Idempotency::Idempotent || was_not_delivered(&error) {
                true => RequestError::ConnectionLost { server, error },
                false => RequestError::Interrupted { server, error },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::jsonrpc::message::RpcError;
    use switchboard_wire::transport_error::HttpErrorResponse;

    use super::*;

    const IDEMPOTENT: Idempotency = Idempotency::Idempotent;
    const NOT_IDEMPOTENT: Idempotency = Idempotency::NotIdempotent;

    fn status(status: u16) -> CallError {
        let response = HttpErrorResponse { status, ..HttpErrorResponse::default() };
        CallError::Transport(TransportError::Status(Box::new(response)))
    }

    fn check(error: &CallError, idempotency: Idempotency, was_retried: bool) -> AfterFailure {
        after_failure(error, idempotency, 1, was_retried)
    }

    #[test]
    fn a_request_that_may_have_been_run_is_sent_again_once_and_only_if_idempotent() {
        let lost = CallError::Transport(TransportError::IncompleteResponse);
        assert_eq!(check(&lost, IDEMPOTENT, false), AfterFailure::RetryOnSame);
        assert_eq!(check(&lost, IDEMPOTENT, true), AfterFailure::Fail);
        assert_eq!(check(&lost, NOT_IDEMPOTENT, false), AfterFailure::Fail);
    }

    #[test]
    fn a_request_to_an_expired_session_is_sent_again_on_a_newer_connection() {
        assert_eq!(check(&status(404), NOT_IDEMPOTENT, false), AfterFailure::RetryOnNewer);
        assert_eq!(check(&status(404), NOT_IDEMPOTENT, true), AfterFailure::RetryOnNewer);
        let last = after_failure(&status(404), NOT_IDEMPOTENT, MAX_ATTEMPTS, false);
        assert_eq!(last, AfterFailure::Fail);
    }

    #[test]
    fn errors_of_the_server_and_timeouts_are_not_retried() {
        let error = RpcError { code: -32603, message: "no".to_owned(), data: None };
        for error in [CallError::Remote(error), CallError::Timeout(Duration::from_secs(1))] {
            assert_eq!(check(&error, IDEMPOTENT, false), AfterFailure::Fail);
        }
    }
}

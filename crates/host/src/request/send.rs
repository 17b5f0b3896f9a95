//! One question to one server: connects where nothing is connected, mends what broke, and asks again only where
//! that is safe.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use switchboard_auth::scopes::StepUpLimit;
use switchboard_wire::client::{ClientMeta, RequestBuilder};
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::peer::{CallError, CallOwner, Delivery, Progress};
use switchboard_wire::transport_error::TransportError;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::call::pipeline::Permit;
use crate::connection::dedicated::DedicatedConnection;
use crate::connection::retry_class;
use crate::connection::{ActiveConnection, ConnectionHandle, ServerView, Status};
use crate::host::Host;

/// The most that one question is asked, however often it is not heard.
const MAX_ATTEMPTS: usize = 3;
/// The method that needs a permit.
pub(crate) const TOOL_CALL: &str = "tools/call";

/// A question.
#[derive(Debug, Clone)]
pub struct ServerRequest {
    /// The method.
    pub method: Cow<'static, str>,
    /// Its parameters.
    pub params: Option<Payload>,
    /// May it be asked twice?
    pub idempotency: Idempotency,
    /// How long the server may take; signs of progress begin the wait anew.
    pub timeout: Duration,
    /// Who hears of progress.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Arguments that are repeated in headers.
    pub param_headers: Option<HeaderMap>,
    /// For whom it is asked, where that is not us.
    pub on_behalf_of: Option<OnBehalfOf>,
}

/// For whom a question is asked: a client of ours, behind which there are people and a model of its own.
#[derive(Debug, Clone)]
pub struct OnBehalfOf {
    /// Hears what the server says meanwhile, and answers what it asks.
    pub handler: Arc<dyn CallOwner>,
    /// What the server is told of the client.
    pub client_meta: ClientMeta,
    /// What becomes of a result that is a question.
    pub on_input_required: OnInputRequired,
    /// The connection to use, where it is not the one for everybody.
    pub dedicated_connection: Option<DedicatedConnection>,
}

/// What becomes of a result that is a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInputRequired {
    /// The attendant answers it, and the server is asked again.
    Answer,
    /// It is the result.
    PassThrough,
}

/// May a question be asked twice?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// It changes nothing, or nothing more the second time.
    Idempotent,
    /// It may do something each time.
    NotIdempotent,
}

impl ServerRequest {
    /// A question that changes nothing.
    pub fn idempotent(method: impl Into<Cow<'static, str>>, timeout: Duration) -> ServerRequest {
        ServerRequest {
            method: method.into(),
            params: None,
            idempotency: Idempotency::Idempotent,
            timeout,
            progress: None,
            param_headers: None,
            on_behalf_of: None,
        }
    }

    /// The same, for somebody else.
    pub fn on_behalf_of(mut self, on_behalf_of: OnBehalfOf) -> ServerRequest {
        self.on_behalf_of = Some(on_behalf_of);
        self
    }
}

/// Why a question has no answer.
#[derive(Debug, Error)]
pub enum RequestError {
    /// Tools are called in another way.
    #[error("a tool is not asked but called, with `Host::call`: a call needs leave")]
    PermitRequired,
    /// There is no such server.
    #[error("there is no server `{0}`")]
    UnknownServer(String),
    /// The server is not connected; the view says why.
    #[error("`{}` is not connected", .0.name)]
    NotConnected(Arc<ServerView>),
    /// The server answered with an error.
    #[error(transparent)]
    ErrorResponse(RpcError),
    /// No answer came in time.
    #[error("`{server}` did not answer within {} s", .after.as_secs_f64())]
    Timeout {
        /// The server.
        server: String,
        /// How long we waited.
        after: Duration,
    },
    /// The answer is larger than we take. The server did what it was asked, so it is not asked again.
    #[error(
        "`{server}` answered with more than {} MB, which is more than is taken; it has done what was asked",
        .limit / (1024 * 1024)
    )]
    TooLarge {
        /// The server.
        server: String,
        /// The most that is taken, in bytes.
        limit: usize,
    },
    /// The server wants a page visited first, and nobody did.
    #[error("`{server}` wants a page visited first: {reason}")]
    UrlElicitationDeclined {
        /// The server.
        server: String,
        /// Why not.
        reason: String,
    },
    /// The connection broke. Whether the server did what it was asked is not known, so it was not asked again.
    #[error(
        "the connection to `{server}` broke before the answer came; it may have done what was asked, so it was not asked again"
    )]
    Interrupted {
        /// The server.
        server: String,
        /// What broke.
        #[source]
        error: CallError,
    },
    /// The connection broke, was made anew, and broke again.
    #[error("the connection to `{server}` broke before the answer came")]
    ConnectionLost {
        /// The server.
        server: String,
        /// What broke.
        #[source]
        error: CallError,
    },
}

impl Host {
    /// Asks one server anything but to run a tool: that is what [`Host::call`] is for.
    pub async fn request(
        &self,
        server: &str,
        server_request: ServerRequest,
    ) -> Result<Payload, RequestError> {
        match server_request.method == TOOL_CALL {
            true => Err(RequestError::PermitRequired),
            false => self.send_after_url_elicitation(server, server_request).await,
        }
    }

    /// Asks one server anything but to run a tool, for somebody else. What the server wants visited first is theirs to
    /// visit.
    pub async fn request_on_behalf(
        &self,
        server: &str,
        server_request: ServerRequest,
    ) -> Result<Payload, RequestError> {
        match server_request.method == TOOL_CALL {
            true => Err(RequestError::PermitRequired),
            false => self.send_with_retries(server, server_request).await,
        }
    }

    /// Has a tool run for somebody else, with leave.
    pub(crate) async fn relay_permitted(
        &self,
        _permit: Permit,
        server: &str,
        server_request: ServerRequest,
    ) -> Result<Payload, RequestError> {
        self.send_with_retries(server, server_request).await
    }

    /// Asks one server anything, with leave.
    pub(crate) async fn send_permitted(
        &self,
        _permit: Permit,
        server: &str,
        server_request: ServerRequest,
    ) -> Result<Payload, RequestError> {
        self.send_after_url_elicitation(server, server_request).await
    }

    /// Asks one server, whatever it wants visited first.
    pub(crate) async fn send_with_retries(
        &self,
        server: &str,
        mut server_request: ServerRequest,
    ) -> Result<Payload, RequestError> {
        let unknown_server = || RequestError::UnknownServer(server.to_owned());
        let dedicated =
            server_request.on_behalf_of.as_ref().and_then(|it| it.dedicated_connection.as_ref());
        let handles = self.connections();
        let dedicated = match dedicated {
            Some(dedicated) => {
                let handle = Box::pin(self.connection_for(server, Some(dedicated))).await;
                Some(handle.ok_or_else(unknown_server)?)
            }
            None => None,
        };
        let _use = dedicated.as_ref().map(ConnectionHandle::begin_use);
        let handle =
            dedicated.as_ref().or_else(|| handles.get(server)).ok_or_else(unknown_server)?;
        // What an entry says of its own server goes before what holds for all.
        if server_request.method == TOOL_CALL
            && let Some(own) = handle.desired().spec.common.timeout
        {
            server_request.timeout = own;
        }
        let mut active = handle.ensure_active(None).await.map_err(RequestError::NotConnected)?;
        let mut attempt = 1;
        let mut was_retried = false;
        let mut step_ups = StepUpLimit::default();
        loop {
            let error = match self.send_once(server, &active, &server_request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // What follows is rare and large: in boxes, so that a call that goes well does not carry room for it about.
            // Who is turned away has not been heard, so that nothing is done twice.
            if retry_class::is_auth_rejection(&error)
                && step_ups.try_acquire()
                && Box::pin(self.sign_in_for(handle)).await
            {
                continue;
            }
            Box::pin(handle.report_failure(&active, &error)).await;
            // What was never heard may be asked again by anybody, what may have been heard once if it does no harm.
            let is_safe = was_not_delivered(&error)
                || (server_request.idempotency == Idempotency::Idempotent
                    && !std::mem::replace(&mut was_retried, true));
            if !is_connection_failure(&error) || !is_safe || attempt == MAX_ATTEMPTS {
                return Err(into_request_error(server, error, server_request.idempotency));
            }
            attempt += 1;
            let reconnected = Box::pin(next_connection(handle, &active, &error)).await;
            active = reconnected.map_err(RequestError::NotConnected)?;
        }
    }

    /// Has a server connected, where it is not. Comes back when it is, or cannot be.
    pub async fn ensure_connected(&self, server: &str) -> Result<(), RequestError> {
        let handle = self
            .connection(server)
            .ok_or_else(|| RequestError::UnknownServer(server.to_owned()))?;
        handle.ensure_active(None).await.map(drop).map_err(RequestError::NotConnected)
    }

    /// How long a server takes to say that it is there.
    pub async fn ping(&self, server: &str, patience: Duration) -> Result<Duration, RequestError> {
        let unknown_server = || RequestError::UnknownServer(server.to_owned());
        let handle = self.connection(server).ok_or_else(unknown_server)?;
        let active = handle.ensure_active(None).await.map_err(RequestError::NotConnected)?;
        let result = active.client.ping(patience).await;
        if let Err(error) = &result {
            handle.report_failure(&active, error).await;
        }
        result.map_err(|error| into_request_error(server, error, Idempotency::Idempotent))
    }

    async fn send_once(
        &self,
        server: &str,
        active: &ActiveConnection,
        server_request: &ServerRequest,
    ) -> Result<Payload, CallError> {
        let mut request = active.client.request(server_request.method.clone());
        request = match &server_request.on_behalf_of {
            None => {
                let request = request.progress_timeout(server_request.timeout);
                request.input_handler(self.responder(server))
            }
            Some(on_behalf_of) => apply_on_behalf_of(request, on_behalf_of, server_request),
        };
        if let Some(params) = &server_request.params {
            request = request.params(params.clone());
        }
        if let Some(progress) = &server_request.progress {
            request = request.progress_sender(progress.clone());
        }
        if let Some(mirrored) = &server_request.param_headers {
            request = request.param_headers(mirrored.clone());
        }
        let result = request.send().await;
        if matches!(result, Ok(_) | Err(CallError::Remote(_))) {
            active.record_success();
        }
        result
    }
}

/// A client that wants no progress gets none: what the server is not asked for, it need not send.
fn apply_on_behalf_of(
    request: RequestBuilder,
    on_behalf_of: &OnBehalfOf,
    server_request: &ServerRequest,
) -> RequestBuilder {
    let request = match server_request.progress {
        Some(_) => request.progress_timeout(server_request.timeout),
        None => request.server_timeout(server_request.timeout),
    };
    let request =
        request.client_meta(on_behalf_of.client_meta.clone()).owner(on_behalf_of.handler.clone());
    match on_behalf_of.on_input_required {
        OnInputRequired::Answer => request.input_handler(on_behalf_of.handler.clone()),
        OnInputRequired::PassThrough => request,
    }
}

/// A connection to ask again over: the same one where only the question was lost, else a newer one.
async fn next_connection(
    handle: &ConnectionHandle,
    active: &ActiveConnection,
    error: &CallError,
) -> Result<ActiveConnection, Arc<ServerView>> {
    let is_over =
        matches!(error, CallError::Closed { .. }) || retry_class::is_session_expired(error);
    let seen = if is_over { Some(active.generation) } else { None };
    handle.ensure_active(seen).await
}

/// Is it certain that the server did nothing of what it was asked?
fn was_not_delivered(error: &CallError) -> bool {
    match error {
        CallError::Closed { delivery: sent, .. } => *sent == Delivery::NotSent,
        CallError::Transport(fault) => fault.is_before_delivery(),
        // A server that forgot the session has not looked at the question.
        CallError::Remote(_) => retry_class::is_session_expired(error),
        CallError::Timeout(_) => false,
    }
}

/// Would another connection help?
fn is_connection_failure(error: &CallError) -> bool {
    match error {
        CallError::Closed { .. } => true,
        CallError::Transport(_) => {
            retry_class::is_session_expired(error) || retry_class::is_transport_failure(error)
        }
        CallError::Remote(_) => retry_class::is_session_expired(error),
        CallError::Timeout(_) => false,
    }
}

fn into_request_error(server: &str, error: CallError, repeat: Idempotency) -> RequestError {
    let server = server.to_owned();
    match error {
        CallError::Remote(error) => RequestError::ErrorResponse(error),
        CallError::Timeout(after) => RequestError::Timeout { server, after },
        CallError::Transport(TransportError::TooLarge { limit }) => {
            RequestError::TooLarge { server, limit }
        }
        error @ (CallError::Transport(_) | CallError::Closed { .. }) => {
            match repeat == Idempotency::Idempotent || was_not_delivered(&error) {
                true => RequestError::ConnectionLost { server, error },
                false => RequestError::Interrupted { server, error },
            }
        }
    }
}

impl RequestError {
    /// Why the server is not connected, where that is what happened.
    pub fn status(&self) -> Option<&Status> {
        match self {
            RequestError::NotConnected(view) => Some(&view.status),
            RequestError::PermitRequired
            | RequestError::UnknownServer(_)
            | RequestError::ErrorResponse(_)
            | RequestError::Timeout { .. }
            | RequestError::TooLarge { .. }
            | RequestError::UrlElicitationDeclined { .. }
            | RequestError::Interrupted { .. }
            | RequestError::ConnectionLost { .. } => None,
        }
    }
}

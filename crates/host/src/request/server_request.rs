//! A request to a server, and its options.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use switchboard_wire::client::ClientMeta;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::{CallOwner, Progress};
use tokio::sync::mpsc;

use crate::connection::dedicated::DedicatedConnection;
use crate::elicitation::elicitor::Elicitor;

/// A request to a server.
#[derive(Debug, Clone)]
pub struct ServerRequest {
    /// The method.
    pub method: Cow<'static, str>,
    /// Its parameters.
    pub params: Option<Payload>,
    /// Whether it may be sent twice.
    pub idempotency: Idempotency,
    /// Arguments that are repeated in headers.
    pub param_headers: Option<HeaderMap>,
    /// How required URL elicitations (error -32042) are handled.
    pub url_elicitation: UrlElicitationPolicy,
    /// Timeout, progress and client.
    pub options: RequestOptions,
}

/// The options of a request or tool call.
#[derive(Debug, Clone)]
pub struct RequestOptions {
    /// How long the server may take. Each progress notification starts the timeout again.
    pub timeout: Duration,
    /// Receives the progress notifications.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// The client that the request is sent for, where the host relays it.
    pub on_behalf_of: Option<OnBehalfOf>,
}

impl RequestOptions {
    /// The default timeout.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

    /// Options with this timeout, without progress, for the host itself.
    pub fn new(timeout: Duration) -> RequestOptions {
        RequestOptions { timeout, progress: None, on_behalf_of: None }
    }
}

impl Default for RequestOptions {
    fn default() -> RequestOptions {
        RequestOptions::new(RequestOptions::DEFAULT_TIMEOUT)
    }
}

/// The client that a request is relayed for.
#[derive(Debug, Clone)]
pub struct OnBehalfOf {
    /// Receives the server's notifications meanwhile, and answers its requests.
    pub handler: Arc<dyn CallOwner>,
    /// The client metadata that the server gets.
    pub client_meta: ClientMeta,
    /// How a result that requires input is handled.
    pub on_input_required: OnInputRequired,
    /// The connection to use instead of the shared one.
    pub dedicated_connection: Option<DedicatedConnection>,
    /// Sends required URL elicitations (error -32042) to the client. If `None`, the client gets the error.
    pub url_elicitor: Option<ClientElicitor>,
}

/// Sends elicitations to the client of a request.
#[derive(Clone)]
pub struct ClientElicitor(pub Arc<dyn Elicitor>);

impl fmt::Debug for ClientElicitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientElicitor")
    }
}

/// How a result that requires input (`input_required`) is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInputRequired {
    /// The handler gives the input, and the request is sent again.
    Answer,
    /// The result is returned as it is.
    PassThrough,
}

/// How the error -32042 is handled: the server requires that the user opens URLs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlElicitationPolicy {
    /// The host's elicitor asks the user, and the request is sent again.
    Resolve,
    /// The client is asked where it can be ([`OnBehalfOf::url_elicitor`]); otherwise it gets the error.
    ReturnError,
}

/// Whether a request may be sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotency {
    /// Idempotent: sending the request again has no further effect.
    Idempotent,
    /// It may have an effect each time.
    NotIdempotent,
}

impl ServerRequest {
    /// An idempotent request of the host itself.
    pub fn idempotent(method: impl Into<Cow<'static, str>>, timeout: Duration) -> ServerRequest {
        ServerRequest {
            method: method.into(),
            params: None,
            idempotency: Idempotency::Idempotent,
            param_headers: None,
            url_elicitation: UrlElicitationPolicy::Resolve,
            options: RequestOptions::new(timeout),
        }
    }

    /// The same with parameters.
    pub fn params(mut self, params: Payload) -> ServerRequest {
        self.params = Some(params);
        self
    }

    /// The same with a receiver of progress notifications.
    pub fn progress(mut self, progress: Option<mpsc::Sender<Progress>>) -> ServerRequest {
        self.options.progress = progress;
        self
    }

    /// The same for a client, which resolves URL elicitations itself.
    pub fn on_behalf_of(mut self, client: OnBehalfOf) -> ServerRequest {
        self.options.on_behalf_of = Some(client);
        self.url_elicitation = UrlElicitationPolicy::ReturnError;
        self
    }
}

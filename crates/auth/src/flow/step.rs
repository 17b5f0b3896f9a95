//! The inputs and outputs of a login flow: steps, events, the completed login, and errors.

use thiserror::Error;
use url::Url;

use super::callback::{CallbackError, CallbackSource};
use crate::crypto::dpop::DpopKey;
use crate::discovery::auth_server_metadata::{AuthServerMetadata, AuthServerMetadataError};
use crate::discovery::resource_metadata::ResourceMetadataError;
use crate::fetch::origin_guard::UrlError;
use crate::fetch::{FetchError, FetchRequest, FetchResponse};
use crate::registration::{OAuthClient, RegistrationError};
use crate::scopes::Scopes;
use crate::token::response::{TokenError, TokenResponse};

/// The next action of the caller of a flow.
#[derive(Debug)]
pub enum Step {
    /// Fetch this and answer with [`Event::Fetched`].
    Fetch(Box<FetchRequest>),
    /// Have the user open this URL and answer with [`Event::Callback`].
    OpenUrl(Url),
    /// The callback is refused. Wait for another [`Event::Callback`].
    CallbackRejected(CallbackError),
    /// Show the user this code and answer with [`Event::Waited`] after its interval.
    ShowDeviceCode(DeviceAuthorization),
    /// Answer with [`Event::Waited`] after this many seconds.
    Wait(u64),
    /// The login succeeded.
    Done(Box<CompletedLogin>),
    /// The login failed.
    Failed(FlowError),
}

/// The instructions for the user on another device (RFC 8628).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAuthorization {
    /// The page to open.
    pub verification_uri: Url,
    /// The page with the code filled in, if the server offers one.
    pub verification_uri_complete: Option<Url>,
    /// The code to enter, without control characters.
    pub user_code: String,
    /// The lifetime of the code, in seconds.
    pub expires_in: u64,
    /// The seconds to wait before the first poll.
    pub interval: u64,
}

/// The result of a step.
#[derive(Debug)]
pub enum Event {
    /// The response, or why there is none.
    Fetched(Result<FetchResponse, FetchError>),
    /// The callback of the browser.
    Callback {
        /// The query that reached the listener, or the pasted text.
        text: String,
        /// How it arrived.
        source: CallbackSource,
    },
    /// The time has passed.
    Waited,
}

/// The result of a login.
#[derive(Debug, Clone)]
pub struct CompletedLogin {
    /// The tokens.
    pub tokens: TokenResponse,
    /// The client that was used.
    pub client: OAuthClient,
    /// The metadata of the authorization server.
    pub metadata: AuthServerMetadata,
    /// The resource identifier of the server.
    pub resource: Option<String>,
    /// The granted scopes, or the requested ones where the response names none.
    pub scopes: Option<Scopes>,
    /// The key that the tokens are bound to.
    pub dpop_key: Option<DpopKey>,
}

impl FlowError {
    /// The kind of error for logs, without anything that a server sent.
    pub fn log_label(&self) -> &'static str {
        match self {
            FlowError::Fetch(_) => "request failed",
            FlowError::Url { .. } => "URL refused",
            FlowError::ResourceMetadata(_) => "resource metadata refused",
            FlowError::AuthServerMetadata(_) => "authorization server metadata refused",
            FlowError::NoAuthServerMetadata(_) => "no authorization server metadata",
            FlowError::Unavailable { .. } => "metadata unavailable",
            FlowError::IssuerMismatch { .. } => "issuer mismatch",
            FlowError::NoClient => "no client",
            FlowError::Registration(_) => "registration failed",
            FlowError::DpopUnavailable => "DPoP unavailable",
            FlowError::DeviceFlowUnsupported => "device flow unsupported",
            FlowError::Callback(_) => "callback refused",
            FlowError::TimedOut => "timeout",
            FlowError::Token(_) => "no token issued",
            FlowError::IdentityProvider(_) => "token exchange refused",
            FlowError::UnexpectedEvent => "unexpected event",
        }
    }
}

/// Why a flow failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlowError {
    /// A fetch failed.
    #[error("a request needed for signing in failed")]
    Fetch(#[source] FetchError),
    /// A URL that the server names is refused.
    #[error("the {what} that the server names is refused")]
    Url {
        /// The purpose of the URL.
        what: &'static str,
        /// Why the URL is refused.
        #[source]
        source: UrlError,
    },
    /// The server's metadata is refused.
    #[error("the server's metadata is refused")]
    ResourceMetadata(#[source] ResourceMetadataError),
    /// The authorization server's metadata is refused.
    #[error("the authorization server's metadata is refused")]
    AuthServerMetadata(#[source] AuthServerMetadataError),
    /// The authorization server has no metadata.
    #[error("the authorization server `{0}` has no metadata")]
    NoAuthServerMetadata(String),
    /// The metadata is temporarily unavailable.
    #[error("the metadata is unavailable: HTTP {status}")]
    Unavailable {
        /// The status code.
        status: u16,
    },
    /// The client is configured for another issuer.
    #[error("the client is configured for `{expected}`, but the server names `{named}`")]
    IssuerMismatch {
        /// The issuer that the client is for.
        expected: String,
        /// The issuer that the server names.
        named: String,
    },
    /// No client is configured, and the authorization server does not register clients.
    #[error("the authorization server does not register clients, and no client is configured")]
    NoClient,
    /// The registration failed.
    #[error("registering with the authorization server failed")]
    Registration(#[source] RegistrationError),
    /// The server requires DPoP-bound tokens, which are not available.
    #[error(
        "the server requires DPoP-bound tokens, and the authorization server does not issue them"
    )]
    DpopUnavailable,
    /// The authorization server does not support device logins.
    #[error("the authorization server does not support signing in on another device")]
    DeviceFlowUnsupported,
    /// The callback is refused.
    #[error("the response from the browser is refused")]
    Callback(#[source] CallbackError),
    /// The user took too long.
    #[error("the sign-in timed out")]
    TimedOut,
    /// The token request failed.
    #[error("the authorization server issued no token")]
    Token(#[source] TokenError),
    /// The token exchange at the identity provider failed.
    #[error("the identity provider refused the token exchange")]
    IdentityProvider(#[source] TokenError),
    /// The event does not fit the last step.
    #[error("the login received an unexpected event")]
    UnexpectedEvent,
}

//! What goes in and out of a login flow: steps, events, the completed login, and errors.

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

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Fetch this, and come back with [`Event::Fetched`].
    Fetch(Box<FetchRequest>),
    /// Have a person open this, and come back with [`Event::Returned`].
    OpenUrl(Url),
    /// What the person came back with is not taken. Wait for something better.
    CallbackRejected(CallbackError),
    /// Tell a person to type this code there, and come back with [`Event::Waited`].
    ShowDeviceCode(DeviceAuthorization),
    /// Come back with [`Event::Waited`] after as many seconds.
    Wait(u64),
    /// Signed in.
    Done(Box<CompletedLogin>),
    /// It did not work.
    Failed(FlowError),
}

/// What a person is to do on another device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAuthorization {
    /// Where.
    pub verification_uri: Url,
    /// The same with the code in it, where there is such a one.
    pub verification_uri_complete: Option<Url>,
    /// The code to type. Nothing in it moves a cursor.
    pub user_code: String,
    /// How many seconds there are to do it, and how many to wait before the first look.
    pub expires_in: u64,
    /// How many seconds to wait before the first look.
    pub interval: u64,
}

/// What came of a step.
#[derive(Debug)]
pub enum Event {
    /// Something was fetched, or was not.
    Fetched(Result<FetchResponse, FetchError>),
    /// The person is back with this.
    Callback {
        /// The query that reached the listener, or what was pasted.
        text: String,
        /// Which of the two.
        source: CallbackSource,
    },
    /// The time is over.
    Waited,
}

/// All that is known after a login.
#[derive(Debug, Clone)]
pub struct CompletedLogin {
    /// The tokens.
    pub tokens: TokenResponse,
    /// Who we are.
    pub client: OAuthClient,
    /// Who signed us in.
    pub metadata: AuthServerMetadata,
    /// The server's name for itself.
    pub resource: Option<String>,
    /// What we may do: what was granted, or else what was asked for.
    pub scopes: Option<Scopes>,
    /// What the token is bound to.
    pub dpop_key: Option<DpopKey>,
}

/// Why it did not work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlowError {
    /// Something could not be fetched.
    #[error("something needed for signing in could not be fetched")]
    Fetch(#[source] FetchError),
    /// A URL that the server names is refused.
    #[error("the {what} that the server names is refused")]
    Url {
        /// Which one.
        what: &'static str,
        /// Why.
        #[source]
        source: UrlError,
    },
    /// The server's metadata is refused.
    #[error("the server's metadata is refused")]
    ResourceMetadata(#[source] ResourceMetadataError),
    /// The authorization server's metadata is refused.
    #[error("the authorization server's metadata is refused")]
    AuthServerMetadata(#[source] AuthServerMetadataError),
    /// The authorization server has none.
    #[error("the authorization server `{0}` has no metadata")]
    NoAuthServerMetadata(String),
    /// The metadata could not be had for now.
    #[error("the metadata cannot be had: HTTP {status}")]
    Unavailable {
        /// The status code.
        status: u16,
    },
    /// The client was set up for another authorization server.
    #[error("the client is set up for `{expected}`, and the server now names `{named}`")]
    IssuerMismatch {
        /// Whom it is for.
        expected: String,
        /// Whom the server names.
        named: String,
    },
    /// We are nobody there, and cannot register.
    #[error("the authorization server registers no clients, and none is configured")]
    NoClient,
    /// We could not register.
    #[error("registering with the authorization server failed")]
    Registration(#[source] RegistrationError),
    /// The server wants tokens bound to a key, and that cannot be had.
    #[error(
        "the server wants tokens that are bound to a key, and the authorization server issues none"
    )]
    DpopUnavailable,
    /// The authorization server does not sign in devices.
    #[error("the authorization server offers no way to sign in on another device")]
    DeviceFlowUnsupported,
    /// The person came back with something else.
    #[error("what came back from the browser is refused")]
    Callback(#[source] CallbackError),
    /// The person took too long.
    #[error("nobody signed in in time")]
    TimedOut,
    /// There were no tokens.
    #[error("the authorization server issued no token")]
    Token(#[source] TokenError),
    /// The identity provider did not vouch.
    #[error("the identity provider did not vouch for you")]
    IdentityProvider(#[source] TokenError),
    /// An event came that no step asked for.
    #[error("signing in went out of step")]
    UnexpectedEvent,
}

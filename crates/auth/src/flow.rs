//! Signing in, as a machine that does nothing itself: each step says what to fetch or to open, and what came of
//! it goes back in. No clock, no network, no chance of its own. Finding out where is `finding`'s part, asking
//! for tokens is `asking`'s.

mod authorization;
pub mod authorization_url;
pub mod callback;
mod device;
mod metadata_discovery;
pub mod runner;
#[cfg(test)]
mod tests;

use thiserror::Error;
use url::Url;

use crate::challenge::{AuthChallenge, DpopRequirement};
use crate::crypto::dpop::DpopKey;
use crate::crypto::pkce::TimeAndRandom;
use crate::discovery::auth_server_metadata::{AuthServerMetadata, AuthServerMetadataError};
use crate::discovery::resource_metadata::{ResourceMetadata, ResourceMetadataError};
use crate::fetch::origin_guard::{OriginGuard, UrlError};
use crate::fetch::{FetchError, FetchRequest, FetchResponse};
use crate::flow::callback::{CallbackError, CallbackSource};
use crate::registration::{ClientConfig, ConfiguredClient, OAuthClient, RegistrationError};
use crate::scopes::Scopes;
use crate::secret::Secret;
use crate::token::response::{TokenError, TokenResponse};
use authorization::{PendingCallback, PendingRegistration};
use device::DeviceFlow;
use metadata_discovery::{AuthServerDiscovery, ResourceDiscovery};

/// What is to be reached, and with what.
#[derive(Debug)]
pub struct LoginPlan {
    /// The server.
    pub server: Url,
    /// What it said when it turned us away.
    pub challenge: AuthChallenge,
    /// What else a person typed: these may be anywhere.
    pub trusted_urls: Vec<Url>,
    /// The hosts of our proxies.
    pub proxies: Vec<String>,
    /// Where the authorization server's metadata is, if a person said so.
    pub metadata_url: Option<Url>,
    /// Who we are.
    pub client_config: ClientConfig,
    /// Who we were the last time.
    pub previous_client: Option<OAuthClient>,
    /// The scopes that a person configured.
    pub scopes: Option<Scopes>,
    /// The scopes that were granted before, where more are needed.
    pub granted_scopes: Option<Scopes>,
    /// In which way.
    pub method: LoginGrant,
    /// A key that tokens can be bound to, where that is wanted.
    pub dpop_key: Option<DpopKey>,
    /// The name by which people will know us.
    pub client_name: String,
}

impl LoginPlan {
    /// A plan with nothing but what every plan has.
    pub fn new(server: Url, method: LoginGrant, name: &str) -> LoginPlan {
        LoginPlan {
            server,
            challenge: AuthChallenge::default(),
            trusted_urls: Vec::new(),
            proxies: Vec::new(),
            metadata_url: None,
            client_config: ClientConfig::default(),
            previous_client: None,
            scopes: None,
            granted_scopes: None,
            method,
            dpop_key: None,
            client_name: name.to_owned(),
        }
    }
}

/// In which way tokens are had.
#[derive(Debug, Clone)]
pub enum LoginGrant {
    /// A person signs in with a browser and comes back to `redirect`.
    Browser {
        /// Where to.
        redirect_uri: Url,
    },
    /// A person signs in on another device.
    Device,
    /// The client is known by itself.
    ClientCredentials,
    /// A platform vouches for us with a token (workload identity).
    WorkloadIdentity(Secret),
    /// An identity provider vouches for a person who signed in there.
    IdentityProvider(IdentityProviderLogin),
}

/// An identity provider that vouches.
#[derive(Debug, Clone)]
pub struct IdentityProviderLogin {
    /// Who it is. A person or an administrator typed it.
    pub issuer: Url,
    /// Where its tokens are, if that is known.
    pub token_endpoint: Option<Url>,
    /// Who we are there.
    pub client: ConfiguredClient,
    /// Who signed in there.
    pub id_token: Secret,
}

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

/// A login under way.
#[derive(Debug)]
pub struct Flow {
    plan: LoginPlan,
    origin_guard: OriginGuard,
    resource: Option<ResourceMetadata>,
    state: FlowState,
}

#[derive(Debug)]
enum FlowState {
    /// The server's metadata is being fetched.
    ResourceDiscovery(ResourceDiscovery),
    /// An authorization server's metadata is being fetched.
    AuthServerDiscovery(AuthServerDiscovery),
    /// We are being registered.
    Registration(Box<PendingRegistration>),
    /// A person is on the way.
    AwaitingCallback(Box<PendingCallback>),
    /// A device's code is being fetched, or waits to be used.
    Device(Box<DeviceFlow>),
    /// Tokens are being fetched.
    TokenRequest(Box<authorization::PendingTokenRequest>),
    /// It is over.
    Finished,
}

impl Flow {
    /// Begins.
    pub fn start(plan: LoginPlan, inputs: &mut TimeAndRandom<'_>) -> (Flow, Step) {
        let guard = origin_guard_for(&plan);
        let mut flow =
            Flow { plan, origin_guard: guard, resource: None, state: FlowState::Finished };
        let step = flow.discover_resource(inputs);
        let step = flow.or_failed(step);
        (flow, step)
    }

    /// Goes on.
    pub fn on(&mut self, event: Event, inputs: &mut TimeAndRandom<'_>) -> Step {
        let state = std::mem::replace(&mut self.state, FlowState::Finished);
        let step = match (state, event) {
            (FlowState::ResourceDiscovery(at), Event::Fetched(result)) => {
                self.on_resource_metadata(at, result, inputs)
            }
            (FlowState::AuthServerDiscovery(at), Event::Fetched(result)) => {
                self.on_auth_server_metadata(at, result, inputs)
            }
            (FlowState::Registration(at), Event::Fetched(result)) => {
                self.on_registration_response(*at, result, inputs)
            }
            (FlowState::AwaitingCallback(at), Event::Callback { text, source: arrived }) => {
                self.on_callback(*at, &text, arrived, inputs)
            }
            (FlowState::Device(at), event) => self.on_device_event(*at, event, inputs),
            (FlowState::TokenRequest(at), Event::Fetched(result)) => {
                self.on_token_response(*at, result, inputs)
            }
            (
                FlowState::ResourceDiscovery(_)
                | FlowState::AuthServerDiscovery(_)
                | FlowState::Registration(_)
                | FlowState::AwaitingCallback(_)
                | FlowState::TokenRequest(_)
                | FlowState::Finished,
                _,
            ) => Err(FlowError::UnexpectedEvent),
        };
        self.or_failed(step)
    }

    fn or_failed(&mut self, step: Result<Step, FlowError>) -> Step {
        step.unwrap_or_else(|why| {
            self.state = FlowState::Finished;
            Step::Failed(why)
        })
    }

    /// Whether tokens are to be bound to a key.
    fn dpop_requirement(&self) -> DpopRequirement {
        let of_resource = self.resource.as_ref().map(|it| it.dpop).unwrap_or_default();
        match (self.plan.challenge.dpop, of_resource) {
            (DpopRequirement::Required, _) | (_, DpopRequirement::Required) => {
                DpopRequirement::Required
            }
            (DpopRequirement::Supported, _) | (_, DpopRequirement::Supported) => {
                DpopRequirement::Supported
            }
            (DpopRequirement::Unspecified, DpopRequirement::Unspecified) => {
                DpopRequirement::Unspecified
            }
        }
    }

    fn resource_identifier(&self) -> Option<String> {
        self.resource.as_ref()?.resource.clone()
    }
}

fn origin_guard_for(plan: &LoginPlan) -> OriginGuard {
    let mut typed = plan.trusted_urls.clone();
    typed.extend(plan.metadata_url.clone());
    if let LoginGrant::IdentityProvider(provider) = &plan.method {
        typed.push(provider.issuer.clone());
        typed.extend(provider.token_endpoint.clone());
    }
    OriginGuard::new(&plan.server, &typed).with_proxies(&plan.proxies)
}

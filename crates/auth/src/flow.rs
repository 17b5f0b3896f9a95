//! Signing in, as a machine that does nothing itself: each step says what to fetch or to open, and what came of
//! it goes back in. No clock, no network, no chance of its own. Finding out where is `finding`'s part, asking
//! for tokens is `asking`'s.

mod asking;
mod device;
mod finding;
#[cfg(test)]
mod tests;

use thiserror::Error;
use url::Url;

use crate::callback::{Arrived, CallbackError};
use crate::challenge::{Binding, Demand};
use crate::confidential::Secret;
use crate::discovery::resource_metadata::{ResourceError, ResourceMetadata};
use crate::discovery::server_metadata::{ServerError, ServerMetadata};
use crate::dpop::ProofKey;
use crate::fetch::{Answer, FetchError, Request};
use crate::origin_guard::{OriginGuard, Unsafe};
use crate::pkce::Moment;
use crate::registration::{Client, Configured, RegistrationError, Setup};
use crate::scopes::Scopes;
use crate::token::{TokenError, Tokens};
use asking::{Opened, Registering};
use device::Device;
use finding::{AtResource, AtServer};

/// What is to be reached, and with what.
#[derive(Debug)]
pub struct Plan {
    /// The server.
    pub server: Url,
    /// What it said when it turned us away.
    pub demand: Demand,
    /// What else a person typed: these may be anywhere.
    pub typed: Vec<Url>,
    /// The hosts of our proxies.
    pub proxies: Vec<String>,
    /// Where the authorization server's metadata is, if a person said so.
    pub metadata_url: Option<Url>,
    /// Who we are.
    pub setup: Setup,
    /// Who we were the last time.
    pub known: Option<Client>,
    /// The scopes that a person configured.
    pub scopes: Option<Scopes>,
    /// The scopes that were granted before, where more are needed.
    pub held: Option<Scopes>,
    /// In which way.
    pub way: Way,
    /// A key that tokens can be bound to, where that is wanted.
    pub proof: Option<ProofKey>,
    /// The name by which people will know us.
    pub name: String,
}

impl Plan {
    /// A plan with nothing but what every plan has.
    pub fn new(server: Url, way: Way, name: &str) -> Plan {
        Plan {
            server,
            demand: Demand::default(),
            typed: Vec::new(),
            proxies: Vec::new(),
            metadata_url: None,
            setup: Setup::default(),
            known: None,
            scopes: None,
            held: None,
            way,
            proof: None,
            name: name.to_owned(),
        }
    }
}

/// In which way tokens are had.
#[derive(Debug, Clone)]
pub enum Way {
    /// A person signs in with a browser and comes back to `redirect`.
    Browser {
        /// Where to.
        redirect: Url,
    },
    /// A person signs in on another device.
    Device,
    /// The client is known by itself.
    ClientCredentials,
    /// A platform vouches for us with a token (workload identity).
    Workload(Secret),
    /// An identity provider vouches for a person who signed in there.
    Enterprise(Enterprise),
}

/// An identity provider that vouches.
#[derive(Debug, Clone)]
pub struct Enterprise {
    /// Who it is. A person or an administrator typed it.
    pub issuer: Url,
    /// Where its tokens are, if that is known.
    pub token_endpoint: Option<Url>,
    /// Who we are there.
    pub client: Configured,
    /// Who signed in there.
    pub identity: Secret,
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Fetch this, and come back with [`Event::Fetched`].
    Fetch(Box<Request>),
    /// Have a person open this, and come back with [`Event::Returned`].
    Open(Url),
    /// What the person came back with is not taken. Wait for something better.
    NotTaken(CallbackError),
    /// Tell a person to type this code there, and come back with [`Event::Waited`].
    Show(Instructions),
    /// Come back with [`Event::Waited`] after as many seconds.
    Wait(u64),
    /// Signed in.
    Done(Box<SignedIn>),
    /// It did not work.
    Failed(Why),
}

/// What a person is to do on another device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// Where.
    pub url: Url,
    /// The same with the code in it, where there is such a one.
    pub complete_url: Option<Url>,
    /// The code to type. Nothing in it moves a cursor.
    pub code: String,
    /// How many seconds there are to do it, and how many to wait before the first look.
    pub expires_in: u64,
    /// How many seconds to wait before the first look.
    pub interval: u64,
}

/// What came of a step.
#[derive(Debug)]
pub enum Event {
    /// Something was fetched, or was not.
    Fetched(Result<Answer, FetchError>),
    /// The person is back with this.
    Returned {
        /// The query that reached the listener, or what was pasted.
        text: String,
        /// Which of the two.
        arrived: Arrived,
    },
    /// The time is over.
    Waited,
}

/// All that is known after a login.
#[derive(Debug, Clone)]
pub struct SignedIn {
    /// The tokens.
    pub tokens: Tokens,
    /// Who we are.
    pub client: Client,
    /// Who signed us in.
    pub metadata: ServerMetadata,
    /// The server's name for itself.
    pub resource: Option<String>,
    /// What we may do: what was granted, or else what was asked for.
    pub scopes: Option<Scopes>,
    /// What the token is bound to.
    pub proof: Option<ProofKey>,
}

/// Why it did not work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Why {
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
        why: Unsafe,
    },
    /// The server's metadata is refused.
    #[error("the server's metadata is refused")]
    Resource(#[source] ResourceError),
    /// The authorization server's metadata is refused.
    #[error("the authorization server's metadata is refused")]
    Server(#[source] ServerError),
    /// The authorization server has none.
    #[error("the authorization server `{0}` has no metadata")]
    NoMetadata(String),
    /// The metadata could not be had for now.
    #[error("the metadata cannot be had: HTTP {status}")]
    Unavailable {
        /// The status code.
        status: u16,
    },
    /// The client was set up for another authorization server.
    #[error("the client is set up for `{expected}`, and the server now names `{named}`")]
    ForeignIssuer {
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
    Unbound,
    /// The authorization server does not sign in devices.
    #[error("the authorization server offers no way to sign in on another device")]
    NoDevices,
    /// The person came back with something else.
    #[error("what came back from the browser is refused")]
    Callback(#[source] CallbackError),
    /// The person took too long.
    #[error("nobody signed in in time")]
    Late,
    /// There were no tokens.
    #[error("the authorization server issued no token")]
    Token(#[source] TokenError),
    /// The identity provider did not vouch.
    #[error("the identity provider did not vouch for you")]
    IdentityProvider(#[source] TokenError),
    /// An event came that no step asked for.
    #[error("signing in went out of step")]
    OutOfStep,
}

/// A login under way.
#[derive(Debug)]
pub struct Flow {
    plan: Plan,
    guard: OriginGuard,
    resource: Option<ResourceMetadata>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The server's metadata is being fetched.
    AtResource(AtResource),
    /// An authorization server's metadata is being fetched.
    AtServer(AtServer),
    /// We are being registered.
    Registering(Box<Registering>),
    /// A person is on the way.
    Opened(Box<Opened>),
    /// A device's code is being fetched, or waits to be used.
    Device(Box<Device>),
    /// Tokens are being fetched.
    Asking(Box<asking::Asking>),
    /// It is over.
    Over,
}

impl Flow {
    /// Begins.
    pub fn begin(plan: Plan, moment: &mut Moment<'_>) -> (Flow, Step) {
        let guard = guard_of(&plan);
        let mut flow = Flow { plan, guard, resource: None, state: State::Over };
        let step = flow.find_resource(moment);
        let step = flow.checked(step);
        (flow, step)
    }

    /// Goes on.
    pub fn on(&mut self, event: Event, moment: &mut Moment<'_>) -> Step {
        let state = std::mem::replace(&mut self.state, State::Over);
        let step = match (state, event) {
            (State::AtResource(at), Event::Fetched(fetched)) => {
                self.on_resource(at, fetched, moment)
            }
            (State::AtServer(at), Event::Fetched(fetched)) => self.on_server(at, fetched, moment),
            (State::Registering(at), Event::Fetched(fetched)) => {
                self.on_registered(*at, fetched, moment)
            }
            (State::Opened(at), Event::Returned { text, arrived }) => {
                self.on_returned(*at, &text, arrived, moment)
            }
            (State::Device(at), event) => self.on_device(*at, event, moment),
            (State::Asking(at), Event::Fetched(fetched)) => self.on_asked(*at, fetched, moment),
            (
                State::AtResource(_)
                | State::AtServer(_)
                | State::Registering(_)
                | State::Opened(_)
                | State::Asking(_)
                | State::Over,
                _,
            ) => Err(Why::OutOfStep),
        };
        self.checked(step)
    }

    fn checked(&mut self, step: Result<Step, Why>) -> Step {
        step.unwrap_or_else(|why| {
            self.state = State::Over;
            Step::Failed(why)
        })
    }

    /// Whether tokens are to be bound to a key.
    fn binding(&self) -> Binding {
        let of_resource = self.resource.as_ref().map(|it| it.binding).unwrap_or_default();
        match (self.plan.demand.binding, of_resource) {
            (Binding::Demanded, _) | (_, Binding::Demanded) => Binding::Demanded,
            (Binding::Offered, _) | (_, Binding::Offered) => Binding::Offered,
            (Binding::Unmentioned, Binding::Unmentioned) => Binding::Unmentioned,
        }
    }

    fn resource_name(&self) -> Option<String> {
        self.resource.as_ref()?.resource.clone()
    }
}

fn guard_of(plan: &Plan) -> OriginGuard {
    let mut typed = plan.typed.clone();
    typed.extend(plan.metadata_url.clone());
    if let Way::Enterprise(provider) = &plan.way {
        typed.push(provider.issuer.clone());
        typed.extend(provider.token_endpoint.clone());
    }
    OriginGuard::new(&plan.server, &typed).with_proxies(&plan.proxies)
}

//! The login as a pure state machine: each step says what to fetch or to open, and the result comes back as an
//! event. The flow has no clock, network or random generator of its own; `runner` drives it.
//! `metadata_discovery` finds the authorization server, `authorization` gets the tokens, `device` handles other
//! devices.

mod authorization;
pub mod authorization_url;
pub mod callback;
mod device;
mod metadata_discovery;
mod plan;
pub mod runner;
mod step;
#[cfg(test)]
mod tests;

use crate::challenge::DpopRequirement;
use crate::discovery::resource_metadata::ResourceMetadata;
use crate::fetch::origin_guard::OriginGuard;
use crate::time_and_random::TimeAndRandom;
use authorization::{PendingCallback, PendingRegistration, PendingTokenRequest};
use device::DeviceFlow;
use metadata_discovery::{AuthServerDiscovery, ResourceDiscovery};

pub use plan::{IdentityProviderLogin, LoginGrant, LoginPlan};
pub use step::{CompletedLogin, DeviceAuthorization, Event, FlowError, Step};

/// A login in progress.
#[derive(Debug)]
pub struct Flow {
    plan: LoginPlan,
    origin_guard: OriginGuard,
    resource: Option<ResourceMetadata>,
    state: FlowState,
}

#[derive(Debug)]
enum FlowState {
    /// Fetching the server's metadata.
    ResourceDiscovery(ResourceDiscovery),
    /// Fetching an authorization server's metadata.
    AuthServerDiscovery(AuthServerDiscovery),
    /// Registering a client.
    Registration(Box<PendingRegistration>),
    /// Waiting for the redirect from the browser.
    AwaitingCallback(Box<PendingCallback>),
    /// Requesting a device code, or polling with it.
    Device(Box<DeviceFlow>),
    /// Requesting tokens.
    TokenRequest(Box<PendingTokenRequest>),
    /// The flow has ended.
    Finished,
}

impl Flow {
    /// Starts a login and returns the first step.
    pub fn start(plan: LoginPlan, inputs: &mut TimeAndRandom<'_>) -> (Flow, Step) {
        let origin_guard = plan::origin_guard_for(&plan);
        let mut flow = Flow { plan, origin_guard, resource: None, state: FlowState::Finished };
        let step = flow.discover_resource(inputs);
        let step = flow.or_failed(step);
        (flow, step)
    }

    /// Takes the result of the last step and returns the next one.
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
            (FlowState::AwaitingCallback(at), Event::Callback { text, source }) => {
                self.on_callback(*at, &text, source, inputs)
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
        step.unwrap_or_else(|error| {
            self.state = FlowState::Finished;
            Step::Failed(error)
        })
    }

    /// Whether tokens must be bound to a key: the stricter of challenge and metadata.
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

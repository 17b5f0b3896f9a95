//! Signing in, as a machine that does nothing itself: each step says what to fetch or to open, and what came of
//! it goes back in. No clock, no network, no chance of its own. Finding out where is `finding`'s part, asking
//! for tokens is `asking`'s.

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
    TokenRequest(Box<PendingTokenRequest>),
    /// It is over.
    Finished,
}

impl Flow {
    /// Begins.
    pub fn start(plan: LoginPlan, inputs: &mut TimeAndRandom<'_>) -> (Flow, Step) {
        let origin_guard = plan::origin_guard_for(&plan);
        let mut flow = Flow { plan, origin_guard, resource: None, state: FlowState::Finished };
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

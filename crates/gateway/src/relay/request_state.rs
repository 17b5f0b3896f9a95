//! The `requestState` that a modern client sends back with its input. Sealed, and valid only for the same server,
//! principal and request. A server's own state travels inside the gateway's.

use std::time::Duration;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use switchboard::audit::log;
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::protocol::request_meta::RawObject;

use super::Relay;
use super::errors::invalid_request_state;
use super::used_states::StateUse;
use crate::downstream::approvals::Approvals;
use crate::downstream::request::InboundRequest;
use crate::json::payload;
use crate::method::Method;
use crate::shared::shared_state::ReplicaAddress;

/// How long a request waits for its client's input, and how long its state is valid.
pub(crate) const REQUEST_STATE_TTL: Duration = Duration::from_secs(30 * 60);
/// The `resultType` of a result that asks for input.
const INPUT_REQUIRED: &str = "input_required";

/// The content of a sealed state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RequestState {
    /// A request that is suspended in one replica.
    Suspended {
        id: u64,
        replica: ReplicaAddress,
        /// The digest of the request.
        digest: String,
    },
    /// A request of a modern server for input. The server keeps no state itself.
    Upstream {
        /// The number of the state, to recognise one that was used.
        number: u64,
        /// The replica that has numbered it.
        issuer: ReplicaAddress,
        server: String,
        /// The digest of the request.
        digest: String,
        /// The server's own `requestState`.
        state: Option<Box<RawValue>>,
        /// Who approved the call.
        approvals: Approvals,
    },
}

impl Relay {
    /// Replaces the gateway's state in the parameters by the server's own. If the state says that the call was
    /// approved, marks the request as approved. Input without a state begins a new call: it approves nothing, and only
    /// the server can tell whether it has use for it.
    pub(super) async fn unwrap_state(
        &self,
        server: &str,
        request: &InboundRequest,
        (request_digest, state_use): (impl Fn() -> String, StateUse),
        params: &mut RawObject,
    ) -> Result<(), RpcError> {
        match params.remove("requestState") {
            None => Ok(()),
            // Boxed, so that the future of a call without a state has no room for it.
            Some(sealed) => {
                let (digest, state) = (request_digest(), (sealed, state_use));
                Box::pin(self.unwrap_sealed(server, request, (digest, state), params)).await
            }
        }
    }

    async fn unwrap_sealed(
        &self,
        server: &str,
        request: &InboundRequest,
        (request_digest, (sealed, state_use)): (String, (Payload, StateUse)),
        params: &mut RawObject,
    ) -> Result<(), RpcError> {
        let sealed: String = sealed.decode().map_err(|_| invalid_request_state())?;
        let opened = self.sealer.unseal(request.principal(), &sealed);
        let RequestState::Upstream {
            number,
            issuer,
            server: state_server,
            digest,
            state,
            approvals,
        } = opened.map_err(|_| invalid_request_state())?
        else {
            return Err(invalid_request_state());
        };
        if state_server != server || digest != request_digest {
            return Err(invalid_request_state());
        }
        let is_once = state_use == StateUse::Once || approvals != Approvals::default();
        if is_once {
            self.use_state_once(&request.client().account, (&issuer, number)).await?;
        }
        if let Some(state) = state {
            params.insert("requestState", Payload::from_json(state.get().to_owned().into()));
        }
        request.context.add_approvals(approvals);
        Ok(())
    }

    /// Seals the server's state, if it has one, and whether the call was approved, into a result that asks for input.
    /// Other results stay unchanged.
    pub(super) fn wrap_state(
        &self,
        server: &str,
        request: &InboundRequest,
        request_digest: impl Fn() -> String,
        result: Payload,
    ) -> Payload {
        static INPUT_REQUIRED_FINDER: message::LazyFinder =
            message::LazyFinder::new(|| Finder::new(INPUT_REQUIRED));
        if !result.contains(&INPUT_REQUIRED_FINDER) {
            return result;
        }
        let Some(mut members) = RawObject::parse(Some(&result)) else { return result };
        if members.get_string("resultType").as_deref() != Some(INPUT_REQUIRED) {
            return result;
        }
        let approvals = request.context.approvals();
        let server_state = members.remove("requestState");
        let state = RequestState::Upstream {
            number: self.used_states.issue(),
            issuer: self.shared.my_address(),
            server: server.to_owned(),
            digest: request_digest(),
            state: server_state.and_then(|it| it.decode::<Box<RawValue>>().ok()),
            approvals,
        };
        let sealed = self.sealer.seal(request.principal(), &state, REQUEST_STATE_TTL);
        members.insert("requestState", payload(&sealed.into()));
        members.to_payload()
    }
}

/// A digest of a request that stays the same when it is sent again with input, whatever its formatting.
pub(crate) fn request_digest(method: &Method, params: &RawObject) -> String {
    let mut params = params.clone();
    params.remove("inputResponses");
    params.remove("requestState");
    let json: Json = params.to_payload().decode().unwrap_or_default();
    format!("{} {}", method.as_str(), log::digest(&json))
}

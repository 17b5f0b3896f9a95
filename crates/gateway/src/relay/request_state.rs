//! What a modern client is told to give back when a server asks something: the server's own state inside of one of ours,
//! so that it is good for that server, that principal and that question alone.

use std::sync::Arc;
use std::time::Duration;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use switchboard_wire::jsonrpc::message;
use switchboard_wire::jsonrpc::message::{Payload, RpcError};
use switchboard_wire::protocol::request_meta::RawObject;
use switchboard_wire::server;

use super::{Relay, payload};

/// How long a client may take to come back.
pub(crate) const REQUEST_STATE_TTL: Duration = Duration::from_secs(30 * 60);
/// The word for a result that is a question.
const INPUT_REQUIRED: &str = "input_required";

/// What a sealed text holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RequestState {
    /// A call that waits here for the answers.
    Suspended {
        /// Its number.
        id: u64,
        /// What it is about.
        digest: String,
    },
    /// A question of a modern server, which remembers nothing itself.
    Upstream {
        /// The server.
        server: String,
        /// What it is about.
        digest: String,
        /// What the server wants to be told again, where it wants that.
        state: Option<Box<RawValue>>,
        /// Has somebody agreed to the call?
        approval: bool,
    },
}

/// Whose a question is, and what it is about.
#[derive(Clone, Copy)]
pub(super) struct StateBinding<'a> {
    pub(super) server: &'a str,
    pub(super) principal: &'a Arc<str>,
    pub(super) digest: &'a (dyn Fn() -> String + Sync),
}

/// Has somebody agreed to the call?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    Given,
    NotGiven,
}

impl Relay {
    /// Gives the server back what it wanted to be told again. Says whether somebody agreed to the call before.
    pub(super) fn unwrap_state(
        &self,
        binding: &StateBinding<'_>,
        params: &mut RawObject,
    ) -> Result<Approval, RpcError> {
        let Some(sealed) = params.remove("requestState") else { return Ok(Approval::NotGiven) };
        let sealed: String = sealed.decode().map_err(|_| invalid_request_state())?;
        let opened = self.sealer.unseal(binding.principal, &sealed);
        let RequestState::Upstream { server, digest, state, approval } =
            opened.map_err(|_| invalid_request_state())?
        else {
            return Err(invalid_request_state());
        };
        if server != binding.server || digest != (binding.digest)() {
            return Err(invalid_request_state());
        }
        if let Some(state) = state {
            params.insert("requestState", Payload::from_json(state.get().to_owned().into()));
        }
        Ok(if approval { Approval::Given } else { Approval::NotGiven })
    }

    /// A result in which the server's state is inside of ours, where it is a question.
    pub(super) fn wrap_state(
        &self,
        binding: &StateBinding<'_>,
        result: Payload,
        approval: Approval,
    ) -> Payload {
        static MENTIONED: message::LazyFinder =
            message::LazyFinder::new(|| Finder::new(INPUT_REQUIRED));
        if !result.contains(&MENTIONED) {
            return result;
        }
        let Some(mut members) = RawObject::parse(Some(&result)) else { return result };
        if members.get_string("resultType").as_deref() != Some(INPUT_REQUIRED) {
            return result;
        }
        let server_state = members.remove("requestState");
        if server_state.is_none() && approval == Approval::NotGiven {
            return result;
        }
        let raw = server_state.and_then(|it| it.decode::<Box<RawValue>>().ok());
        let state = RequestState::Upstream {
            server: binding.server.to_owned(),
            digest: (binding.digest)(),
            state: raw,
            approval: approval == Approval::Given,
        };
        let sealed = self.sealer.seal(binding.principal, &state, REQUEST_STATE_TTL);
        members.insert("requestState", payload(&sealed.into()));
        members.to_payload()
    }
}

pub(crate) fn invalid_request_state() -> RpcError {
    server::invalid_params(
        "`requestState` is not one that was given for this question, or its time is over",
    )
}

//! What a modern client is told to give back when a server asks something: the server's own state inside of one of ours,
//! so that it is good for that server, that principal and that question alone.

use std::sync::Arc;
use std::time::Duration;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use switchboard_wire::asked::Members;
use switchboard_wire::message::{self, Payload, RemoteError};
use switchboard_wire::reception;

use super::{Relay, object};

/// How long a client may take to come back.
pub(crate) const LASTS: Duration = Duration::from_secs(30 * 60);
/// The word for a result that is a question.
const WORD: &str = "input_required";

/// What a sealed text holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    /// A call that waits here for the answers.
    Parked {
        /// Its number.
        number: u64,
        /// What it is about.
        about: String,
    },
    /// A question of a modern server, which remembers nothing itself.
    Passed {
        /// The server.
        server: String,
        /// What it is about.
        about: String,
        /// What the server wants to be told again, where it wants that.
        state: Option<Box<RawValue>>,
        /// Has somebody agreed to the call?
        leave: bool,
    },
}

/// Whose a question is, and what it is about.
#[derive(Clone, Copy)]
pub(super) struct Whose<'a> {
    pub(super) server: &'a str,
    pub(super) principal: &'a Arc<str>,
    pub(super) about: &'a (dyn Fn() -> String + Sync),
}

/// Has somebody agreed to the call?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Given,
    NotAsked,
}

impl Relay {
    /// Gives the server back what it wanted to be told again. Says whether somebody agreed to the call before.
    pub(super) fn unwrapped(
        &self,
        whose: &Whose<'_>,
        params: &mut Members,
    ) -> Result<Leave, RemoteError> {
        let Some(sealed) = params.take("requestState") else { return Ok(Leave::NotAsked) };
        let sealed: String = sealed.decode().map_err(|_| foreign())?;
        let opened = self.seal.open(whose.principal, &sealed);
        let State::Passed { server, about, state, leave } = opened.map_err(|_| foreign())? else {
            return Err(foreign());
        };
        if server != whose.server || about != (whose.about)() {
            return Err(foreign());
        }
        if let Some(state) = state {
            params.put("requestState", Payload::from_json(state.get().to_owned().into()));
        }
        Ok(if leave { Leave::Given } else { Leave::NotAsked })
    }

    /// A result in which the server's state is inside of ours, where it is a question.
    pub(super) fn wrapped(&self, whose: &Whose<'_>, result: Payload, leave: Leave) -> Payload {
        static MENTIONED: message::Word = message::Word::new(|| Finder::new(WORD));
        if !result.mentions(&MENTIONED) {
            return result;
        }
        let Some(mut members) = Members::read(Some(&result)) else { return result };
        if members.text("resultType").as_deref() != Some(WORD) {
            return result;
        }
        let inner = members.take("requestState");
        if inner.is_none() && leave == Leave::NotAsked {
            return result;
        }
        let raw = inner.and_then(|it| it.decode::<Box<RawValue>>().ok());
        let state = State::Passed {
            server: whose.server.to_owned(),
            about: (whose.about)(),
            state: raw,
            leave: leave == Leave::Given,
        };
        let sealed = self.seal.close(whose.principal, &state, LASTS);
        members.put("requestState", object(&sealed.into()));
        members.written()
    }
}

pub(crate) fn foreign() -> RemoteError {
    reception::invalid(
        "`requestState` is not one that was given for this question, or its time is over",
    )
}

//! A modern client's question, which stands for itself: begun, or taken up again where it waited for answers.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value as Json;
use switchboard::audit;
use switchboard_wire::asked::{Members, Meta};
use switchboard_wire::era::Era;
use switchboard_wire::message::{Id, RemoteError};
use switchboard_wire::reception::{self, Reception};

use crate::gateway::Gateway;
use crate::guest::Guest;
use crate::relay::{Asked, LASTS, Origin, State, foreign};
use crate::turn::Turn;

/// A question.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) guest: Arc<Guest>,
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: Members,
    pub(crate) meta: Meta,
    pub(crate) id: Id,
}

/// The client behind one question.
pub(crate) fn guest(principal: Arc<str>, meta: &Meta) -> Arc<Guest> {
    let guest = Guest::new(principal, Era::Modern, meta.capabilities.as_ref());
    if let Some(level) = &meta.log_level {
        guest.set_level(level);
    }
    Arc::new(guest)
}

impl Gateway {
    /// Begins to work on a question, or goes on where it waits for the answers that came with it.
    pub(crate) async fn visit(&self, mut visit: Visit) -> Result<Turn, RemoteError> {
        if visit.method == "server/discover" {
            let identity = self.relay.identity(Era::Modern, &visit.guest.principal);
            let reception = Reception::new(identity);
            let result = reception.finished(Era::Modern, &visit.method, reception.discover());
            return Ok(Turn::over(visit.guest.principal.clone(), result));
        }
        let principal = visit.guest.principal.clone();
        if let Some(number) = self.parked(&visit)? {
            // What cannot be read costs nothing but another try.
            let responses = Members::read(visit.params.get("inputResponses"))
                .ok_or_else(|| reception::invalid("`inputResponses` is no object"))?;
            let mut turn = self.parking.take(number).await.ok_or_else(foreign)?;
            turn.answer(&responses);
            return Ok(turn);
        }
        let about = About { method: visit.method.clone(), params: visit.params.clone() };
        let relay = self.relay.clone();
        let asked = |outlet| Asked {
            guest: visit.guest,
            method: visit.method,
            params: std::mem::take(&mut visit.params),
            meta: visit.meta,
            outlet,
            origin: Origin::of(visit.id),
        };
        Ok(Turn::begin(relay, (principal, about), asked))
    }

    /// The number of the parked call that a question goes on with, where it does.
    fn parked(&self, visit: &Visit) -> Result<Option<u64>, RemoteError> {
        let Some(sealed) = visit.params.text("requestState") else { return Ok(None) };
        let opened = self.relay.seal.open(&visit.guest.principal, &sealed);
        match opened.map_err(|_| foreign())? {
            State::Parked { number, about: what } => {
                let is_same = what == about(&visit.method, &visit.params);
                is_same.then_some(Some(number)).ok_or_else(foreign)
            }
            State::Passed { .. } => Ok(None),
        }
    }

    /// Has work wait for the client, and gives it the state to come back with.
    pub(crate) async fn park(
        &self,
        turn: Turn,
        principal: Arc<str>,
    ) -> Result<String, RemoteError> {
        let about = about(&turn.about.method, &turn.about.params);
        let number = self.parking.park(turn, principal.clone()).await;
        let number = number.ok_or_else(|| reception::failed("too many calls wait for answers"))?;
        Ok(self.relay.seal.close(&principal, &State::Parked { number, about }, LASTS))
    }
}

/// What a question was, for when it has to be known again.
#[derive(Debug, Clone, Default)]
pub(crate) struct About {
    pub(crate) method: Cow<'static, str>,
    params: Members,
}

/// What a question is about, whatever it is written like: the same when it comes again with answers.
pub(crate) fn about(method: &str, params: &Members) -> String {
    let mut params = params.clone();
    params.take("inputResponses");
    params.take("requestState");
    let written: Json = params.written().decode().unwrap_or_default();
    format!("{method} {}", audit::digest(&written))
}

//! On whose account the other side speaks: several may call over one connection, and what it asks or says on the way
//! belongs to one of them.

use std::fmt;
use std::sync::Arc;

use crate::client::Respond;
use crate::message::Payload;

/// Whoever a call is made for. Hears what the other side says on account of it, and answers what it asks.
pub trait Attend: Respond + fmt::Debug {
    /// For whom it stands: what may be known to one who stands for the same may be known to the other.
    fn party(&self) -> u64;

    /// Hears something, before the answer to the call comes. Must not wait.
    fn hear(&self, method: &str, params: Option<&Payload>) -> Heed;
}

/// Is what was heard done with?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heed {
    /// It was for whoever heard it, and for nobody else.
    Taken,
    /// It is for everybody.
    Left,
}

/// On whose account something is said or asked.
#[derive(Clone)]
pub enum Behalf {
    /// Nobody's in particular: no call is under way that was made for somebody.
    Nobody,
    /// One's.
    One(Arc<dyn Attend>),
    /// It cannot be told whose: calls of several are under way.
    Several,
}

impl Behalf {
    /// Whose it is, where these calls are the ones it may belong to, each with its number. Of several of one party it
    /// is the last: those before may have been left waiting.
    pub(super) fn of<'a>(
        candidates: impl IntoIterator<Item = (u64, &'a Arc<dyn Attend>)>,
    ) -> Behalf {
        let mut last: Option<(u64, &Arc<dyn Attend>)> = None;
        for (number, attendant) in candidates {
            match last {
                Some((_, other)) if other.party() != attendant.party() => return Behalf::Several,
                Some((newest, _)) if newest > number => {}
                Some(_) | None => last = Some((number, attendant)),
            }
        }
        last.map_or(Behalf::Nobody, |(_, attendant)| Behalf::One(attendant.clone()))
    }
}

impl fmt::Debug for Behalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Behalf::Nobody => f.write_str("Nobody"),
            Behalf::One(attendant) => write!(f, "One({})", attendant.party()),
            Behalf::Several => f.write_str("Several"),
        }
    }
}

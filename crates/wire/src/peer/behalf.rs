//! On whose account the other side speaks: several may call over one connection, and what it asks or says on the way
//! belongs to one of them.

use std::fmt;
use std::sync::Arc;

use crate::client::Respond;
use crate::message::Payload;

/// Whoever a call is made for. Hears what the other side says on account of it, and answers what it asks.
pub trait Attend: Respond + fmt::Debug {
    /// Who it is: calls with the same number are made for the same one.
    fn number(&self) -> u64;

    /// On whose account in the end: what belongs to a call of one principal is not told to another.
    fn principal(&self) -> Arc<str>;

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
    /// Whose it is, where these are the ones it may be.
    pub(super) fn of<'a>(candidates: impl IntoIterator<Item = &'a Arc<dyn Attend>>) -> Behalf {
        let mut candidates = candidates.into_iter();
        let Some(first) = candidates.next() else { return Behalf::Nobody };
        match candidates.all(|it| it.number() == first.number()) {
            true => Behalf::One(first.clone()),
            false => Behalf::Several,
        }
    }
}

impl fmt::Debug for Behalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Behalf::Nobody => f.write_str("Nobody"),
            Behalf::One(attendant) => write!(f, "One({})", attendant.number()),
            Behalf::Several => f.write_str("Several"),
        }
    }
}

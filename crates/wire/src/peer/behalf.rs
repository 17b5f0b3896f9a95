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

    /// Does it wait for somebody's answer already?
    fn waits(&self) -> bool;

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
    /// Whose it is, where these calls are the ones it may belong to, each with its number. Of several of one party it is
    /// the first that waits for no answer already; where all do, the last, since others may have been left waiting.
    pub(super) fn of<'a>(
        candidates: impl IntoIterator<Item = (u64, &'a Arc<dyn Attend>)>,
    ) -> Behalf {
        let mut best: Option<(bool, u64, &Arc<dyn Attend>)> = None;
        for (number, attendant) in candidates {
            let waits = attendant.waits();
            best = match best {
                Some((_, _, other)) if other.party() != attendant.party() => {
                    return Behalf::Several;
                }
                Some(best @ (true, newest, _)) if waits && newest > number => Some(best),
                Some(best @ (false, oldest, _)) if waits || oldest < number => Some(best),
                Some(_) | None => Some((waits, number, attendant)),
            };
        }
        best.map_or(Behalf::Nobody, |(_, _, attendant)| Behalf::One(attendant.clone()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Respond;
    use crate::message::RemoteError;

    #[derive(Debug)]
    struct Somebody(u64, bool);

    impl Respond for Somebody {
        fn respond<'a>(
            &'a self,
            _method: &'a str,
            _params: Option<Payload>,
        ) -> std::pin::Pin<Box<dyn Future<Output = Result<Payload, RemoteError>> + Send + 'a>>
        {
            Box::pin(std::future::pending())
        }
    }

    impl Attend for Somebody {
        fn party(&self) -> u64 {
            self.0
        }

        fn waits(&self) -> bool {
            self.1
        }

        fn hear(&self, _method: &str, _params: Option<&Payload>) -> Heed {
            Heed::Left
        }
    }

    #[track_caller]
    fn check(calls: &[(u64, u64, bool)], expected: Option<usize>) {
        let all: Vec<(u64, Arc<dyn Attend>)> = calls
            .iter()
            .map(|(number, party, waits)| (*number, Arc::new(Somebody(*party, *waits)) as _))
            .collect();
        let found = match Behalf::of(all.iter().map(|(number, it)| (*number, it))) {
            Behalf::One(it) => all.iter().position(|(_, other)| Arc::ptr_eq(&it, other)),
            Behalf::Nobody | Behalf::Several => None,
        };
        assert_eq!(found, expected, "{calls:?}");
    }

    #[test]
    fn what_may_belong_to_another_is_for_nobody() {
        check(&[], None);
        check(&[(1, 7, false)], Some(0));
        check(&[(1, 7, false), (2, 8, false)], None);
        check(&[(1, 7, true), (2, 7, false), (3, 8, true)], None);
    }

    #[test]
    fn of_one_partys_calls_it_is_the_first_that_waits_for_nothing() {
        check(&[(5, 7, false), (3, 7, false), (9, 7, true)], Some(1));
        check(&[(5, 7, true), (3, 7, true), (9, 7, true)], Some(2));
        check(&[(9, 7, true), (3, 7, true)], Some(0));
        check(&[(3, 7, true), (9, 7, false)], Some(1));
    }
}

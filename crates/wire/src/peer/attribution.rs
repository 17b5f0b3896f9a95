//! On whose account the other side speaks: several may call over one connection, and what it asks or says on the way
//! belongs to one of them.

use crate::jsonrpc::message::{Payload, RpcError};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Answers what a server asks while it works for us.
pub trait RequestHandler: Send + Sync {
    /// Answers one question. Takes as long as people take.
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>>;
}

/// Whoever a call is made for. Hears what the other side says on account of it, and answers what it asks.
pub trait CallOwner: RequestHandler + fmt::Debug {
    /// For whom it stands: what may be known to one who stands for the same may be known to the other.
    fn principal(&self) -> u64;

    /// Does it wait for somebody's answer already?
    fn has_pending_request(&self) -> bool;

    /// Hears something, before the answer to the call comes. Must not wait.
    fn on_notification(&self, method: &str, params: Option<&Payload>) -> Propagation;
}

/// Is what was heard done with?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// It was for whoever heard it, and for nobody else.
    Stop,
    /// It is for everybody.
    Continue,
}

/// On whose account something is said or asked.
#[derive(Clone)]
pub enum Attribution {
    /// Nobody's in particular: no call is under way that was made for somebody.
    None,
    /// One's.
    Owner(Arc<dyn CallOwner>),
    /// It cannot be told whose: calls of several are under way.
    Ambiguous,
}

impl Attribution {
    /// Whose it is, where these calls are the ones it may belong to, each with its number. Of several of one party it is
    /// the first that waits for no answer already; where all do, the last, since others may have been left waiting.
    pub(super) fn resolve<'a>(
        candidates: impl IntoIterator<Item = (u64, &'a Arc<dyn CallOwner>)>,
    ) -> Attribution {
        let mut best: Option<(bool, u64, &Arc<dyn CallOwner>)> = None;
        for (number, owner) in candidates {
            let is_pending = owner.has_pending_request();
            best = match best {
                Some((_, _, other)) if other.principal() != owner.principal() => {
                    return Attribution::Ambiguous;
                }
                Some(best @ (true, newest, _)) if is_pending && newest > number => Some(best),
                Some(best @ (false, oldest, _)) if is_pending || oldest < number => Some(best),
                Some(_) | None => Some((is_pending, number, owner)),
            };
        }
        best.map_or(Attribution::None, |(_, _, owner)| Attribution::Owner(owner.clone()))
    }
}

impl fmt::Debug for Attribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribution::None => f.write_str("Nobody"),
            Attribution::Owner(owner) => write!(f, "One({})", owner.principal()),
            Attribution::Ambiguous => f.write_str("Several"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct TestOwner(u64, bool);

    impl RequestHandler for TestOwner {
        fn respond<'a>(
            &'a self,
            _method: &'a str,
            _params: Option<Payload>,
        ) -> Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>> {
            Box::pin(std::future::pending())
        }
    }

    impl CallOwner for TestOwner {
        fn principal(&self) -> u64 {
            self.0
        }

        fn has_pending_request(&self) -> bool {
            self.1
        }

        fn on_notification(&self, _method: &str, _params: Option<&Payload>) -> Propagation {
            Propagation::Continue
        }
    }

    #[track_caller]
    fn check(calls: &[(u64, u64, bool)], expected: Option<usize>) {
        let all: Vec<(u64, Arc<dyn CallOwner>)> = calls
            .iter()
            .map(|(number, principal, is_pending)| {
                (*number, Arc::new(TestOwner(*principal, *is_pending)) as _)
            })
            .collect();
        let found = match Attribution::resolve(all.iter().map(|(number, it)| (*number, it))) {
            Attribution::Owner(it) => all.iter().position(|(_, other)| Arc::ptr_eq(&it, other)),
            Attribution::None | Attribution::Ambiguous => None,
        };
        assert_eq!(found, expected, "{calls:?}");
    }

    #[test]
    fn calls_of_several_principals_are_ambiguous() {
        check(&[], None);
        check(&[(1, 7, false)], Some(0));
        check(&[(1, 7, false), (2, 8, false)], None);
        check(&[(1, 7, true), (2, 7, false), (3, 8, true)], None);
    }

    #[test]
    fn of_one_principals_calls_the_first_idle_one_is_chosen() {
        check(&[(5, 7, false), (3, 7, false), (9, 7, true)], Some(1));
        check(&[(5, 7, true), (3, 7, true), (9, 7, true)], Some(2));
        check(&[(9, 7, true), (3, 7, true)], Some(0));
        check(&[(3, 7, true), (9, 7, false)], Some(1));
    }
}

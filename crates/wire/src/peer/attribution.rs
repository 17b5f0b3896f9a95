//! Attributes requests and notifications of the peer to the call that caused them: one connection may carry
//! calls for several clients.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::jsonrpc::message::{Payload, RpcError};

/// Answers requests that a server sends while it handles a request of ours.
pub trait RequestHandler: Send + Sync {
    /// Answers one request. May wait for a user.
    fn respond<'a>(
        &'a self,
        method: &'a str,
        params: Option<Payload>,
    ) -> Pin<Box<dyn Future<Output = Result<Payload, RpcError>> + Send + 'a>>;
}

/// The party that a call is made for. Receives the notifications and answers the requests that belong to the call.
pub trait CallOwner: RequestHandler + fmt::Debug {
    /// The client session that the call belongs to. Owners in one session may see each other's messages; owners in
    /// two sessions of one principal may not, because two programs may use the same credentials.
    fn session(&self) -> u64;

    /// Whether the owner is already answering a request.
    fn has_pending_request(&self) -> bool;

    /// Receives a notification before the response to the call arrives. Must not block.
    fn on_notification(&self, method: &str, params: Option<&Payload>) -> Propagation;
}

/// Whether a notification goes on to other receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// The owner consumed the notification.
    Stop,
    /// The notification is also for the receiver of [`SpawnedPeer::events`](super::SpawnedPeer::events).
    Continue,
}

/// Which call a message belongs to.
#[derive(Clone)]
pub enum Attribution {
    /// No call that has an owner is pending.
    None,
    /// A call of this owner.
    Owner(Arc<dyn CallOwner>),
    /// Calls of several sessions are pending, so the owner is unknown.
    Ambiguous,
}

impl Attribution {
    /// Chooses among the calls that a message may belong to, given by number. Of several calls of one session it
    /// is the oldest whose owner is not answering a request; if all are, the newest, because requests of the others
    /// may have been abandoned.
    pub(super) fn resolve<'a>(
        candidates: impl IntoIterator<Item = (u64, &'a Arc<dyn CallOwner>)>,
    ) -> Attribution {
        let mut best: Option<(bool, u64, &Arc<dyn CallOwner>)> = None;
        for (number, owner) in candidates {
            let is_pending = owner.has_pending_request();
            best = match best {
                Some((_, _, other)) if other.session() != owner.session() => {
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
            Attribution::None => f.write_str("None"),
            Attribution::Owner(owner) => write!(f, "Owner({})", owner.session()),
            Attribution::Ambiguous => f.write_str("Ambiguous"),
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
        fn session(&self) -> u64 {
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
            .map(|(number, session, is_pending)| {
                (*number, Arc::new(TestOwner(*session, *is_pending)) as _)
            })
            .collect();
        let found = match Attribution::resolve(all.iter().map(|(number, it)| (*number, it))) {
            Attribution::Owner(it) => all.iter().position(|(_, other)| Arc::ptr_eq(&it, other)),
            Attribution::None | Attribution::Ambiguous => None,
        };
        assert_eq!(found, expected, "{calls:?}");
    }

    #[test]
    fn calls_of_several_sessions_are_ambiguous() {
        check(&[], None);
        check(&[(1, 7, false)], Some(0));
        check(&[(1, 7, false), (2, 8, false)], None);
        check(&[(1, 7, true), (2, 7, false), (3, 8, true)], None);
    }

    #[test]
    fn of_one_sessions_calls_the_first_idle_one_is_chosen() {
        check(&[(5, 7, false), (3, 7, false), (9, 7, true)], Some(1));
        check(&[(5, 7, true), (3, 7, true), (9, 7, true)], Some(2));
        check(&[(9, 7, true), (3, 7, true)], Some(0));
        check(&[(3, 7, true), (9, 7, false)], Some(1));
    }
}

//! The request states that were used. A state for a call that changes something is valid once, for as long as the key
//! that seals it lives, which is the lifetime of the process.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use switchboard_wire::shared::Shared;

/// The largest number of used states to remember, of all accounts and of one. Beyond it states for calls that change
/// something are refused.
const MAX_USED: usize = 500_000;
const MAX_PER_ACCOUNT: usize = 50_000;

/// May a state be used again?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateUse {
    /// Once, because the request may change something or carries an approval for one call.
    Once,
    /// Until it expires, because the request only reads.
    UntilExpired,
}

/// Why a state cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateRefusal {
    /// It was used before.
    Used,
    /// Too many states are remembered.
    TooMany,
}

/// Numbers states, and remembers those that were used. Shared state: two requests with one state must not both pass.
#[derive(Debug)]
pub(super) struct UsedStates {
    next: AtomicU64,
    used: Shared<RememberedStates>,
    ttl: Duration,
}

#[derive(Debug, Default)]
struct RememberedStates {
    /// By number, whichever account used it, with the time at which it expires.
    used: BTreeMap<u64, (Arc<str>, Instant)>,
    count_by_account: HashMap<Arc<str>, usize>,
}

impl RememberedStates {
    /// Forgets expired states. Numbers are issued in the order of time, so that these come first.
    fn forget_expired(&mut self, now: Instant) {
        while let Some(first) = self.used.first_entry().filter(|it| it.get().1 <= now) {
            let (account, _) = first.remove();
            if let Some(count) = self.count_by_account.get_mut(&account) {
                *count -= 1;
                if *count == 0 {
                    self.count_by_account.remove(&account);
                }
            }
        }
    }

    fn consume(
        &mut self,
        account: &Arc<str>,
        number: u64,
        expires_at: Instant,
    ) -> Result<(), StateRefusal> {
        if self.used.contains_key(&number) {
            return Err(StateRefusal::Used);
        }
        let count = self.count_by_account.get(account).copied().unwrap_or_default();
        if self.used.len() >= MAX_USED || count >= MAX_PER_ACCOUNT {
            return Err(StateRefusal::TooMany);
        }
        self.used.insert(number, (account.clone(), expires_at));
        self.count_by_account.insert(account.clone(), count + 1);
        Ok(())
    }
}

impl UsedStates {
    /// No states. A state expires after `ttl`.
    pub(super) fn new(ttl: Duration) -> UsedStates {
        UsedStates { next: AtomicU64::new(1), used: Shared::default(), ttl }
    }

    /// The number of a new state.
    pub(super) fn issue(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Is it known that a state was used?
    pub(super) fn is_used(&self, number: u64) -> bool {
        self.used.read(|states| states.used.contains_key(&number))
    }

    /// Uses a state, counted for an account.
    pub(super) fn consume(
        &self,
        account: &Arc<str>,
        number: u64,
        now: Instant,
    ) -> Result<(), StateRefusal> {
        self.used.update(|states| {
            states.forget_expired(now);
            states.consume(account, number, now + self.ttl)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_used_once_and_forgotten_after_it_expired() {
        let states = UsedStates::new(Duration::from_secs(60));
        let ada: Arc<str> = "ada".into();
        let (one, other) = (states.issue(), states.issue());
        let now = Instant::now();
        for number in [one, other] {
            assert_eq!(states.consume(&ada, number, now), Ok(()));
        }
        for (account, number) in [(&ada, one), (&"another address".into(), other)] {
            assert_eq!(states.consume(account, number, now), Err(StateRefusal::Used));
        }
        let later = now + Duration::from_secs(61);
        assert_eq!(states.consume(&ada, states.issue(), later), Ok(()));
        let remembered = states.used.read(|it| (it.used.len(), it.count_by_account["ada"]));
        assert_eq!(remembered, (1, 1));
    }

    #[test]
    fn an_account_that_uses_many_states_leaves_room_for_others() {
        let states = UsedStates::new(Duration::from_secs(60));
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        let now = Instant::now();
        let used = (0..MAX_USED).take_while(|_| states.consume(&ada, states.issue(), now).is_ok());
        assert_eq!(used.count(), MAX_PER_ACCOUNT);
        assert_eq!(states.consume(&ada, states.issue(), now), Err(StateRefusal::TooMany));
        assert_eq!(states.consume(&bob, states.issue(), now), Ok(()));
    }
}

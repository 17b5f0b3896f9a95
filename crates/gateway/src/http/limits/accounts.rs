//! What each principal uses: its account, found once per connection, and reservations that end when they are dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use switchboard_wire::shared::Shared;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::rate::TokenBucket;
use super::{LimitExceeded, Limits, Quota};
use crate::telemetry::limit_kind::LimitKind;

/// When a client may try again after a limit that ends with other work.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Unused accounts are removed whenever the number of accounts reaches a multiple of this.
const PRUNE_INTERVAL: usize = 1024;

/// What can be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Session,
    Request,
    Connection,
}

/// The counters of one principal, or of all.
#[derive(Debug, Default)]
struct Usage {
    sessions: AtomicUsize,
    requests: AtomicUsize,
    connections: AtomicUsize,
    replay_bytes: AtomicUsize,
    /// The bytes of events in queues that clients have not read.
    unread_bytes: AtomicUsize,
}

impl Usage {
    fn counter(&self, resource: Resource) -> &AtomicUsize {
        match resource {
            Resource::Session => &self.sessions,
            Resource::Request => &self.requests,
            Resource::Connection => &self.connections,
        }
    }

    /// Adds to a counter, unless that would exceed the limit.
    fn try_add(&self, resource: Resource, amount: usize, limit: usize) -> Result<(), ()> {
        let add = |used: usize| used.checked_add(amount).filter(|it| *it <= limit);
        let counter = self.counter(resource);
        counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map(drop).map_err(drop)
    }
}

/// The accounts of all principals. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Accounts {
    /// Shared state: each connection looks up the account of its first request.
    by_principal: Shared<HashMap<Arc<str>, Arc<Account>>>,
    limits: Arc<Limits>,
    owner: AccountOwner,
    total: Arc<Usage>,
    started: Instant,
}

/// What accounts are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccountOwner {
    Principal,
    /// A remote address, for all principals that use it.
    Address,
}

/// What one account uses.
#[derive(Debug, Clone)]
pub(crate) struct AccountUse {
    pub(crate) principal: Arc<str>,
    pub(crate) sessions: usize,
    pub(crate) requests: usize,
    pub(crate) connections: usize,
}

/// The account of one principal.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) principal: Arc<str>,
    usage: Usage,
    bucket: TokenBucket,
    /// The number of bytes that were ever kept for replay: the position of the next event.
    replay_end: AtomicU64,
    /// Events before this position are dropped.
    replay_start: AtomicU64,
    /// Tells the sessions that `replay_start` has changed.
    replay_trimmed: Notify,
    limits: Arc<Limits>,
    owner: AccountOwner,
    total: Arc<Usage>,
    started: Instant,
}

impl Accounts {
    /// Accounts of principals.
    pub(crate) fn new(limits: Limits) -> Accounts {
        Accounts::of(AccountOwner::Principal, limits)
    }

    /// Accounts of remote addresses, each for all principals that use the address.
    pub(crate) fn of_addresses(limits: &Limits) -> Accounts {
        Accounts::of(AccountOwner::Address, limits.of_address())
    }

    fn of(owner: AccountOwner, limits: Limits) -> Accounts {
        Accounts {
            by_principal: Shared::default(),
            limits: Arc::new(limits),
            owner,
            total: Arc::default(),
            started: Instant::now(),
        }
    }

    /// The account of a principal.
    pub(crate) fn account(&self, principal: &str) -> Arc<Account> {
        let known = self.by_principal.read(|accounts| accounts.get(principal).cloned());
        known.unwrap_or_else(|| {
            let now = self.started.elapsed();
            self.by_principal.update(|accounts| {
                if accounts.len() % PRUNE_INTERVAL == PRUNE_INTERVAL - 1 {
                    accounts.retain(|_, it| Arc::strong_count(it) > 1 || !it.bucket.is_full(now));
                }
                let principal: Arc<str> = principal.into();
                let entry = accounts.entry(principal.clone());
                entry.or_insert_with(|| Arc::new(self.new_account(principal))).clone()
            })
        })
    }

    fn new_account(&self, principal: Arc<str>) -> Account {
        Account {
            principal,
            usage: Usage::default(),
            bucket: TokenBucket::default(),
            replay_end: AtomicU64::new(0),
            replay_start: AtomicU64::new(0),
            replay_trimmed: Notify::new(),
            limits: self.limits.clone(),
            owner: self.owner,
            total: self.total.clone(),
            started: self.started,
        }
    }

    /// What every account uses now, by principal.
    pub(crate) fn in_use(&self) -> Vec<AccountUse> {
        let load = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let account_use = |account: &Arc<Account>| AccountUse {
            principal: account.principal.clone(),
            sessions: load(&account.usage.sessions),
            requests: load(&account.usage.requests),
            connections: load(&account.usage.connections),
        };
        let mut all: Vec<AccountUse> =
            self.by_principal.read(|accounts| accounts.values().map(account_use).collect());
        all.sort_by(|one, other| one.principal.cmp(&other.principal));
        all
    }

    /// The account that keeps the most bytes for replay.
    fn largest_replay(&self) -> Option<Arc<Account>> {
        let used = |it: &&Arc<Account>| it.usage.replay_bytes.load(Ordering::Relaxed);
        self.by_principal.read(|accounts| accounts.values().max_by_key(used).cloned())
    }
}

impl Account {
    /// Reserves a connection.
    pub(crate) fn open_connection(self: &Arc<Account>) -> Result<Reservation, LimitExceeded> {
        self.reserve(Resource::Connection, 1)
    }

    /// Reserves a session or a `subscriptions/listen` stream, and takes a token for its request.
    pub(crate) fn open_session(self: &Arc<Account>) -> Result<Reservation, LimitExceeded> {
        let reserved = self.reserve(Resource::Session, 1)?;
        self.take_tokens(1)?;
        Ok(reserved)
    }

    /// Reserves requests in flight, and takes a token for each.
    pub(crate) fn start_requests(
        self: &Arc<Account>,
        number: usize,
    ) -> Result<Reservation, LimitExceeded> {
        let reserved = self.reserve(Resource::Request, number)?;
        self.take_tokens(number)?;
        Ok(reserved)
    }

    fn take_tokens(&self, number: usize) -> Result<(), LimitExceeded> {
        let Some(per_second) = self.limits.requests_per_second else { return Ok(()) };
        let now = self.started.elapsed();
        for _ in 0..number {
            self.bucket.take(per_second, now).map_err(|retry_after| LimitExceeded {
                limit: match self.owner {
                    AccountOwner::Principal => LimitKind::RequestRate,
                    AccountOwner::Address => LimitKind::AddressRequestRate,
                },
                retry_after,
            })?;
        }
        Ok(())
    }

    fn reserve(
        self: &Arc<Account>,
        resource: Resource,
        amount: usize,
    ) -> Result<Reservation, LimitExceeded> {
        let limits = &self.limits;
        let (quota, own_limit, total_limit): (Quota, _, _) = match (resource, self.owner) {
            (Resource::Session, AccountOwner::Principal) => {
                (limits.sessions, LimitKind::Sessions, LimitKind::SessionsTotal)
            }
            (Resource::Session, AccountOwner::Address) => {
                (limits.sessions, LimitKind::AddressSessions, LimitKind::SessionsTotal)
            }
            (Resource::Request, AccountOwner::Principal) => {
                (limits.requests_in_flight, LimitKind::Requests, LimitKind::RequestsTotal)
            }
            (Resource::Request, AccountOwner::Address) => {
                (limits.requests_in_flight, LimitKind::AddressRequests, LimitKind::RequestsTotal)
            }
            (Resource::Connection, AccountOwner::Principal | AccountOwner::Address) => {
                (limits.connections, LimitKind::PrincipalConnections, LimitKind::Connections)
            }
        };
        let exceeded = |limit| LimitExceeded { limit, retry_after: RETRY_AFTER };
        self.usage
            .try_add(resource, amount, quota.per_principal)
            .map_err(|()| exceeded(own_limit))?;
        if let Err(()) = self.total.try_add(resource, amount, quota.total) {
            self.usage.counter(resource).fetch_sub(amount, Ordering::Relaxed);
            return Err(exceeded(total_limit));
        }
        Ok(Reservation { account: self.clone(), resource, amount })
    }

    /// Reserves bytes of an event that the client has not read. False if that exceeds the limit of kept bytes.
    pub(crate) fn reserve_unread(&self, bytes: usize) -> bool {
        let quota = self.limits.replay_bytes;
        let add = |usage: &Usage, limit: usize| {
            let add = |used: usize| used.checked_add(bytes).filter(|it| *it <= limit);
            usage.unread_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
        };
        if !add(&self.usage, quota.per_principal) {
            return false;
        }
        let is_reserved = add(&self.total, quota.total);
        if !is_reserved {
            self.usage.unread_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_reserved
    }

    /// Frees bytes of events that were read or dropped.
    pub(crate) fn release_unread(&self, bytes: usize) {
        for usage in [&self.usage, &*self.total] {
            usage.unread_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Drops the oldest events until at most `bytes` are kept. Returns whether sessions have events to drop.
    fn trim_replay(&self, bytes: usize) -> bool {
        let start = self.replay_end.load(Ordering::Relaxed).saturating_sub(bytes as u64);
        let was_advanced = self.replay_start.fetch_max(start, Ordering::Relaxed) < start;
        if was_advanced {
            self.replay_trimmed.notify_waiters();
        }
        was_advanced
    }
}

/// A part of a limit. It is free again when the reservation is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Arc<Account>,
    resource: Resource,
    amount: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for usage in [&self.account.usage, &*self.account.total] {
            usage.counter(self.resource).fetch_sub(self.amount, Ordering::Relaxed);
        }
    }
}

/// The bytes that one session keeps for replay, counted for its principal. Freed when it is dropped.
#[derive(Debug)]
pub(crate) struct ReplayBudget {
    accounts: Accounts,
    account: Arc<Account>,
    kept: usize,
}

impl ReplayBudget {
    pub(crate) fn new(accounts: Accounts, account: Arc<Account>) -> ReplayBudget {
        ReplayBudget { accounts, account, kept: 0 }
    }

    /// Counts an event. Returns its position among all events of the principal, and the limit that it exceeds: then the
    /// oldest events of the principal, or of the principal that keeps the most, are dropped.
    pub(crate) fn keep(&mut self, bytes: usize) -> (u64, Option<LimitKind>) {
        let (account, quota) = (&self.account, self.account.limits.replay_bytes);
        self.kept += bytes;
        let position = account.replay_end.fetch_add(bytes as u64, Ordering::Relaxed);
        let own = account.usage.replay_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let total = account.total.replay_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let mut exceeded = None;
        // An eighth more is dropped than necessary, so that not every event wakes every session.
        if own > quota.per_principal && account.trim_replay(quota.per_principal / 8 * 7) {
            exceeded = Some(LimitKind::ReplayBytes);
        }
        if total > quota.total
            && let Some(largest) = self.accounts.largest_replay()
            && largest.trim_replay(largest.usage.replay_bytes.load(Ordering::Relaxed) / 2)
        {
            exceeded = Some(LimitKind::ReplayBytesTotal);
        }
        (position, exceeded)
    }

    /// Frees the bytes of an event.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.kept -= bytes;
        for usage in [&self.account.usage, &*self.account.total] {
            usage.replay_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// The account that the bytes are counted for.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Events before this position are to be dropped.
    pub(crate) fn start(&self) -> u64 {
        self.account.replay_start.load(Ordering::Relaxed)
    }

    /// Completes when [`ReplayBudget::start`] changes after this call.
    pub(crate) fn changed(account: &Account) -> Notified<'_> {
        account.replay_trimmed.notified()
    }
}

impl Drop for ReplayBudget {
    fn drop(&mut self) {
        self.release(self.kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(change: impl FnOnce(&mut Limits)) -> Accounts {
        let mut limits = Limits::default();
        change(&mut limits);
        Accounts::new(limits)
    }

    fn limit_of(result: Result<Reservation, LimitExceeded>) -> Option<LimitKind> {
        result.err().map(|it| it.limit)
    }

    #[test]
    fn a_principal_at_its_limit_leaves_the_rest_to_others_until_the_total_is_reached() {
        let accounts = accounts(|it| it.sessions = Quota { per_principal: 2, total: 3 });
        let (a, b) = (accounts.account("a"), accounts.account("b"));
        let first = a.open_session().expect("room");
        let _second = a.open_session().expect("room");
        assert_eq!(limit_of(a.open_session()), Some(LimitKind::Sessions));
        let _third = b.open_session().expect("room");
        assert_eq!(limit_of(b.open_session()), Some(LimitKind::SessionsTotal));
        drop(first);
        assert!(accounts.account("a").open_session().is_ok(), "it is free again");
    }

    #[test]
    fn a_batch_counts_each_of_its_requests() {
        let accounts = accounts(|it| it.requests_in_flight = Quota { per_principal: 4, total: 9 });
        let a = accounts.account("a");
        let batch = a.start_requests(3).expect("room");
        assert_eq!(limit_of(a.start_requests(2)), Some(LimitKind::Requests));
        drop(batch);
        assert!(a.start_requests(4).is_ok());
    }

    #[test]
    fn a_request_over_the_rate_holds_no_place_in_flight() {
        let accounts = accounts(|it| {
            it.requests_per_second = Some(1);
            it.requests_in_flight = Quota { per_principal: 1, total: 1 };
        });
        let a = accounts.account("a");
        drop(a.start_requests(1).expect("the first"));
        assert_eq!(limit_of(a.start_requests(1)), Some(LimitKind::RequestRate));
        assert_eq!(a.usage.requests.load(Ordering::Relaxed), 0);
        assert!(accounts.account("b").start_requests(1).is_ok());
    }

    #[test]
    fn the_oldest_events_of_the_principal_are_dropped_first_whatever_their_session() {
        let accounts = accounts(|it| it.replay_bytes = Quota { per_principal: 80, total: 1000 });
        let a = accounts.account("a");
        let mut old = ReplayBudget::new(accounts.clone(), a.clone());
        let mut new = ReplayBudget::new(accounts.clone(), a);
        assert_eq!(old.keep(40), (0, None));
        assert_eq!(new.keep(40), (40, None));
        assert_eq!(new.keep(20), (80, Some(LimitKind::ReplayBytes)));
        assert_eq!(old.start(), 30, "70 bytes stay");
        drop((old, new));
        assert_eq!(accounts.total.replay_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn over_the_total_the_principal_that_keeps_the_most_pays() {
        let accounts = accounts(|it| it.replay_bytes = Quota { per_principal: 80, total: 100 });
        let mut large = ReplayBudget::new(accounts.clone(), accounts.account("large"));
        let mut small = ReplayBudget::new(accounts.clone(), accounts.account("small"));
        large.keep(80);
        assert_eq!(small.keep(30), (0, Some(LimitKind::ReplayBytesTotal)));
        assert_eq!((large.start(), small.start()), (40, 0));
    }
}

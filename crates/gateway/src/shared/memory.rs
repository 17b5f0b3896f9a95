//! A store in the memory of this process, for gateways that share it: several listeners of one program, and tests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use switchboard_wire::shared::Shared;
use tokio::time::Instant;

use super::store::{
    CallCharge, CallCounts, CallLimit, CallStart, Epoch, FleetSnapshot, Heartbeat, ReplicaId,
    SessionChanges, SessionContents, SessionWrite, SharedList, StateStore, StoreError, StoredEvent,
    StoredSession, TokenGrant, TokenRequest,
};

const MINUTE: Duration = Duration::from_secs(60);
const DAY_SECONDS: u64 = 24 * 3600;

/// A store in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    /// Shared state: it stands for a server that all replicas change at once.
    contents: Shared<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    is_away: bool,
    generation: Option<u64>,
    replicas: BTreeMap<ReplicaId, TtlValue<Vec<u8>>>,
    sessions: HashMap<String, TtlValue<SessionContents>>,
    values: HashMap<String, TtlValue<Vec<u8>>>,
    sets: HashMap<String, TtlValue<BTreeMap<String, Vec<u8>>>>,
    lists: BTreeMap<SharedList, BTreeMap<String, TtlValue<Vec<u8>>>>,
    lists_revision: u64,
    /// When the bucket of an account is full again.
    buckets: HashMap<String, Instant>,
    /// The counters of calls, by account and quota.
    call_counters: HashMap<(String, String), CallCounter>,
    locks: HashMap<String, TtlValue<String>>,
    fences: HashMap<String, u64>,
}

/// What is counted for one quota of an account.
#[derive(Debug, Default)]
struct CallCounter {
    /// When the bucket of calls per minute is full again.
    full_at: Option<Instant>,
    /// The number of the day (UTC) of `calls_of_day`.
    day: u64,
    calls_of_day: u64,
    running: HashMap<Arc<str>, TtlValue<()>>,
}

#[derive(Debug)]
struct TtlValue<T> {
    value: T,
    expires_at: Instant,
}

impl<T> TtlValue<T> {
    fn new(value: T, ttl: Duration) -> TtlValue<T> {
        TtlValue { value, expires_at: Instant::now() + ttl }
    }

    fn is_alive(&self) -> bool {
        self.expires_at > Instant::now()
    }
}

impl MemoryStore {
    /// Makes the store unreachable, or reachable again. For tests of what then happens.
    pub fn set_away(&self, is_away: bool) {
        self.contents.update(|it| it.is_away = is_away);
    }

    /// Loses all contents, as a store does that keeps nothing on disk and is restarted.
    pub fn clear(&self) {
        self.contents.update(|it| *it = Contents { is_away: it.is_away, ..Contents::default() });
    }

    /// How many entries all lists have.
    pub fn list_len(&self) -> usize {
        self.contents.read(|it| it.lists.values().map(BTreeMap::len).sum())
    }

    fn with<R>(&self, change: impl FnOnce(&mut Contents) -> R) -> Result<R, StoreError> {
        self.contents.update(|contents| match contents.is_away {
            true => Err(StoreError::Away),
            false => {
                contents.drop_expired();
                Ok(change(contents))
            }
        })
    }
}

impl Contents {
    fn drop_expired(&mut self) {
        self.replicas.retain(|_, it| it.is_alive());
        self.sessions.retain(|_, it| it.is_alive());
        self.values.retain(|_, it| it.is_alive());
        self.sets.retain(|_, it| it.is_alive());
        self.locks.retain(|_, it| it.is_alive());
        for counter in self.call_counters.values_mut() {
            counter.running.retain(|_, it| it.is_alive());
        }
        for list in self.lists.values_mut() {
            list.retain(|_, it| it.is_alive());
        }
    }

    /// The session, if this epoch owns it.
    fn owned(
        &mut self,
        id: &str,
        epoch: Epoch,
    ) -> Result<&mut TtlValue<SessionContents>, SessionWrite> {
        let session = self.sessions.get_mut(id).ok_or(SessionWrite::Missing)?;
        match session.value.session.epoch == epoch {
            true => Ok(session),
            false => Err(SessionWrite::NotOwner),
        }
    }
}

impl CallCounter {
    /// Does a call fit? Otherwise the limit and when to try again.
    fn check(&self, charge: &CallCharge) -> Result<(), (CallLimit, Duration)> {
        let counts = self.counts(charge);
        if charge.concurrent.is_some_and(|most| counts.running >= most) {
            return Err((CallLimit::Concurrent, Duration::from_secs(1)));
        }
        if charge.per_day.is_some_and(|most| counts.day >= most) {
            return Err((CallLimit::Day, today().1));
        }
        match charge.per_minute {
            Some(per_minute) => {
                let excess = self
                    .full_after_call(per_minute)
                    .saturating_duration_since(Instant::now() + MINUTE);
                if excess.is_zero() { Ok(()) } else { Err((CallLimit::Minute, excess)) }
            }
            None => Ok(()),
        }
    }

    fn add(&mut self, charge: &CallCharge, (slot, ttl): (&str, Duration)) {
        let (day, _) = today();
        self.calls_of_day = if self.day == day { self.calls_of_day + 1 } else { 1 };
        self.day = day;
        self.running.insert(slot.into(), TtlValue::new((), ttl));
        if let Some(per_minute) = charge.per_minute {
            self.full_at = Some(self.full_after_call(per_minute));
        }
    }

    fn counts(&self, charge: &CallCharge) -> CallCounts {
        let missing = self.full_at.map(|it| it.saturating_duration_since(Instant::now()));
        let minute = charge.per_minute.zip(missing).map(|(per_minute, missing)| {
            missing.as_nanos().div_ceil(interval(per_minute).as_nanos().max(1))
        });
        CallCounts {
            minute: minute.and_then(|it| u64::try_from(it).ok()).unwrap_or(0),
            day: if self.day == today().0 { self.calls_of_day } else { 0 },
            running: self.running.len() as u64,
        }
    }

    fn full_after_call(&self, per_minute: u64) -> Instant {
        let now = Instant::now();
        self.full_at.map_or(now, |it| it.max(now)) + interval(per_minute)
    }
}

/// The number of the day (UTC), and when it ends.
fn today() -> (u64, Duration) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    (since / DAY_SECONDS, Duration::from_secs(DAY_SECONDS - since % DAY_SECONDS))
}

/// The time after which a bucket has one more call.
fn interval(per_minute: u64) -> Duration {
    MINUTE / u32::try_from(per_minute).unwrap_or(u32::MAX).max(1)
}

fn apply(contents: &mut SessionContents, changes: &SessionChanges) {
    if let Some(record) = &changes.record {
        contents.session.record.clone_from(record);
    }
    for (stream, call) in &changes.opened {
        contents.open_calls.insert(*stream, call.clone());
        contents.session.last_stream = contents.session.last_stream.max(*stream);
    }
    let last = contents.events.last().map_or(0, |it| it.position);
    let new = changes.events.iter().filter(|it: &&StoredEvent| it.position > last);
    contents.events.extend(new.cloned());
    for stream in &changes.closed {
        contents.open_calls.remove(stream);
    }
    contents.events.retain(|it| it.position >= changes.trim_before);
}

#[async_trait]
impl StateStore for MemoryStore {
    async fn beat(&self, heartbeat: &Heartbeat) -> Result<FleetSnapshot, StoreError> {
        self.with(|contents| {
            let info = TtlValue::new(heartbeat.info.clone(), heartbeat.ttl);
            contents.replicas.insert(heartbeat.replica, info);
            let generation = *contents.generation.get_or_insert(heartbeat.new_generation);
            let values = |entries: &BTreeMap<String, TtlValue<Vec<u8>>>| {
                entries.iter().map(|(member, it)| (member.clone(), it.value.clone())).collect()
            };
            let lists = contents.lists.iter().map(|(list, it)| (*list, values(it))).collect();
            let is_known = heartbeat.known_lists == contents.lists_revision;
            FleetSnapshot {
                replicas: contents
                    .replicas
                    .iter()
                    .map(|(id, it)| (*id, it.value.clone()))
                    .collect(),
                generation,
                lists_revision: contents.lists_revision,
                lists: (!is_known).then_some(lists),
            }
        })
    }

    async fn leave(&self, replica: ReplicaId) -> Result<(), StoreError> {
        self.with(|contents| drop(contents.replicas.remove(&replica)))
    }

    async fn create_session(
        &self,
        id: &str,
        session: &StoredSession,
        ttl: Duration,
    ) -> Result<SessionWrite, StoreError> {
        self.with(|contents| {
            if contents.sessions.get(id).is_some_and(|it| it.value.session.epoch > session.epoch) {
                return SessionWrite::NotOwner;
            }
            let created = SessionContents {
                session: session.clone(),
                events: Vec::new(),
                open_calls: BTreeMap::new(),
            };
            contents.sessions.insert(id.to_owned(), TtlValue::new(created, ttl));
            SessionWrite::Written
        })
    }

    async fn find_session(&self, id: &str) -> Result<Option<StoredSession>, StoreError> {
        self.with(|contents| contents.sessions.get(id).map(|it| it.value.session.clone()))
    }

    async fn take_over(
        &self,
        id: &str,
        expected: Epoch,
        (owner, ttl): (ReplicaId, Duration),
    ) -> Result<Option<SessionContents>, StoreError> {
        self.with(|contents| {
            let found = contents.owned(id, expected).ok()?;
            found.expires_at = Instant::now() + ttl;
            found.value.session.owner = Some(owner);
            found.value.session.epoch += 1;
            Some(found.value.clone())
        })
    }

    async fn change_session(
        &self,
        id: &str,
        epoch: Epoch,
        (changes, ttl): (&SessionChanges, Duration),
    ) -> Result<SessionWrite, StoreError> {
        self.with(|contents| match contents.owned(id, epoch) {
            Ok(found) => {
                found.expires_at = Instant::now() + ttl;
                apply(&mut found.value, changes);
                SessionWrite::Written
            }
            Err(refused) => refused,
        })
    }

    async fn release_session(&self, id: &str, epoch: Epoch) -> Result<(), StoreError> {
        self.with(|contents| {
            if let Ok(found) = contents.owned(id, epoch) {
                found.value.session.owner = None;
            }
        })
    }

    async fn remove_session(&self, id: &str, epoch: Epoch) -> Result<(), StoreError> {
        self.with(|contents| {
            if contents.owned(id, epoch).is_ok() {
                contents.sessions.remove(id);
            }
        })
    }

    async fn put(&self, key: &str, value: &[u8], ttl: Duration) -> Result<(), StoreError> {
        let value = TtlValue::new(value.to_vec(), ttl);
        self.with(|contents| drop(contents.values.insert(key.to_owned(), value)))
    }

    async fn put_new(&self, key: &str, value: &[u8], ttl: Duration) -> Result<bool, StoreError> {
        self.with(|contents| {
            let is_new = !contents.values.contains_key(key);
            if is_new {
                contents.values.insert(key.to_owned(), TtlValue::new(value.to_vec(), ttl));
            }
            is_new
        })
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|contents| contents.values.get(key).map(|it| it.value.clone()))
    }

    async fn add_members(
        &self,
        key: &str,
        members: &[(String, Vec<u8>)],
        ttl: Duration,
    ) -> Result<(), StoreError> {
        self.with(|contents| {
            let empty = TtlValue::new(BTreeMap::new(), ttl);
            let set = contents.sets.entry(key.to_owned()).or_insert(empty);
            set.value.extend(members.iter().cloned());
            set.expires_at = Instant::now() + ttl;
        })
    }

    async fn members(&self, key: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        let values =
            |it: &TtlValue<BTreeMap<String, Vec<u8>>>| it.value.values().cloned().collect();
        self.with(|contents| contents.sets.get(key).map(values).unwrap_or_default())
    }

    async fn put_entry(
        &self,
        list: SharedList,
        (member, value): (&str, &[u8]),
        ttl: Duration,
    ) -> Result<(), StoreError> {
        self.with(|contents| {
            contents.lists_revision += 1;
            let entries = contents.lists.entry(list).or_default();
            match value.is_empty() {
                true => entries.remove(member),
                false => entries.insert(member.to_owned(), TtlValue::new(value.to_vec(), ttl)),
            };
        })
    }

    async fn take_tokens(
        &self,
        account: &str,
        request: TokenRequest,
    ) -> Result<TokenGrant, StoreError> {
        self.with(|contents| {
            let now = Instant::now();
            let token = Duration::from_secs(1) / request.per_second.max(1);
            let full_at = contents.buckets.get(account).copied().unwrap_or(now).max(now);
            let room = (now + Duration::from_secs(1)).saturating_duration_since(full_at);
            let available =
                u32::try_from(room.as_nanos() / token.as_nanos().max(1)).unwrap_or(u32::MAX);
            if available < request.at_least {
                return TokenGrant::RetryAfter(token * request.at_least - room);
            }
            let granted = available.min(request.at_most);
            contents.buckets.insert(account.to_owned(), full_at + token * granted);
            TokenGrant::Granted(granted)
        })
    }

    async fn start_call(
        &self,
        account: &str,
        charges: &[CallCharge],
        slot: (&str, Duration),
    ) -> Result<CallStart, StoreError> {
        let key = |it: &CallCharge| (account.to_owned(), it.quota.clone());
        self.with(|contents| {
            for (index, charge) in charges.iter().enumerate() {
                let counter = contents.call_counters.entry(key(charge)).or_default();
                if let Err((limit, retry_after)) = counter.check(charge) {
                    return CallStart::Exceeded { charge: index, limit, retry_after };
                }
            }
            for charge in charges {
                contents.call_counters.entry(key(charge)).or_default().add(charge, slot);
            }
            CallStart::Counted
        })
    }

    async fn renew_calls(
        &self,
        (account, quota): (&str, &str),
        slots: &[Arc<str>],
        ttl: Duration,
    ) -> Result<(), StoreError> {
        self.with(|contents| {
            let key = (account.to_owned(), quota.to_owned());
            let running = &mut contents.call_counters.entry(key).or_default().running;
            running.extend(slots.iter().map(|it| (it.clone(), TtlValue::new((), ttl))));
        })
    }

    async fn end_calls(
        &self,
        (account, quota): (&str, &str),
        slots: &[Arc<str>],
    ) -> Result<(), StoreError> {
        self.with(|contents| {
            let key = (account.to_owned(), quota.to_owned());
            if let Some(counter) = contents.call_counters.get_mut(&key) {
                counter.running.retain(|slot, _| !slots.contains(slot));
            }
        })
    }

    async fn call_counts(
        &self,
        account: &str,
        charges: &[CallCharge],
    ) -> Result<Vec<CallCounts>, StoreError> {
        self.with(|contents| {
            let counts = |it: &CallCharge| {
                let key = (account.to_owned(), it.quota.clone());
                contents.call_counters.get(&key).map(|counter| counter.counts(it))
            };
            charges.iter().map(|it| counts(it).unwrap_or_default()).collect()
        })
    }

    async fn lock(
        &self,
        name: &str,
        (holder, ttl): (&str, Duration),
    ) -> Result<Option<u64>, StoreError> {
        self.with(|contents| {
            if contents.locks.contains_key(name) {
                return None;
            }
            contents.locks.insert(name.to_owned(), TtlValue::new(holder.to_owned(), ttl));
            let fence = contents.fences.entry(name.to_owned()).or_default();
            *fence += 1;
            Some(*fence)
        })
    }

    async fn unlock(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        self.with(|contents| {
            if contents.locks.get(name).is_some_and(|it| it.value == holder) {
                contents.locks.remove(name);
            }
        })
    }
}

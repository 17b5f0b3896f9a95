//! A store in the memory of this process, for gateways that share it: several listeners of one program, and tests.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use switchboard_wire::shared::Shared;
use tokio::time::Instant;

use super::store::{
    Epoch, FleetSnapshot, Heartbeat, ReplicaId, SessionChanges, SessionContents, SessionWrite,
    SharedList, StateStore, StoreError, StoredEvent, StoredSession, TokenGrant, TokenRequest,
};

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
    lists: BTreeMap<SharedList, BTreeMap<String, TtlValue<Vec<u8>>>>,
    lists_revision: u64,
    /// When the bucket of an account is full again.
    buckets: HashMap<String, Instant>,
    locks: HashMap<String, TtlValue<String>>,
    fences: HashMap<String, u64>,
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
        self.locks.retain(|_, it| it.is_alive());
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

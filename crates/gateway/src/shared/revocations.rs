//! The principals and tokens that an administrator has revoked, on all replicas. The store has them; every replica keeps the
//! copy that it read last, and writes it again if the store has lost it. Without a store they are in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use switchboard_auth::resource_server::{AccessTokenError, AuthError, Denylist, Principal};
use switchboard_wire::shared::Shared;
use tokio::sync::watch;
use tracing::{info, warn};

use super::fleet::{FleetView, StoreStatus};
use super::key_digest::digest;
use super::shared_state::SharedState;
use super::store::{SharedList, SharedLists, StoreError};

/// How long a revocation lasts. Tokens of an issuer expire long before.
const REVOCATION_TTL: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long the last copy counts while the store is away. After that, tokens with an id are refused.
const MAX_COPY_AGE: Duration = Duration::from_secs(60);
/// The most revocations. Every replica reads them all when one changes.
const MAX_REVOCATIONS: usize = 10_000;
/// What revocations are sealed for.
const PURPOSE: &str = "revocation";

/// What is revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RevokedSubject {
    /// A principal, by its name as it is displayed: its tokens that were issued until now, or all of its requests if its
    /// credential does not say when it was issued.
    Principal(String),
    /// A token of an issuer, by its id (`jti`).
    Token(String),
}

/// Why something could not be revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevokeError {
    /// It holds on this replica only, until the store is back.
    #[error("the store cannot be reached: it holds on this replica only, until the store is back")]
    StoreAway,
    /// There are too many.
    #[error("there are {MAX_REVOCATIONS} revocations already")]
    TooMany,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Revocation {
    subject: RevokedSubject,
    /// In seconds since 1970.
    revoked_at: u64,
    /// The store does not have it yet.
    #[serde(skip)]
    is_unwritten: bool,
}

/// All revocations, by their names in the store.
#[derive(Debug, Default)]
struct Entries {
    by_member: BTreeMap<String, Revocation>,
    denylist: Denylist,
}

impl Entries {
    fn new(by_member: BTreeMap<String, Revocation>) -> Entries {
        let mut denylist = Denylist::default();
        for it in by_member.values() {
            match &it.subject {
                RevokedSubject::Principal(name) => denylist.add_principal(name, it.revoked_at),
                RevokedSubject::Token(id) => denylist.add_token(id),
            }
        }
        Entries { by_member, denylist }
    }
}

/// The revocations that this replica knows.
#[derive(Debug)]
pub(crate) struct RevocationList {
    shared: SharedState,
    /// Shared state: every request reads it, and a revocation holds before `revoke` returns.
    entries: Shared<Arc<Entries>>,
    /// Tells of changes.
    changed: watch::Sender<()>,
}

impl RevocationList {
    /// An empty list, and the future that reads the store's until the list is dropped.
    pub(crate) fn new(
        shared: SharedState,
    ) -> (Arc<RevocationList>, impl Future<Output = ()> + Send + 'static) {
        let list = Arc::new(RevocationList {
            shared,
            entries: Shared::default(),
            changed: watch::Sender::new(()),
        });
        let following = follow(Arc::downgrade(&list), list.changes());
        (list, following)
    }

    /// Tells when the list has changed.
    pub(crate) fn changes(&self) -> RevocationChanges {
        RevocationChanges(self.changed.subscribe())
    }

    /// May this principal send requests with its token?
    pub(crate) fn check(&self, principal: &Principal) -> Result<(), AuthError> {
        if self.entries.read(|it| it.denylist.denies(principal)) {
            return Err(AuthError::Token(AccessTokenError::Revoked));
        }
        match principal.token_id().is_some() && self.is_outdated() {
            true => Err(AuthError::RevocationsUnknown),
            false => Ok(()),
        }
    }

    /// Is the copy too old to rely on?
    fn is_outdated(&self) -> bool {
        match self.shared.fleet().store {
            StoreStatus::None | StoreStatus::Starting | StoreStatus::Connected => false,
            StoreStatus::Away { since } => since.elapsed() > MAX_COPY_AGE,
        }
    }

    /// Is this revoked?
    pub(crate) fn has(&self, subject: &RevokedSubject) -> bool {
        self.entries.read(|it| it.by_member.contains_key(&member(subject)))
    }

    /// Revokes a principal or a token. It holds here at once, and on the other replicas within a second.
    pub(crate) async fn revoke(&self, subject: RevokedSubject) -> Result<(), RevokeError> {
        if self.entries.read(|it| it.by_member.len()) >= MAX_REVOCATIONS && !self.has(&subject) {
            return Err(RevokeError::TooMany);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let is_shared = self.shared.store().is_some();
        let revocation = Revocation { subject, revoked_at: now, is_unwritten: is_shared };
        info!("a principal or a token is revoked");
        let key = member(&revocation.subject);
        self.change(|entries| drop(entries.insert(key.clone(), revocation.clone())));
        if !is_shared {
            return Ok(());
        }
        if self.write(&key, &revocation).await.is_err() {
            // The store may be back before a heartbeat has noticed that it was away.
            self.shared.report_failed_write();
            return Err(RevokeError::StoreAway);
        }
        self.change(|entries| {
            if let Some(written) = entries.get_mut(&key) {
                written.is_unwritten = false;
            }
        });
        Ok(())
    }

    /// Ends a revocation. Returns whether there was one.
    pub(crate) async fn restore(&self, subject: &RevokedSubject) -> Result<bool, RevokeError> {
        if !self.has(subject) {
            return Ok(false);
        }
        let key = member(subject);
        if let Some(store) = self.shared.store() {
            let removed = store.put_entry(SharedList::Revocations, (&key, b""), REVOCATION_TTL);
            removed.await.map_err(|_| RevokeError::StoreAway)?;
        }
        self.change(|entries| drop(entries.remove(&key)));
        Ok(true)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Revocation>)) {
        self.entries.update(|entries| {
            let mut by_member = entries.by_member.clone();
            change(&mut by_member);
            *entries = Arc::new(Entries::new(by_member));
        });
        let _no_clients = self.changed.send(());
    }

    async fn write(&self, key: &str, revocation: &Revocation) -> Result<(), StoreError> {
        let store = self.shared.store().ok_or(StoreError::Away)?;
        let text = serde_json::to_vec(revocation).expect("it has texts and numbers");
        let sealed = self.shared.sealer().seal_bytes(PURPOSE, &text);
        store.put_entry(SharedList::Revocations, (key, &sealed), REVOCATION_TTL).await
    }

    /// Writes revocations again: all of them, because the store has lost them or keys have changed, or those that the store
    /// could not take.
    async fn write_again(&self, which: Rewrite) {
        let entries = self.entries.get();
        for (key, revocation) in &entries.by_member {
            let is_due = match which {
                Rewrite::All => true,
                Rewrite::Unwritten => revocation.is_unwritten,
            };
            if is_due && self.write(key, revocation).await.is_err() {
                self.shared.report_failed_write();
                return;
            }
        }
    }

    /// Takes over what the store has. What it cannot have yet stays.
    fn read(&self, lists: &SharedLists) {
        let none = BTreeMap::new();
        let stored = lists.get(&SharedList::Revocations).unwrap_or(&none);
        let open = |(key, sealed): (&String, &Vec<u8>)| {
            let text = self.shared.sealer().unseal_bytes(PURPOSE, sealed);
            let read = text.and_then(|it| serde_json::from_slice::<Revocation>(&it).ok());
            if read.is_none() {
                warn!("a revocation is sealed with a key that this replica does not have");
            }
            (key.clone(), read)
        };
        let read: Vec<(String, Option<Revocation>)> = stored.iter().map(open).collect();
        let is_changed = self.entries.update(|entries| {
            let known = &entries.by_member;
            let kept = |(key, read): (String, Option<Revocation>)| {
                let revocation = read.or_else(|| known.get(&key).cloned())?;
                Some((key, revocation))
            };
            let mut by_member: BTreeMap<String, Revocation> =
                read.into_iter().filter_map(kept).collect();
            for (key, revocation) in known.iter().filter(|(_, it)| it.is_unwritten) {
                let written = by_member.get(key);
                if written.is_none_or(|it| it.revoked_at < revocation.revoked_at) {
                    by_member.insert(key.clone(), revocation.clone());
                }
            }
            let is_changed = by_member != *known;
            if is_changed {
                *entries = Arc::new(Entries::new(by_member));
            }
            is_changed
        });
        if is_changed {
            let _no_clients = self.changed.send(());
        }
    }
}

/// Which revocations are written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rewrite {
    All,
    Unwritten,
}

/// Tells when revocations change.
#[derive(Debug)]
pub(crate) struct RevocationChanges(watch::Receiver<()>);

impl RevocationChanges {
    /// Waits for the next change. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Completes with the end of the list, and so of its gateway. Cancel-safe.
    pub(crate) async fn ended(&mut self) {
        while self.0.changed().await.is_ok() {}
    }
}

/// The name of an entry in the store.
fn member(subject: &RevokedSubject) -> String {
    digest(&match subject {
        RevokedSubject::Principal(name) => format!("principal\0{name}"),
        RevokedSubject::Token(id) => format!("token\0{id}"),
    })
}

/// Reads the store's list when it changes, and writes it again when the store asks for all.
async fn follow(list: Weak<RevocationList>, mut changes: RevocationChanges) {
    let watched = list.upgrade().and_then(|it| {
        it.shared.store()?;
        let shared = &it.shared;
        Some((shared.watch_fleet(), shared.resync_signal(), shared.sealer().watch_keys()))
    });
    let Some((mut fleet, mut resync, mut keys)) = watched else { return };
    let mut read: Option<Arc<SharedLists>> = None;
    loop {
        {
            let Some(list) = list.upgrade() else { return };
            let view: Arc<FleetView> = fleet.borrow_and_update().clone();
            if resync.has_changed().unwrap_or(false) {
                resync.mark_unchanged();
                let has_new_key = keys.has_changed().unwrap_or(false);
                keys.mark_unchanged();
                let which = match has_new_key || view.is_recovering() {
                    true => Rewrite::All,
                    false => Rewrite::Unwritten,
                };
                list.write_again(which).await;
            }
            let is_new = read.as_ref().is_none_or(|it| !Arc::ptr_eq(it, &view.lists));
            // What the store has lost is there again when all replicas have written it.
            if is_new && !view.is_recovering() {
                list.read(&view.lists);
                read = Some(view.lists.clone());
            }
        }
        tokio::select! {
            changed = fleet.changed() => if changed.is_err() { return },
            () = changes.ended() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::shared::memory::MemoryStore;

    #[tokio::test(start_paused = true)]
    async fn the_last_copy_counts_for_a_minute_while_the_store_is_away() {
        let store = MemoryStore::default();
        let (shared, beating) = SharedState::open_in_memory(&store, "127.0.0.1:1");
        let (list, following) = RevocationList::new(shared.clone());
        let tasks = [tokio::spawn(beating), tokio::spawn(following)];
        let mut fleet = shared.watch_fleet();
        let mut wait_for = async |is_connected: bool| {
            let is_wanted =
                |it: &Arc<FleetView>| (it.store == StoreStatus::Connected) == is_connected;
            fleet.wait_for(is_wanted).await.expect("it beats");
        };
        wait_for(true).await;
        assert!(!list.is_outdated());
        store.set_away(true);
        wait_for(false).await;
        advance(MAX_COPY_AGE).await;
        assert!(!list.is_outdated());
        advance(Duration::from_secs(1)).await;
        assert!(list.is_outdated(), "a token with an id is refused from now on");
        store.set_away(false);
        wait_for(true).await;
        assert!(!list.is_outdated());
        drop((list, shared, fleet));
        for task in tasks {
            task.await.expect("it ends with the list");
        }
    }

    #[tokio::test]
    async fn without_a_store_revocations_are_in_memory_and_no_copy_is_outdated() {
        let (list, following) = RevocationList::new(SharedState::alone());
        following.await;
        let subject = RevokedSubject::Token("1".to_owned());
        let mut changes = list.changes();
        list.revoke(subject.clone()).await.expect("there is room");
        changes.next().await;
        assert!(list.has(&subject) && !list.is_outdated());
        assert!(!list.has(&RevokedSubject::Principal("1".to_owned())));
        assert_eq!(list.restore(&subject).await, Ok(true));
        assert_eq!(list.restore(&subject).await, Ok(false));
    }
}

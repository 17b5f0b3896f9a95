//! Locks logins in the store, so that only one replica refreshes a token at a time. A lock that its holder does not free
//! ends by itself; its number increases with each holder.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use switchboard_auth::token_store::LoginKey;
use switchboard_auth::token_store::shared_lock::{SharedLock, SharedLockFuture, SharedLocks};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::key_digest::digest;
use super::shared_state::{SharedState, WeakSharedState};
use super::store::ReplicaId;

/// How long a lock lasts: longer than a refresh, and shorter than other processes wait for the lock of the token file, which
/// the waiting process holds.
const LOCK_TTL: Duration = Duration::from_secs(40);
/// How long to wait for another holder. A lock of a holder that has gone has ended by then.
const MAX_WAIT: Duration = Duration::from_secs(45);
/// How long to wait for a store that is away.
const MAX_WAIT_AWAY: Duration = Duration::from_secs(5);
/// The delay between attempts.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The locks of logins of a gateway that opens its shared state later. Clones share it. Without a state, nothing is locked.
/// Does not keep the state alive: a host has these locks for as long as it exists, and a replica leaves before that.
#[derive(Debug, Clone, Default)]
pub struct LoginLocks(Arc<OnceLock<WeakSharedState>>);

impl LoginLocks {
    /// Locks in this state from now on, until its last clone is dropped.
    pub fn set(&self, state: &SharedState) {
        let _set_once = self.0.set(state.downgrade());
    }
}

/// Frees the lock when it is dropped.
struct LoginLock {
    state: SharedState,
    name: String,
    holder: String,
}

impl Drop for LoginLock {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (state, name) = (self.state.clone(), std::mem::take(&mut self.name));
        let holder = std::mem::take(&mut self.holder);
        // Ends within the limits of one operation; the lock would end by itself.
        let _detached = runtime.spawn(async move {
            if let Some(store) = state.store() {
                let _ends_by_itself = store.unlock(&name, &holder).await;
            }
        });
    }
}

impl SharedLocks for LoginLocks {
    fn lock<'a>(&'a self, key: &'a LoginKey) -> SharedLockFuture<'a> {
        Box::pin(async move {
            let state = self.0.get()?.upgrade()?;
            let store = state.store()?;
            let key = format!("{}\0{}\0{}", key.server, key.issuer, key.client);
            let name = format!("login:{}", digest(&key));
            let ReplicaId(number) = ReplicaId::random();
            let holder = format!("{}-{number:x}", state.me().id);
            let started = Instant::now();
            let mut away_since = None;
            loop {
                match store.lock(&name, (&holder, LOCK_TTL)).await {
                    Ok(Some(fence)) => {
                        debug!(fence, "login locked for all replicas");
                        let state = state.clone();
                        return Some(SharedLock::new(LoginLock { state, name, holder }));
                    }
                    Ok(None) => away_since = None,
                    Err(_) => {
                        let since: Instant = *away_since.get_or_insert_with(Instant::now);
                        if since.elapsed() >= MAX_WAIT_AWAY {
                            warn!("a login is refreshed without the lock of the other replicas");
                            return None;
                        }
                    }
                }
                if started.elapsed() >= MAX_WAIT {
                    warn!("another replica has locked a login for too long");
                    return None;
                }
                sleep(RETRY_DELAY).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::shared::memory::MemoryStore;

    /// A replica, and the future that keeps its state current.
    fn replica(store: &MemoryStore) -> (SharedState, impl Future<Output = ()> + use<>) {
        SharedState::open_in_memory(store, "127.0.0.1:1")
    }

    fn locks(state: &SharedState) -> LoginLocks {
        let locks = LoginLocks::default();
        locks.set(state);
        locks
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_can_lock_logins_does_not_keep_its_replica_from_leaving() {
        let (state, running) = replica(&MemoryStore::default());
        let locks = locks(&state);
        drop(state);
        timeout(Duration::from_secs(10), running).await.expect("it leaves");
        drop(locks);
    }

    #[tokio::test(start_paused = true)]
    async fn one_replica_refreshes_at_a_time_and_all_without_a_store() {
        let key = |server: &str| LoginKey {
            server: server.to_owned(),
            issuer: "https://i".to_owned(),
            client: String::new(),
        };
        let (one, other) = (key("https://one"), key("https://other"));
        let store = MemoryStore::default();
        let (states, _not_run): (Vec<_>, Vec<_>) =
            [replica(&store), replica(&store)].into_iter().unzip();
        let (first, second) = (locks(&states[0]), locks(&states[1]));
        let held = first.lock(&one).await.expect("it is free");
        assert!(second.lock(&other).await.is_some(), "another login");
        let second_lock = second.lock(&one);
        tokio::pin!(second_lock);
        let waited = timeout(Duration::from_secs(10), &mut second_lock).await;
        assert!(waited.is_err(), "it is taken");
        drop(held);
        assert!(second_lock.await.is_some());
        store.set_away(true);
        let started = Instant::now();
        assert!(first.lock(&one).await.is_none());
        assert!(started.elapsed() >= MAX_WAIT_AWAY, "it waits first");
        assert!(LoginLocks::default().lock(&one).await.is_none(), "there is no store");
    }
}

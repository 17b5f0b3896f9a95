//! What the gateway uses of the shared state: who this replica is, the keys, the store if there is one, and what is known
//! of the other replicas.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;

use super::envelope::AcceptedExchanges;
use super::fleet::{
    self, BeatRequests, FleetView, FleetWork, Member, Resync, SessionCount, StoreStatus,
};
use super::memory::MemoryStore;
use super::rate::RatePortions;
use super::redis::RedisStore;
use super::seal_keys::SealKeyFiles;
use super::store::{ReplicaId, StateStore};
use crate::sealed_state::StateSealer;

/// How long a heartbeat may take that a request waits for.
const BEAT_TIMEOUT: Duration = Duration::from_secs(1);
/// The most sessions that are written again at the same time.
const MAX_REWRITES: usize = 32;

/// Are sessions opened while the store is away? They stay on this replica then, until it is back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionsWhileAway {
    /// Clients are told to try again.
    #[default]
    Refused,
    /// Sessions are opened here, and written to the store when it is back.
    Local,
}

/// The store.
#[derive(Debug)]
pub enum StoreChoice {
    /// None: replicas share only their keys.
    None,
    /// In the memory of this process.
    Memory(MemoryStore),
    /// Redis or Valkey.
    Redis(Box<RedisStore>),
}

/// The state that this replica shares with others. Clones share it.
#[derive(Clone)]
pub struct SharedState(Arc<Inner>);

struct Inner {
    me: Member,
    sealer: StateSealer,
    store: Option<Arc<dyn StateStore>>,
    fleet: watch::Receiver<Arc<FleetView>>,
    resync: watch::Receiver<Resync>,
    /// Limits how many sessions are written again at the same time.
    rewrites: Semaphore,
    rates: RatePortions,
    exchanges: AcceptedExchanges,
    /// How often a session could not be written.
    failed_writes: Arc<AtomicU64>,
    beat_requests: Arc<BeatRequests>,
    session_count: SessionCount,
    while_away: SessionsWhileAway,
}

impl fmt::Debug for SharedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedState({})", self.0.me.id)
    }
}

/// The same state, which this does not keep alive: a replica leaves the others when its last [`SharedState`] is dropped.
#[derive(Debug, Clone)]
pub(crate) struct WeakSharedState(Weak<Inner>);

impl WeakSharedState {
    /// The state; None after the replica has left.
    pub(crate) fn upgrade(&self) -> Option<SharedState> {
        self.0.upgrade().map(SharedState)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.me.id)
    }
}

/// A replica as it is named in sealed values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicaAddress {
    pub(crate) id: ReplicaId,
    /// Empty if no other replica can reach it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) address: String,
}

impl SharedState {
    /// The state of one process, which shares nothing.
    pub fn alone() -> SharedState {
        let (_, fleet) = watch::channel(Arc::new(FleetView::new(StoreStatus::None)));
        SharedState(Arc::new(Inner {
            me: Member { id: ReplicaId::random(), address: String::new() },
            sealer: StateSealer::new(),
            store: None,
            fleet,
            resync: watch::channel(Resync::default()).1,
            rewrites: Semaphore::new(MAX_REWRITES),
            rates: RatePortions::default(),
            exchanges: AcceptedExchanges::default(),
            failed_writes: Arc::default(),
            beat_requests: Arc::default(),
            session_count: SessionCount::default(),
            while_away: SessionsWhileAway::Refused,
        }))
    }

    /// The state of a replica that others reach at an address (`host:port`), and the future that keeps it current until
    /// the last clone is dropped.
    pub fn open(
        keys: &SealKeyFiles,
        store: StoreChoice,
        address: &str,
        while_away: SessionsWhileAway,
    ) -> (SharedState, impl Future<Output = ()> + Send + 'static + use<>) {
        let store: Option<Arc<dyn StateStore>> = match store {
            StoreChoice::None => None,
            StoreChoice::Memory(store) => Some(Arc::new(store)),
            StoreChoice::Redis(store) => Some(Arc::new(*store)),
        };
        let status = match store {
            None => StoreStatus::None,
            Some(_) => StoreStatus::Starting,
        };
        let me = Member { id: ReplicaId::random(), address: address.to_owned() };
        let (publish, fleet) = watch::channel(Arc::new(FleetView::new(status)));
        let (resync_sender, resync) = watch::channel(Resync::default());
        let sealer = keys.sealer();
        let failed_writes = Arc::new(AtomicU64::new(0));
        let beat_requests: Arc<BeatRequests> = Arc::default();
        let session_count = SessionCount::default();
        let heartbeats = store.clone().map(|store| {
            let (failed_writes, beat_requests) = (failed_writes.clone(), beat_requests.clone());
            let session_count = session_count.clone();
            let work = FleetWork { failed_writes, beat_requests, session_count };
            let outcome = (publish, resync_sender);
            fleet::run(me.clone(), (store, sealer.clone()), outcome, work)
        });
        let state = SharedState(Arc::new(Inner {
            me,
            sealer,
            store,
            fleet,
            resync,
            rewrites: Semaphore::new(MAX_REWRITES),
            rates: RatePortions::default(),
            exchanges: AcceptedExchanges::default(),
            failed_writes,
            beat_requests,
            session_count,
            while_away,
        }));
        let running = async move {
            if let Some(heartbeats) = heartbeats {
                heartbeats.await;
            }
        };
        (state, running)
    }

    pub(crate) fn downgrade(&self) -> WeakSharedState {
        WeakSharedState(Arc::downgrade(&self.0))
    }

    /// A replica of a test, whose store is in memory.
    #[cfg(test)]
    pub(crate) fn open_in_memory(
        store: &MemoryStore,
        address: &str,
    ) -> (SharedState, impl Future<Output = ()> + Send + use<>) {
        let folder = tempfile::tempdir().expect("a temp folder");
        let keys = crate::shared::seal_keys::test_keys(folder.path());
        let store = StoreChoice::Memory(store.clone());
        SharedState::open(&keys, store, address, SessionsWhileAway::Refused)
    }

    pub(crate) fn me(&self) -> &Member {
        &self.0.me
    }

    /// This replica as it is named in sealed values.
    pub(crate) fn my_address(&self) -> ReplicaAddress {
        ReplicaAddress { id: self.0.me.id, address: self.0.me.address.clone() }
    }

    pub(crate) fn sealer(&self) -> &StateSealer {
        &self.0.sealer
    }

    /// The store, if there is one.
    pub(crate) fn store(&self) -> Option<&dyn StateStore> {
        self.0.store.as_deref()
    }

    /// The store, for a task that may outlive a borrow.
    pub(crate) fn owned_store(&self) -> Option<Arc<dyn StateStore>> {
        self.0.store.clone()
    }

    /// What is known of the other replicas and of the store.
    pub(crate) fn fleet(&self) -> Arc<FleetView> {
        self.0.fleet.borrow().clone()
    }

    /// What a heartbeat that begins now says; None if it does not come in time.
    pub(crate) async fn beat_now(&self) -> Option<Arc<FleetView>> {
        let mut fleet = self.watch_fleet();
        let number = self.0.beat_requests.add();
        timeout(BEAT_TIMEOUT, async {
            loop {
                let now = fleet.borrow_and_update().clone();
                if now.beats_requested >= number {
                    return Some(now);
                }
                fleet.changed().await.ok()?;
            }
        })
        .await
        .ok()?
    }

    /// The same, now and after each change.
    pub(crate) fn watch_fleet(&self) -> watch::Receiver<Arc<FleetView>> {
        self.0.fleet.clone()
    }

    /// Changes when the store has come back, or has lost what it held.
    pub(crate) fn resync_signal(&self) -> watch::Receiver<Resync> {
        self.0.resync.clone()
    }

    /// Waits until a session may be written again.
    pub(crate) async fn rewrite_slot(&self) -> Option<SemaphorePermit<'_>> {
        self.0.rewrites.acquire().await.ok()
    }

    /// A session could not be written: it is written again when the store can be reached.
    pub(crate) fn report_failed_write(&self) {
        self.0.failed_writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets how many sessions this replica runs, for what it tells the others. Only the first call has an effect.
    pub(crate) fn set_session_count(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        let _already_set = self.0.session_count.set(Box::new(count));
    }

    pub(crate) fn exchanges(&self) -> &AcceptedExchanges {
        &self.0.exchanges
    }

    pub(crate) fn sessions_while_away(&self) -> SessionsWhileAway {
        self.0.while_away
    }

    /// Takes tokens of an account's request rate, which all replicas share.
    pub(crate) async fn take_tokens(
        &self,
        account: &Arc<str>,
        (per_second, count): (u32, usize),
    ) -> Result<(), Duration> {
        let Some(store) = self.store() else { return Ok(()) };
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let replicas = self.fleet().alive.len();
        self.0.rates.take(store, account, (per_second, count), replicas).await
    }
}

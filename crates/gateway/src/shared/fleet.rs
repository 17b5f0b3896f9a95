//! Who is alive: every replica tells the store so, and reads the others. Also the state of the store itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::rand;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::store::{Heartbeat, ReplicaId, SharedLists, StateStore, StoreError};
use crate::sealed_state::{SealKeys, StateSealer};

/// The interval of heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// How long a replica counts as alive after its last heartbeat.
const HEARTBEAT_TTL: Duration = Duration::from_secs(5);
/// How long the address of a replica that has gone is remembered.
const ADDRESS_TTL: Duration = Duration::from_secs(3600);
/// How long after the store has lost its contents the replicas need to write their sessions again.
const RECOVERY_TIME: Duration = Duration::from_secs(10);
/// How long leaving may take.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);
/// What descriptions of replicas are sealed for.
const PURPOSE: &str = "replica";

/// A replica and the address at which the others reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: ReplicaId,
    pub(crate) address: String,
}

/// Is the store there?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreStatus {
    /// None is configured.
    None,
    /// Not known yet: the first heartbeat is under way.
    Starting,
    Connected,
    Away {
        since: Instant,
    },
}

/// What a replica knows of the others.
#[derive(Debug, Clone)]
pub(crate) struct FleetView {
    pub(crate) store: StoreStatus,
    /// The addresses of the replicas that are alive, this one included.
    pub(crate) alive: BTreeMap<ReplicaId, String>,
    /// The addresses of all that were alive lately.
    known: BTreeMap<ReplicaId, (String, Instant)>,
    /// The lists that replicas share, as last read.
    pub(crate) lists: Arc<SharedLists>,
    generation: Option<u64>,
    lists_revision: u64,
    /// When the store was found to have lost what it held.
    lost_contents_at: Option<Instant>,
}

impl FleetView {
    pub(crate) fn new(store: StoreStatus) -> FleetView {
        FleetView {
            store,
            alive: BTreeMap::new(),
            known: BTreeMap::new(),
            lists: Arc::default(),
            generation: None,
            lists_revision: 0,
            lost_contents_at: None,
        }
    }

    /// The last known address of a replica.
    pub(crate) fn address(&self, id: ReplicaId) -> Option<&str> {
        self.known.get(&id).map(|it| it.0.as_str())
    }

    /// Was the replica alive, and is it known not to be any more?
    pub(crate) fn has_stopped(&self, id: ReplicaId) -> bool {
        self.store == StoreStatus::Connected
            && self.known.contains_key(&id)
            && !self.alive.contains_key(&id)
    }

    /// May the store lack sessions that exist? Then no session may be called unknown.
    pub(crate) fn is_recovering(&self) -> bool {
        self.lost_contents_at.is_some_and(|it| it.elapsed() < RECOVERY_TIME)
    }
}

/// Sends heartbeats until nothing watches the fleet any more, then leaves it. `resync` counts how often the store came
/// back or lost its contents: what belongs there must then be written again.
pub(crate) async fn run(
    me: Member,
    (store, sealer): (Arc<dyn StateStore>, StateSealer),
    (published, resync): (watch::Sender<Arc<FleetView>>, watch::Sender<u64>),
    failed_writes: Arc<AtomicU64>,
) {
    let mut known_failures = 0;
    let mut beats = interval(HEARTBEAT_INTERVAL);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut view = FleetView::clone(&published.borrow());
    let mut resyncs = 0;
    let mut keys = sealer.watch_keys();
    loop {
        tokio::select! {
            _ = beats.tick() => {}
            () = new_key(&mut keys) => {
                // All is sealed again, so that the old key can go.
                resyncs += 1;
                let _no_sessions = resync.send(resyncs);
            }
            () = published.closed() => break,
        }
        let mut generation = [0; 8];
        rand::fill(&mut generation).expect("the system has random numbers");
        let heartbeat = Heartbeat {
            replica: me.id,
            info: sealer.seal_bytes(PURPOSE, me.address.as_bytes()),
            ttl: HEARTBEAT_TTL,
            // Positive numbers of a size that every client of the store can read.
            new_generation: u64::from_be_bytes(generation) >> 12,
            known_lists: view.lists_revision,
        };
        let was = view.store;
        // Counted before the heartbeat, so that none is missed that fails during it.
        let failures = failed_writes.load(Ordering::Relaxed);
        match store.beat(&heartbeat).await {
            Ok(snapshot) => {
                let is_lost = view.generation.is_some_and(|it| it != snapshot.generation);
                if is_lost {
                    warn!("the store has lost what it held: sessions are written again");
                    view.lost_contents_at = Some(Instant::now());
                }
                view.generation = Some(snapshot.generation);
                if let Some(lists) = snapshot.lists {
                    view.lists = Arc::new(lists);
                }
                view.lists_revision = snapshot.lists_revision;
                view.set_alive(&snapshot.replicas, &sealer);
                view.store = StoreStatus::Connected;
                let has_failed = failures != known_failures;
                known_failures = failures;
                if is_lost || has_failed || matches!(was, StoreStatus::Away { .. }) {
                    resyncs += 1;
                    let _no_sessions = resync.send(resyncs);
                }
                if was != StoreStatus::Connected {
                    info!(replicas = view.alive.len(), "the store is in use");
                }
            }
            Err(error) => view.set_away(&error),
        }
        let _no_readers = published.send(Arc::new(view.clone()));
    }
    let _best_effort = timeout(LEAVE_TIMEOUT, store.leave(me.id)).await;
}

/// Completes when the keys have changed.
async fn new_key(keys: &mut watch::Receiver<SealKeys>) {
    if keys.changed().await.is_err() {
        std::future::pending().await
    }
}

impl FleetView {
    fn set_alive(&mut self, sealed: &BTreeMap<ReplicaId, Vec<u8>>, sealer: &StateSealer) {
        let open = |(id, info): (&ReplicaId, &Vec<u8>)| {
            let address = sealer.unseal_bytes(PURPOSE, info)?;
            Some((*id, String::from_utf8(address).ok()?))
        };
        let alive: BTreeMap<ReplicaId, String> = sealed.iter().filter_map(open).collect();
        if alive.len() < sealed.len() && self.alive.len() != alive.len() {
            warn!("a replica uses other seal keys; it is not reached from here");
        }
        let now = Instant::now();
        for (id, address) in &alive {
            self.known.insert(*id, (address.clone(), now));
        }
        self.known.retain(|_, (_, seen)| seen.elapsed() < ADDRESS_TTL);
        self.alive = alive;
    }

    fn set_away(&mut self, error: &StoreError) {
        match self.store {
            StoreStatus::Away { .. } | StoreStatus::None => {}
            StoreStatus::Starting | StoreStatus::Connected => {
                warn!(cause = %error, "the store is away: sessions of this replica go on");
                self.store = StoreStatus::Away { since: Instant::now() };
            }
        }
    }
}

//! Who is alive: every replica tells the store so, and reads the others. Also the state of the store itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tracing::{info, warn};

use super::store::{Heartbeat, ReplicaId, SharedLists, StateStore, StoreError};
use crate::sealed_state::{SealKeys, StateSealer};

/// The interval of heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// The longest delay before failed writes are repeated.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// The least time between heartbeats that are requested.
const MIN_BEAT_DELAY: Duration = Duration::from_millis(20);
/// How long a replica counts as alive after its last heartbeat.
const HEARTBEAT_TTL: Duration = Duration::from_secs(5);
/// How long the address of a replica that has gone is remembered.
const ADDRESS_TTL: Duration = Duration::from_secs(3600);
/// How long the replicas need to write their sessions after the store has come back, or has lost its contents.
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

/// What a replica says of itself with each heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberInfo {
    pub(crate) address: String,
    pub(crate) version: String,
    /// The sessions that it runs.
    pub(crate) sessions: u64,
    /// When it started, in seconds since 1970.
    pub(crate) since: u64,
}

/// The number of sessions of this replica, from the gateway that runs them.
pub(crate) type SessionCount = Arc<OnceLock<Box<dyn Fn() -> u64 + Send + Sync>>>;

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
    /// The replicas that are alive, this one included.
    pub(crate) alive: BTreeMap<ReplicaId, MemberInfo>,
    /// The addresses of all that were alive lately.
    known: BTreeMap<ReplicaId, (String, Instant)>,
    /// The lists that replicas share, as last read.
    pub(crate) lists: Arc<SharedLists>,
    generation: Option<u64>,
    lists_revision: u64,
    /// When the store came back, or was found to have lost what it held.
    incomplete_since: Option<Instant>,
    /// How many heartbeats had been requested when this one began.
    pub(crate) beats_requested: u64,
}

/// Requests for a heartbeat at once.
#[derive(Debug, Default)]
pub(crate) struct BeatRequests {
    count: AtomicU64,
    added: Notify,
}

impl BeatRequests {
    /// Adds a request, and returns its number.
    pub(crate) fn add(&self) -> u64 {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        self.added.notify_one();
        number
    }

    /// The number of the last request.
    fn last(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }
}

/// What the heartbeats do for the rest of the replica.
pub(crate) struct FleetWork {
    /// How often a session could not be written.
    pub(crate) failed_writes: Arc<AtomicU64>,
    pub(crate) beat_requests: Arc<BeatRequests>,
    pub(crate) session_count: SessionCount,
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
            incomplete_since: None,
            beats_requested: 0,
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
        self.incomplete_since.is_some_and(|it| it.elapsed() < RECOVERY_TIME)
    }
}

/// What sessions have to write again. Each number counts how often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Resync {
    /// All of them: the store came back or lost its contents, the keys have changed, or this replica did not run for so
    /// long that others may have taken its sessions over.
    pub(crate) all: u64,
    /// Those that the store lacks something of, because a write has failed.
    pub(crate) behind: u64,
}

/// When to try again after writes have failed although the store responds: it may refuse them for long.
struct FailedWrites {
    counter: Arc<AtomicU64>,
    known: u64,
    delay: Duration,
    next: Instant,
}

impl FailedWrites {
    fn new(counter: Arc<AtomicU64>) -> FailedWrites {
        FailedWrites { counter, known: 0, delay: Duration::ZERO, next: Instant::now() }
    }

    fn count(&self) -> u64 {
        self.counter.load(Ordering::Relaxed)
    }

    /// Are sessions that are behind to be written again now? `count` is that before the last heartbeat.
    fn is_due(&mut self, count: u64, now: Instant) -> bool {
        if count == self.known {
            if now >= self.next {
                // The last attempt had no failure.
                self.delay = Duration::ZERO;
            }
            return false;
        }
        if now < self.next {
            return false;
        }
        self.known = count;
        self.delay = (self.delay * 2).clamp(HEARTBEAT_INTERVAL, MAX_RETRY_DELAY);
        self.next = now + self.delay;
        true
    }
}

/// Sends heartbeats until nothing watches the fleet any more, then leaves it. Says through `resync` what belongs into the
/// store and must be written again.
pub(crate) async fn run(
    me: Member,
    (store, sealer): (Arc<dyn StateStore>, StateSealer),
    (published, resync): (watch::Sender<Arc<FleetView>>, watch::Sender<Resync>),
    work: FleetWork,
) {
    let FleetWork { failed_writes, beat_requests, session_count } = work;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut failed_writes = FailedWrites::new(failed_writes);
    let mut last_beat = Instant::now();
    let mut beats = interval(HEARTBEAT_INTERVAL);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut view = FleetView::clone(&published.borrow());
    let mut resyncs = Resync::default();
    let mut keys = sealer.watch_keys();
    loop {
        tokio::select! {
            _ = beats.tick() => {}
            () = beat_requests.added.notified() => sleep_until(last_beat + MIN_BEAT_DELAY).await,
            () = new_key(&mut keys) => {
                // All is sealed again, so that the old key can go.
                resyncs.all += 1;
                let _no_sessions = resync.send(resyncs);
            }
            () = published.closed() => break,
        }
        let was_suspended = last_beat.elapsed() > HEARTBEAT_TTL;
        last_beat = Instant::now();
        let requested = beat_requests.last();
        let mut generation = [0; 8];
        rand::fill(&mut generation).expect("the system has random numbers");
        let info = MemberInfo {
            address: me.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sessions: session_count.get().map_or(0, |count| count()),
            since,
        };
        let info = serde_json::to_vec(&info).expect("it has texts and numbers");
        let heartbeat = Heartbeat {
            replica: me.id,
            info: sealer.seal_bytes(PURPOSE, &info),
            ttl: HEARTBEAT_TTL,
            // Positive numbers of a size that every client of the store can read.
            new_generation: u64::from_be_bytes(generation) >> 12,
            known_lists: view.lists_revision,
        };
        let was = view.store;
        // Counted before the heartbeat, so that none is missed that fails during it.
        let failures = failed_writes.count();
        match store.beat(&heartbeat).await {
            Ok(snapshot) => {
                let is_lost = view.generation.is_some_and(|it| it != snapshot.generation);
                if is_lost {
                    warn!("the store has lost what it held: sessions are written again");
                }
                let was_away = matches!(was, StoreStatus::Away { .. });
                if is_lost || was_away {
                    view.incomplete_since = Some(Instant::now());
                }
                view.generation = Some(snapshot.generation);
                if let Some(lists) = snapshot.lists {
                    view.lists = Arc::new(lists);
                }
                // Revisions begin again in a store that has lost its contents: the lists are read with the next heartbeat.
                view.lists_revision = if is_lost { 0 } else { snapshot.lists_revision };
                view.set_alive(&snapshot.replicas, &sealer);
                view.store = StoreStatus::Connected;
                if failed_writes.is_due(failures, Instant::now()) {
                    resyncs.behind += 1;
                    let _no_sessions = resync.send(resyncs);
                }
                if is_lost || was_away || was_suspended {
                    resyncs.all += 1;
                    let _no_sessions = resync.send(resyncs);
                }
                if was != StoreStatus::Connected {
                    info!(replicas = view.alive.len(), "the store is in use");
                }
            }
            Err(error) => view.set_away(&error),
        }
        view.beats_requested = requested;
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
            let info = sealer.unseal_bytes(PURPOSE, info)?;
            Some((*id, serde_json::from_slice(&info).ok()?))
        };
        let alive: BTreeMap<ReplicaId, MemberInfo> = sealed.iter().filter_map(open).collect();
        if alive.len() < sealed.len() && self.alive.len() != alive.len() {
            warn!("a replica uses other seal keys; it is not reached from here");
        }
        let now = Instant::now();
        for (id, info) in &alive {
            self.known.insert(*id, (info.address.clone(), now));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_that_fail_again_and_again_are_repeated_less_and_less_often() {
        let counter = Arc::new(AtomicU64::new(0));
        let mut failed = FailedWrites::new(counter.clone());
        let start = Instant::now();
        let mut repeated = Vec::new();
        for beat in 0..100 {
            let now = start + HEARTBEAT_INTERVAL * beat;
            // The store refuses every write, of which there is one between two heartbeats.
            counter.fetch_add(1, Ordering::Relaxed);
            if failed.is_due(failed.count(), now) {
                repeated.push(beat);
            }
        }
        assert_eq!(repeated, [0, 1, 3, 7, 15, 31, 63]);
        let later = start + HEARTBEAT_INTERVAL * 200;
        assert!(failed.is_due(failed.count(), later), "the last failure is not forgotten");
        assert!(!failed.is_due(failed.count(), later), "once");
        assert!(!failed.is_due(failed.count(), later + MAX_RETRY_DELAY), "it works again");
        counter.fetch_add(1, Ordering::Relaxed);
        assert!(failed.is_due(failed.count(), later + MAX_RETRY_DELAY + HEARTBEAT_INTERVAL));
        assert_eq!(failed.delay, HEARTBEAT_INTERVAL);
    }
}

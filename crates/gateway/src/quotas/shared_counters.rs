//! Counters that all replicas of a gateway share in their store. A running call has a slot there with a lease: one task
//! renews the slots of this replica and ends them, so that those of a replica that has died end by themselves. While the
//! store is away, each replica allows its part of every limit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use super::local_counters::LocalCounters;
use super::{
    QuotaCharge, QuotaCounters, QuotaExcess, QuotaFuture, QuotaLimit, QuotaSlot, QuotaUse,
    QuotaUseFuture,
};
use crate::shared::fleet::FleetView;
use crate::shared::key_digest::digest;
use crate::shared::shared_state::SharedState;
use crate::shared::store::{CallCharge, CallLimit, CallStart, ReplicaId, StateStore};

/// How long a call counts as running after its slot was last renewed.
const LEASE: Duration = Duration::from_secs(15);
/// The interval at which slots are renewed.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
/// The most slots that are ended together.
const BATCH: usize = 1000;

/// Counters in a store.
#[derive(Debug)]
pub(crate) struct SharedCounters {
    store: Arc<dyn StateStore>,
    fleet: watch::Receiver<Arc<FleetView>>,
    me: ReplicaId,
    next_slot: AtomicU64,
    /// The calls that run here, and the counters while the store is away.
    local: LocalCounters,
    /// Bounded by the calls that run: each sends two.
    events: mpsc::UnboundedSender<SlotEvent>,
}

/// A running call in the store.
#[derive(Debug, Clone)]
struct Slot {
    id: Arc<str>,
    account: Arc<str>,
    quotas: Arc<[String]>,
}

#[derive(Debug)]
enum SlotEvent {
    Started(Slot),
    Ended(Slot),
}

/// Ends the slot of a call in the store when it is dropped.
#[derive(Debug)]
struct SlotGuard {
    slot: Option<Slot>,
    events: mpsc::UnboundedSender<SlotEvent>,
}

impl SlotGuard {
    /// The call runs: its slot is renewed from now on.
    fn start(&self) {
        if let Some(slot) = &self.slot {
            let _at_the_end = self.events.send(SlotEvent::Started(slot.clone()));
        }
    }

    /// The call was refused: the store has no slot of it.
    fn discard(mut self) {
        self.slot = None;
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let _at_the_end = self.events.send(SlotEvent::Ended(slot));
        }
    }
}

impl SharedCounters {
    /// The counters of a replica that has a store, and the future that renews its slots. It ends with the counters and the
    /// last call.
    pub(crate) fn new(
        shared: &SharedState,
    ) -> Option<(SharedCounters, impl Future<Output = ()> + Send + 'static)> {
        let (events, received) = mpsc::unbounded_channel();
        let store = shared.owned_store()?;
        let renewing = keep_slots(store.clone(), received);
        let counters = SharedCounters {
            store,
            fleet: shared.watch_fleet(),
            me: shared.me().id,
            next_slot: AtomicU64::new(0),
            local: LocalCounters::default(),
            events,
        };
        Some((counters, renewing))
    }

    async fn start(&self, charges: &[QuotaCharge]) -> Result<QuotaSlot, QuotaExcess> {
        let Some(first) = charges.first() else { return Ok(QuotaSlot::new(())) };
        // All charges of a call are of one principal.
        let account: Arc<str> = digest(&first.key.principal).into();
        let stored: Vec<CallCharge> = charges.iter().map(stored_charge).collect();
        let number = self.next_slot.fetch_add(1, Ordering::Relaxed);
        let slot = Slot {
            id: format!("{}:{number}", self.me).into(),
            account: account.clone(),
            quotas: stored.iter().map(|it| it.quota.clone()).collect(),
        };
        // A request that is cancelled while the store counts it has a slot that ends.
        let guard = SlotGuard { slot: Some(slot.clone()), events: self.events.clone() };
        let local = match self.store.start_call(&account, &stored, (&slot.id, LEASE)).await {
            Ok(CallStart::Counted) => self.local.count_running(charges),
            Ok(CallStart::Exceeded { charge, limit, retry_after }) => {
                guard.discard();
                return Err(QuotaExcess { charge, limit: quota_limit(limit), retry_after });
            }
            Err(_) => {
                let shares = self.shares(charges);
                match self.local.start_call(&shares).await {
                    Ok(local) => local,
                    Err(excess) => {
                        guard.discard();
                        return Err(excess);
                    }
                }
            }
        };
        guard.start();
        Ok(QuotaSlot::new((local, guard)))
    }

    /// The part of each limit that this replica allows while the store is away.
    fn shares(&self, charges: &[QuotaCharge]) -> Vec<QuotaCharge> {
        let replicas = u64::try_from(self.fleet.borrow().alive.len()).unwrap_or(u64::MAX).max(1);
        let share = |limit: Option<u64>| limit.map(|it| (it / replicas).max(it.min(1)));
        let of_charge = |it: &QuotaCharge| QuotaCharge {
            key: it.key.clone(),
            per_minute: share(it.per_minute),
            per_day: share(it.per_day),
            concurrent: share(it.concurrent),
        };
        charges.iter().map(of_charge).collect()
    }

    async fn counts(&self, charges: &[QuotaCharge]) -> Vec<QuotaUse> {
        let Some(first) = charges.first() else { return Vec::new() };
        let stored: Vec<CallCharge> = charges.iter().map(stored_charge).collect();
        match self.store.call_counts(&digest(&first.key.principal), &stored).await {
            Ok(counts) => counts
                .into_iter()
                .map(|it| QuotaUse { minute: it.minute, day: it.day, running: it.running })
                .collect(),
            Err(_) => self.local.usage(charges).await,
        }
    }
}

impl QuotaCounters for SharedCounters {
    fn start_call<'a>(&'a self, charges: &'a [QuotaCharge]) -> QuotaFuture<'a> {
        Box::pin(self.start(charges))
    }

    fn usage<'a>(&'a self, charges: &'a [QuotaCharge]) -> QuotaUseFuture<'a> {
        Box::pin(self.counts(charges))
    }
}

fn stored_charge(charge: &QuotaCharge) -> CallCharge {
    CallCharge {
        quota: digest(&charge.key.quota),
        per_minute: charge.per_minute,
        per_day: charge.per_day,
        concurrent: charge.concurrent,
    }
}

fn quota_limit(limit: CallLimit) -> QuotaLimit {
    match limit {
        CallLimit::Minute => QuotaLimit::Minute,
        CallLimit::Day => QuotaLimit::Day,
        CallLimit::Concurrent => QuotaLimit::Concurrent,
    }
}

/// The slots of this replica, by account and quota.
type RunningSlots = HashMap<(Arc<str>, String), HashSet<Arc<str>>>;

/// Renews the slots of calls that run, and ends those of calls that have ended. What fails while the store is away is made
/// good by the next renewal, or by the end of the lease.
async fn keep_slots(store: Arc<dyn StateStore>, mut events: mpsc::UnboundedReceiver<SlotEvent>) {
    let mut running = RunningSlots::default();
    let mut renewals = interval(RENEWAL_INTERVAL);
    renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            received = events.recv_many(&mut batch, BATCH) => match received {
                0 => return,
                _ => end_slots(&*store, apply(&mut running, batch.drain(..))).await,
            },
            _ = renewals.tick() => renew(&*store, &running).await,
        }
    }
}

/// Applies events, and returns the slots that have ended.
fn apply(running: &mut RunningSlots, events: impl Iterator<Item = SlotEvent>) -> RunningSlots {
    let mut ended = RunningSlots::default();
    for event in events {
        match event {
            SlotEvent::Started(slot) => {
                for quota in &*slot.quotas {
                    let key = (slot.account.clone(), quota.clone());
                    running.entry(key).or_default().insert(slot.id.clone());
                }
            }
            SlotEvent::Ended(slot) => {
                for quota in &*slot.quotas {
                    let key = (slot.account.clone(), quota.clone());
                    if let Some(slots) = running.get_mut(&key) {
                        slots.remove(&slot.id);
                        if slots.is_empty() {
                            running.remove(&key);
                        }
                    }
                    ended.entry(key).or_default().insert(slot.id.clone());
                }
            }
        }
    }
    ended
}

async fn end_slots(store: &dyn StateStore, ended: RunningSlots) {
    for ((account, quota), slots) in ended {
        let slots: Vec<Arc<str>> = slots.into_iter().collect();
        let _ends_with_its_lease = store.end_calls((&account, &quota), &slots).await;
    }
}

async fn renew(store: &dyn StateStore, running: &RunningSlots) {
    for ((account, quota), slots) in running {
        let slots: Vec<Arc<str>> = slots.iter().cloned().collect();
        let _next_time = store.renew_calls((account, quota), &slots, LEASE).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinHandle, yield_now};
    use tokio::time::advance;

    use super::*;
    use crate::quotas::QuotaKey;
    use crate::shared::memory::MemoryStore;

    /// A replica whose calls are counted.
    struct Replica {
        counters: SharedCounters,
        _shared: SharedState,
        renewing: JoinHandle<()>,
        beating: JoinHandle<()>,
    }

    /// Two replicas that know each other.
    async fn replicas(store: &MemoryStore) -> [Replica; 2] {
        let replicas = ["127.0.0.1:1", "127.0.0.1:2"].map(|address| {
            let (shared, running) = SharedState::open_in_memory(store, address);
            let (counters, renewing) = SharedCounters::new(&shared).expect("it has a store");
            Replica {
                counters,
                _shared: shared,
                renewing: tokio::spawn(renewing),
                beating: tokio::spawn(running),
            }
        });
        for replica in &replicas {
            let mut fleet = replica.counters.fleet.clone();
            fleet.wait_for(|it| it.alive.len() == 2).await.expect("they are alive");
        }
        replicas
    }

    fn charge() -> QuotaCharge {
        QuotaCharge {
            key: QuotaKey { principal: "ada".into(), quota: "all".into() },
            per_minute: None,
            per_day: None,
            concurrent: None,
        }
    }

    async fn started(replica: &Replica, charge: &QuotaCharge) -> Result<QuotaSlot, QuotaLimit> {
        let charges = std::slice::from_ref(charge);
        replica.counters.start_call(charges).await.map_err(|it| it.limit)
    }

    /// How many calls two replicas let through, in turn. The calls go on.
    async fn passed(replicas: &[Replica; 2], charge: &QuotaCharge) -> Vec<QuotaSlot> {
        let mut passed = Vec::new();
        for number in 0..20 {
            passed.extend(started(&replicas[number % 2], charge).await.ok());
        }
        passed
    }

    /// Lets virtual time pass in steps, so that every task does what is due.
    async fn pass(time: Duration) {
        const STEP: Duration = Duration::from_millis(500);
        let mut passed = Duration::ZERO;
        while passed < time {
            advance(STEP.min(time - passed)).await;
            passed += STEP;
            for _ in 0..20 {
                yield_now().await;
            }
        }
    }

    async fn running(replica: &Replica) -> u64 {
        replica.counters.usage(&[charge()]).await[0].running
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_keep_each_limit_together_and_their_parts_of_it_while_the_store_is_away() {
        let store = MemoryStore::default();
        let replicas = replicas(&store).await;
        let per_minute = QuotaCharge { per_minute: Some(6), ..charge() };
        assert_eq!(passed(&replicas, &per_minute).await.len(), 6);
        let per_day = QuotaCharge { per_day: Some(9), ..charge() };
        assert_eq!(passed(&replicas, &per_day).await.len(), 3, "six calls were counted before");
        store.set_away(true);
        assert_eq!(passed(&replicas, &per_minute).await.len(), 6, "three on each");
        let odd = QuotaCharge { concurrent: Some(1), ..charge() };
        assert_eq!(passed(&replicas, &odd).await.len(), 2, "at least one on each");
        let none = QuotaCharge { concurrent: Some(0), ..charge() };
        assert_eq!(passed(&replicas, &none).await.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_run_count_on_every_replica_while_the_store_is_away_and_when_it_is_back() {
        let store = MemoryStore::default();
        let replicas = replicas(&store).await;
        let charge = QuotaCharge { concurrent: Some(4), ..charge() };
        let first = passed(&replicas, &charge).await;
        assert_eq!(first.len(), 4);
        store.set_away(true);
        assert_eq!(passed(&replicas, &charge).await.len(), 0, "two run on each");
        drop(first);
        let second = passed(&replicas, &charge).await;
        assert_eq!(second.len(), 4);
        store.set_away(false);
        store.clear();
        pass(RENEWAL_INTERVAL + Duration::from_millis(1)).await;
        assert_eq!(running(&replicas[0]).await, 4, "the store learns what runs");
        assert_eq!(passed(&replicas, &charge).await.len(), 0);
        drop(second);
        pass(Duration::from_millis(1)).await;
        assert_eq!(running(&replicas[1]).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_lasts_as_long_as_its_call_and_ends_with_a_replica_that_dies() {
        let store = MemoryStore::default();
        let replicas = replicas(&store).await;
        let charge = QuotaCharge { concurrent: Some(2), ..charge() };
        let _first = started(&replicas[0], &charge).await.expect("room");
        let _second = started(&replicas[1], &charge).await.expect("room");
        pass(LEASE * 10).await;
        assert_eq!(started(&replicas[0], &charge).await.err(), Some(QuotaLimit::Concurrent));
        // It is killed: nothing renews its slots, and nothing ends them.
        replicas[1].renewing.abort();
        replicas[1].beating.abort();
        advance(LEASE - RENEWAL_INTERVAL - Duration::from_secs(1)).await;
        assert_eq!(started(&replicas[0], &charge).await.err(), Some(QuotaLimit::Concurrent));
        pass(RENEWAL_INTERVAL * 2).await;
        started(&replicas[0], &charge).await.expect("room again");
    }

    #[tokio::test(start_paused = true)]
    async fn slots_end_with_the_counters() {
        let store = MemoryStore::default();
        let [first, second] = replicas(&store).await;
        let charge = QuotaCharge { concurrent: Some(1), ..charge() };
        let slot = started(&first, &charge).await.expect("room");
        let Replica { counters, _shared, renewing, beating } = first;
        drop((counters, slot));
        renewing.await.expect("it ends");
        assert_eq!(running(&second).await, 0);
        drop(_shared);
        beating.await.expect("it ends");
    }
}

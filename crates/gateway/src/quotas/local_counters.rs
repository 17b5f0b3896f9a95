//! Counters in the memory of this process. They begin anew when it starts.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchboard_wire::shared::Shared;
use tokio::time::Instant;

use super::{
    QuotaCharge, QuotaCounters, QuotaExcess, QuotaFuture, QuotaKey, QuotaLimit, QuotaSlot,
    QuotaUse, QuotaUseFuture,
};

const MINUTE: Duration = Duration::from_secs(60);
const DAY_SECONDS: u64 = 24 * 3600;
/// How long to wait for one of several calls that run.
const CONCURRENT_RETRY: Duration = Duration::from_secs(1);
/// The number of counters beyond which unused ones are removed.
const MAX_COUNTERS: usize = 50_000;

/// Counters of this process. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LocalCounters {
    /// Shared state: a call is counted for all of its quotas at once, or for none.
    counters: Shared<HashMap<QuotaKey, Counter>>,
}

/// One counter.
#[derive(Debug, Clone, Copy, Default)]
struct Counter {
    /// When the bucket of calls per minute is full again; `None` before the first call.
    full_at: Option<Instant>,
    /// The day (UTC), as a number, of the calls that are counted.
    day: u64,
    calls_of_day: u64,
    running: u64,
}

/// The times that counting needs.
#[derive(Debug, Clone, Copy)]
struct Now {
    instant: Instant,
    /// The day (UTC), as a number.
    day: u64,
    until_tomorrow: Duration,
}

impl Now {
    fn read() -> Now {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Now {
            instant: Instant::now(),
            day: since / DAY_SECONDS,
            until_tomorrow: Duration::from_secs(DAY_SECONDS - since % DAY_SECONDS),
        }
    }
}

/// The time after which a bucket has one more call.
fn interval(per_minute: u64) -> Duration {
    MINUTE / u32::try_from(per_minute).unwrap_or(u32::MAX).max(1)
}

impl Counter {
    /// Does a call fit? Otherwise the limit and when to try again.
    fn check(&self, charge: &QuotaCharge, now: Now) -> Result<(), (QuotaLimit, Duration)> {
        if charge.concurrent.is_some_and(|most| self.running >= most) {
            return Err((QuotaLimit::Concurrent, CONCURRENT_RETRY));
        }
        if charge.per_day.is_some_and(|most| self.calls_today(now) >= most) {
            return Err((QuotaLimit::Day, now.until_tomorrow));
        }
        if let Some(per_minute) = charge.per_minute {
            let next = self.full_after_call(per_minute, now);
            let latest = now.instant + MINUTE;
            if next > latest {
                return Err((QuotaLimit::Minute, next - latest));
            }
        }
        Ok(())
    }

    fn add(&mut self, charge: &QuotaCharge, now: Now) {
        self.calls_of_day = self.calls_today(now) + 1;
        self.day = now.day;
        self.running += 1;
        if let Some(per_minute) = charge.per_minute {
            self.full_at = Some(self.full_after_call(per_minute, now));
        }
    }

    fn full_after_call(&self, per_minute: u64, now: Now) -> Instant {
        self.full_at.map_or(now.instant, |it| it.max(now.instant)) + interval(per_minute)
    }

    fn calls_today(&self, now: Now) -> u64 {
        if self.day == now.day { self.calls_of_day } else { 0 }
    }

    fn usage(&self, charge: &QuotaCharge, now: Now) -> QuotaUse {
        let minute = match (charge.per_minute, self.full_at) {
            (Some(per_minute), Some(full_at)) => {
                let missing = full_at.saturating_duration_since(now.instant).as_nanos();
                u64::try_from(missing.div_ceil(interval(per_minute).as_nanos().max(1)))
                    .unwrap_or(u64::MAX)
            }
            (Some(_) | None, _) => 0,
        };
        QuotaUse { minute, day: self.calls_today(now), running: self.running }
    }

    fn is_unused(&self, now: Now) -> bool {
        self.running == 0
            && self.calls_today(now) == 0
            && self.full_at.is_none_or(|it| it <= now.instant)
    }
}

/// The running call of some counters.
#[derive(Debug)]
struct RunningCall {
    counters: Shared<HashMap<QuotaKey, Counter>>,
    keys: Vec<QuotaKey>,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.counters.update(|counters| {
            for key in &self.keys {
                if let Some(counter) = counters.get_mut(key) {
                    counter.running = counter.running.saturating_sub(1);
                }
            }
        });
    }
}

/// Removes unused counters if there are many.
fn prune(counters: &mut HashMap<QuotaKey, Counter>, now: Now) {
    if counters.len() >= MAX_COUNTERS {
        counters.retain(|_, counter| !counter.is_unused(now));
    }
}

impl LocalCounters {
    /// Counts a call as running that other counters have allowed.
    pub(super) fn count_running(&self, charges: &[QuotaCharge]) -> QuotaSlot {
        self.counters.update(|counters| {
            prune(counters, Now::read());
            let keys: Vec<QuotaKey> = charges.iter().map(|it| it.key.clone()).collect();
            for key in &keys {
                counters.entry(key.clone()).or_default().running += 1;
            }
            QuotaSlot::new(RunningCall { counters: self.counters.clone(), keys })
        })
    }

    fn start(&self, charges: &[QuotaCharge], now: Now) -> Result<QuotaSlot, QuotaExcess> {
        self.counters.update(|counters| {
            for (index, charge) in charges.iter().enumerate() {
                let counter = counters.get(&charge.key).copied().unwrap_or_default();
                counter.check(charge, now).map_err(|(limit, retry_after)| QuotaExcess {
                    charge: index,
                    limit,
                    retry_after,
                })?;
            }
            prune(counters, now);
            for charge in charges {
                counters.entry(charge.key.clone()).or_default().add(charge, now);
            }
            let keys = charges.iter().map(|it| it.key.clone()).collect();
            Ok(QuotaSlot::new(RunningCall { counters: self.counters.clone(), keys }))
        })
    }
}

impl QuotaCounters for LocalCounters {
    fn start_call<'a>(&'a self, charges: &'a [QuotaCharge]) -> QuotaFuture<'a> {
        let started = self.start(charges, Now::read());
        Box::pin(std::future::ready(started))
    }

    fn usage<'a>(&'a self, charges: &'a [QuotaCharge]) -> QuotaUseFuture<'a> {
        let now = Now::read();
        let uses = self.counters.read(|counters| {
            let usage = |charge: &QuotaCharge| {
                counters.get(&charge.key).map(|it| it.usage(charge, now)).unwrap_or_default()
            };
            charges.iter().map(usage).collect()
        });
        Box::pin(std::future::ready(uses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Duration = Duration::from_secs(DAY_SECONDS / 2);

    fn charge(quota: &str) -> QuotaCharge {
        QuotaCharge {
            key: QuotaKey { principal: "ada".into(), quota: quota.into() },
            per_minute: None,
            per_day: None,
            concurrent: None,
        }
    }

    fn refused(started: Result<QuotaSlot, QuotaExcess>) -> (QuotaLimit, Duration) {
        let exceeded = started.map(drop).expect_err("it is used up");
        (exceeded.limit, exceeded.retry_after)
    }

    #[tokio::test(start_paused = true)]
    async fn calls_per_minute_come_in_bursts_and_then_at_the_rate() {
        let counters = LocalCounters::default();
        let charges = [QuotaCharge { per_minute: Some(6), ..charge("q") }];
        let start = || counters.start_call(&charges);
        for _ in 0..6 {
            start().await.expect("within the burst");
        }
        assert_eq!(refused(start().await), (QuotaLimit::Minute, Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(refused(start().await), (QuotaLimit::Minute, Duration::from_secs(1)));
        assert_eq!(counters.usage(&charges).await[0].minute, 6);
        tokio::time::advance(Duration::from_secs(1)).await;
        start().await.expect("one more");
        tokio::time::advance(MINUTE).await;
        assert_eq!(counters.usage(&charges).await[0].minute, 0);
    }

    #[test]
    fn calls_of_a_day_end_with_the_day() {
        let counters = LocalCounters::default();
        let charges = [QuotaCharge { per_day: Some(2), ..charge("q") }];
        let at = |day| Now { day, until_tomorrow: NOON, ..Now::read() };
        for _ in 0..2 {
            counters.start(&charges, at(7)).expect("room");
        }
        assert_eq!(refused(counters.start(&charges, at(7))), (QuotaLimit::Day, NOON));
        counters.start(&charges, at(8)).expect("another day");
    }

    #[test]
    fn a_call_runs_until_its_slot_is_dropped_and_unused_counters_can_go() {
        let counters = LocalCounters::default();
        let charges = [QuotaCharge { concurrent: Some(1), ..charge("q") }, charge("other")];
        let now = Now::read();
        let first = counters.start(&charges, now).expect("room");
        assert_eq!(
            refused(counters.start(&charges, now)),
            (QuotaLimit::Concurrent, CONCURRENT_RETRY)
        );
        drop(first);
        let running = |counters: &LocalCounters| {
            counters.counters.read(|it| it.values().map(|it| it.running).sum::<u64>())
        };
        assert_eq!(running(&counters), 0);
        let tomorrow = Now { day: now.day + 1, ..now };
        assert!(counters.counters.read(|it| it.values().all(|it| it.is_unused(tomorrow))));
    }
}

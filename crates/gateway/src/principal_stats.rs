//! What each principal has done since the gateway started: calls, refusals, and when it was seen last.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use switchboard::audit::log::CallOutcome;
use switchboard_wire::shared::Shared;

use crate::quotas::PrincipalQuota;

/// The most principals that are kept. Beyond it, the one that was seen first of all is forgotten.
const MAX_PRINCIPALS: usize = 10_000;

/// A principal, and what it has done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrincipalUse {
    /// Its name.
    pub name: String,
    /// Finished tool calls, also those that were denied.
    pub calls: u64,
    /// Calls that rules, a user or a quota denied.
    pub denied: u64,
    /// Calls that failed: the server, the tool or the time.
    pub failed: u64,
    /// Calls that run.
    pub running: u64,
    /// When the last request came.
    pub last_seen: SystemTime,
    /// Its quotas, and how much of them is used.
    pub quotas: Vec<PrincipalQuota>,
}

/// The counters of all principals.
#[derive(Debug, Default)]
pub(crate) struct PrincipalStats {
    /// Shared state: changes only when a principal is seen for the first time.
    principals: Shared<HashMap<Arc<str>, Arc<PrincipalCounters>>>,
}

#[derive(Debug, Default)]
struct PrincipalCounters {
    calls: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
    running: AtomicU64,
    /// In seconds since 1970.
    last_seen: AtomicU64,
}

/// A call of a principal. Dropping it before it is finished counts it as cancelled.
#[derive(Debug)]
pub(crate) struct PrincipalCall {
    counters: Arc<PrincipalCounters>,
    outcome: CallOutcome,
}

impl PrincipalStats {
    /// Records a request.
    pub(crate) fn seen(&self, principal: &Arc<str>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.counters(principal).last_seen.store(now, Ordering::Relaxed);
    }

    /// Counts a call as running until the returned value is dropped.
    pub(crate) fn start_call(&self, principal: &Arc<str>) -> PrincipalCall {
        let counters = self.counters(principal);
        counters.running.fetch_add(1, Ordering::Relaxed);
        PrincipalCall { counters, outcome: CallOutcome::Cancelled }
    }

    fn counters(&self, principal: &Arc<str>) -> Arc<PrincipalCounters> {
        let known = self.principals.read(|all| all.get(principal).cloned());
        known.unwrap_or_else(|| {
            self.principals.update(|all| {
                if all.len() >= MAX_PRINCIPALS && !all.contains_key(principal) {
                    let seen = |it: &Arc<PrincipalCounters>| it.last_seen.load(Ordering::Relaxed);
                    let oldest = all.iter().min_by_key(|it| seen(it.1)).map(|it| it.0.clone());
                    oldest.and_then(|it| all.remove(&it));
                }
                all.entry(principal.clone()).or_default().clone()
            })
        })
    }

    /// All principals, those that were seen last first.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, PrincipalUse)> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut all: Vec<(Arc<str>, PrincipalUse)> = self.principals.read(|principals| {
            let usage = |(name, it): (&Arc<str>, &Arc<PrincipalCounters>)| {
                let usage = PrincipalUse {
                    name: name.to_string(),
                    calls: load(&it.calls),
                    denied: load(&it.denied),
                    failed: load(&it.failed),
                    running: load(&it.running),
                    last_seen: UNIX_EPOCH + Duration::from_secs(load(&it.last_seen)),
                    quotas: Vec::new(),
                };
                (name.clone(), usage)
            };
            principals.iter().map(usage).collect()
        });
        all.sort_by(|one, other| {
            let by_time = other.1.last_seen.cmp(&one.1.last_seen);
            by_time.then_with(|| one.1.name.cmp(&other.1.name))
        });
        all
    }
}

impl PrincipalCall {
    /// Counts the call with this outcome.
    pub(crate) fn finish(mut self, outcome: CallOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for PrincipalCall {
    fn drop(&mut self) {
        let PrincipalCounters { calls, denied, failed, running, .. } = &*self.counters;
        running.fetch_sub(1, Ordering::Relaxed);
        calls.fetch_add(1, Ordering::Relaxed);
        match self.outcome {
            CallOutcome::Denied => denied.fetch_add(1, Ordering::Relaxed),
            CallOutcome::ToolError
            | CallOutcome::Invalid
            | CallOutcome::Failed
            | CallOutcome::Timeout => failed.fetch_add(1, Ordering::Relaxed),
            CallOutcome::Succeeded | CallOutcome::Cancelled => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_principal_and_outcome() {
        let stats = PrincipalStats::default();
        let ada: Arc<str> = "ada".into();
        stats.seen(&ada);
        stats.start_call(&ada).finish(CallOutcome::Succeeded);
        stats.start_call(&ada).finish(CallOutcome::Denied);
        drop(stats.start_call(&ada));
        let running = stats.start_call(&ada);
        let all = stats.all();
        let usage = &all[0].1;
        assert_eq!((usage.calls, usage.denied, usage.failed, usage.running), (3, 1, 0, 1));
        assert!(usage.last_seen > UNIX_EPOCH);
        running.finish(CallOutcome::Timeout);
        assert_eq!(stats.all()[0].1.failed, 1);
    }

    #[test]
    fn the_number_of_principals_is_bounded() {
        let stats = PrincipalStats::default();
        for number in 0..MAX_PRINCIPALS + 5 {
            stats.seen(&format!("p{number}").into());
        }
        assert_eq!(stats.all().len(), MAX_PRINCIPALS);
    }
}

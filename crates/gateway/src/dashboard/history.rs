//! The counters of the last minutes: rates, errors and latencies per server. A task takes a sample every two seconds; what
//! a reader sees are differences of samples.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::relay::Relay;
use crate::telemetry::metrics::{DURATION_BUCKETS, Metrics};

/// The time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// How many samples are kept: five minutes.
const MAX_SAMPLES: usize = 151;
/// How many samples a current rate covers: ten seconds.
const RATE_SAMPLES: usize = 5;
/// How many samples a point of a curve covers.
const POINT_SAMPLES: usize = 3;

/// The outcomes of calls that failed. Denied, invalid and cancelled calls are no errors of a server.
const ERROR_OUTCOMES: [&str; 3] = ["tool-error", "failed", "timeout"];

/// The counters of one server at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
struct Counters {
    calls: u64,
    errors: u64,
    denied: u64,
    /// Cumulative, by [`DURATION_BUCKETS`]; the last counts all calls.
    buckets: Vec<u64>,
}

impl Counters {
    /// What was added since an earlier sample.
    fn since(&self, earlier: Option<&Counters>) -> Counters {
        let Some(earlier) = earlier else { return self.clone() };
        // A server that was not called yet has no buckets.
        let then = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets = self.buckets.iter().zip(then);
        Counters {
            calls: self.calls.saturating_sub(earlier.calls),
            errors: self.errors.saturating_sub(earlier.errors),
            denied: self.denied.saturating_sub(earlier.denied),
            buckets: buckets.map(|(now, then)| now.saturating_sub(then)).collect(),
        }
    }

    fn add(&mut self, more: &Counters) {
        self.calls += more.calls;
        self.errors += more.errors;
        self.denied += more.denied;
        self.buckets.resize(self.buckets.len().max(more.buckets.len()), 0);
        for (sum, bucket) in self.buckets.iter_mut().zip(&more.buckets) {
            *sum += bucket;
        }
    }
}

#[derive(Debug, Clone)]
struct Sample {
    at: Instant,
    servers: BTreeMap<String, Counters>,
}

/// The samples of the last minutes.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetricsHistory {
    samples: VecDeque<Sample>,
}

/// What happened in the last minutes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Activity {
    pub(crate) calls: u64,
    pub(crate) errors: u64,
    pub(crate) denied: u64,
    /// Calls per second in the last ten seconds.
    pub(crate) rate: f64,
    /// The latency in milliseconds that half, and 95 %, of the calls stay below; estimated from buckets.
    pub(crate) p50: Option<f64>,
    pub(crate) p95: Option<f64>,
}

impl MetricsHistory {
    fn push(&mut self, sample: Sample) {
        self.samples.push_back(sample);
        while self.samples.len() > MAX_SAMPLES {
            self.samples.pop_front();
        }
    }

    /// The activity of one server.
    pub(crate) fn of_server(&self, server: &str) -> Activity {
        self.activity(|sample| sample.servers.get(server).cloned())
    }

    /// The activity of all servers together.
    pub(crate) fn total(&self) -> Activity {
        self.activity(|sample| Some(sum(sample)))
    }

    fn activity(&self, counters: impl Fn(&Sample) -> Option<Counters>) -> Activity {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Activity::default();
        };
        let Some(now) = counters(last) else { return Activity::default() };
        let period = now.since(counters(first).as_ref());
        let recent = &self.samples[self.samples.len().saturating_sub(RATE_SAMPLES + 1)];
        let seconds = last.at.duration_since(recent.at).as_secs_f64();
        let calls = now.since(counters(recent).as_ref()).calls;
        Activity {
            calls: period.calls,
            errors: period.errors,
            denied: period.denied,
            rate: if seconds > 0.0 { calls as f64 / seconds } else { 0.0 },
            p50: quantile(&period.buckets, 0.5),
            p95: quantile(&period.buckets, 0.95),
        }
    }

    /// Calls per second over the last minutes, oldest first.
    pub(crate) fn curve(&self) -> Vec<f64> {
        let points: Vec<&Sample> = self.samples.iter().step_by(POINT_SAMPLES).collect();
        let rate = |pair: &[&Sample]| {
            let seconds = pair[1].at.duration_since(pair[0].at).as_secs_f64();
            let calls = sum(pair[1]).since(Some(&sum(pair[0]))).calls;
            if seconds > 0.0 { calls as f64 / seconds } else { 0.0 }
        };
        points.windows(2).map(rate).collect()
    }
}

fn sum(sample: &Sample) -> Counters {
    let mut all = Counters::default();
    sample.servers.values().for_each(|it| all.add(it));
    all
}

/// The latency that a share of the calls stays below, in milliseconds, from cumulative buckets. Within a bucket, latencies
/// count as evenly spread.
fn quantile(buckets: &[u64], share: f64) -> Option<f64> {
    let total = *buckets.last().filter(|it| **it > 0)? as f64;
    let rank = share * total;
    let at = buckets.iter().position(|count| *count as f64 >= rank)?;
    let bound = |at: usize| DURATION_BUCKETS.get(at).map(|it| it.0 as f64);
    let (below, lower) = match at.checked_sub(1) {
        Some(before) => (buckets[before] as f64, bound(before).unwrap_or_default()),
        None => (0.0, 0.0),
    };
    // The last bucket has no upper bound.
    let upper = bound(at).unwrap_or(lower);
    let inside = buckets[at] as f64 - below;
    Some(lower + (upper - lower) * if inside > 0.0 { (rank - below) / inside } else { 1.0 })
}

fn sample(metrics: &Metrics) -> Sample {
    let counters = |server: &crate::telemetry::metrics::ServerMetrics| {
        let mut counters = Counters::default();
        for (outcome, count) in server.outcomes() {
            counters.calls += count;
            if ERROR_OUTCOMES.contains(&outcome) {
                counters.errors += count;
            } else if outcome == "denied" {
                counters.denied += count;
            }
        }
        counters.buckets = server.cumulative_buckets().into_iter().map(|it| it.1).collect();
        counters
    };
    let servers = metrics.servers();
    let servers = servers.iter().map(|(name, server)| (name.clone(), counters(server)));
    Sample { at: Instant::now(), servers: servers.collect() }
}

/// Takes samples until the relay or all readers are gone.
pub(crate) async fn take_samples(relay: Weak<Relay>, publish: watch::Sender<Arc<MetricsHistory>>) {
    let mut history = MetricsHistory::default();
    let mut ticks = interval(SAMPLE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = publish.closed() => return,
        }
        let Some(relay) = relay.upgrade() else { return };
        history.push(sample(&relay.metrics));
        drop(relay);
        if publish.send(Arc::new(history.clone())).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use switchboard::audit::log::CallOutcome;

    use super::*;

    #[test]
    fn quantiles_are_interpolated_within_a_bucket() {
        let buckets = |counts: [u64; 3]| {
            let mut cumulative = vec![0; DURATION_BUCKETS.len() + 1];
            for (at, bucket) in cumulative.iter_mut().enumerate() {
                *bucket = counts[at.min(2)];
            }
            cumulative
        };
        // Ten calls of at most 5 ms, ten of 5 to 10 ms.
        let even = buckets([10, 20, 20]);
        assert_eq!(quantile(&even, 0.5), Some(5.0));
        assert_eq!(quantile(&even, 0.95), Some(9.5));
        assert_eq!(quantile(&buckets([0, 0, 0]), 0.5), None);
        let mut slow = vec![0; DURATION_BUCKETS.len() + 1];
        slow[DURATION_BUCKETS.len()] = 3;
        assert_eq!(quantile(&slow, 0.5), Some(600_000.0), "no less than the last bound");
    }

    #[tokio::test(start_paused = true)]
    async fn activity_is_what_was_added_in_the_last_minutes() {
        let metrics = Metrics::default();
        let mut history = MetricsHistory::default();
        metrics.start_call("a").finish(CallOutcome::Succeeded);
        for _ in 0..=MAX_SAMPLES {
            history.push(sample(&metrics));
            tokio::time::advance(SAMPLE_INTERVAL).await;
        }
        assert_eq!(history.total().calls, 0, "the call is older");
        for outcome in [CallOutcome::Failed, CallOutcome::Denied, CallOutcome::Succeeded] {
            metrics.start_call("a").finish(outcome);
        }
        metrics.start_call("b").finish(CallOutcome::Timeout);
        history.push(sample(&metrics));
        let (a, total) = (history.of_server("a"), history.total());
        assert_eq!((a.calls, a.errors, a.denied), (3, 1, 1));
        assert_eq!((total.calls, total.errors), (4, 2));
        assert!((total.rate - 0.4).abs() < 1e-9, "{}", total.rate);
        assert!(total.p95.is_some(), "also with a server that was not called before");
        assert_eq!(history.of_server("c"), Activity::default());
        assert_eq!(history.curve().len(), MAX_SAMPLES / POINT_SAMPLES);
    }
}

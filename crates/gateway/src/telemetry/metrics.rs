//! Counts what goes through. Counting is adding to a number that everybody shares: nothing waits and nothing is
//! allocated, except when a server is called for the first time. `metrics_page` writes the numbers down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use switchboard::audit::log::CallOutcome;
use switchboard_auth::resource_server::AuthError;
use tokio::sync::watch;

use crate::http::host_origin_check::HostOriginErrorKind;

/// The methods that are counted each for itself; all others are one.
pub(crate) const COUNTED_METHODS: [&str; 17] = [
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "prompts/get",
    "prompts/list",
    "completion/complete",
    "logging/setLevel",
    "skills/list",
    "skills/get",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "tasks/result",
    "tasks/list",
    "other",
];
/// Why requests are turned away.
pub(crate) const REFUSAL_REASONS: [&str; 9] =
    ["host", "target", "origin", "no-token", "malformed", "token", "proof", "scopes", "issuer"];
/// The kinds of answers over HTTP.
pub(crate) const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// The ends of the ranges that durations are sorted into, in milliseconds, and how they are written in seconds.
pub(crate) const DURATION_BUCKETS: [(u64, &str); 15] = [
    (5, "0.005"),
    (10, "0.01"),
    (25, "0.025"),
    (50, "0.05"),
    (100, "0.1"),
    (250, "0.25"),
    (500, "0.5"),
    (1000, "1.0"),
    (2500, "2.5"),
    (5000, "5.0"),
    (10_000, "10.0"),
    (30_000, "30.0"),
    (60_000, "60.0"),
    (300_000, "300.0"),
    (600_000, "600.0"),
];

/// All counters.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Sessions of legacy clients that are open.
    pub(crate) sessions: AtomicU64,
    /// Connections that are open.
    pub(crate) connections: AtomicU64,
    methods: [AtomicU64; COUNTED_METHODS.len()],
    refusals: [AtomicU64; REFUSAL_REASONS.len()],
    responses: [AtomicU64; STATUS_CLASSES.len()],
    servers: watch::Sender<BTreeMap<String, Arc<ServerMetrics>>>,
}

/// One server's.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    /// Calls that are under way.
    pub(crate) in_flight: AtomicU64,
    outcomes: [AtomicU64; CallOutcome::ALL.len()],
    /// How many took how long; the last range has no end.
    buckets: [AtomicU64; DURATION_BUCKETS.len() + 1],
    total_micros: AtomicU64,
}

impl Metrics {
    /// Somebody asked something.
    pub(crate) fn count_request(&self, method: &str) {
        let index = COUNTED_METHODS
            .iter()
            .position(|it| *it == method)
            .unwrap_or(COUNTED_METHODS.len() - 1);
        increment(&self.methods, index);
    }

    /// A request was answered with this status.
    pub(crate) fn count_response(&self, status: http::StatusCode) {
        increment(&self.responses, usize::from(status.as_u16() / 100).saturating_sub(1));
    }

    /// The guard turned a request away.
    pub(crate) fn count_host_origin_refusal(&self, reason: &HostOriginErrorKind) {
        self.count_refusal(match reason {
            HostOriginErrorKind::MissingHost
            | HostOriginErrorKind::MultipleHosts
            | HostOriginErrorKind::MalformedHost
            | HostOriginErrorKind::HostNotAllowed => "host",
            HostOriginErrorKind::InvalidTarget => "target",
            HostOriginErrorKind::MultipleOrigins
            | HostOriginErrorKind::NullOrigin
            | HostOriginErrorKind::OriginNotAllowed => "origin",
        });
    }

    /// The doorkeeper let somebody wait outside.
    pub(crate) fn count_auth_refusal(&self, refusal: &AuthError) {
        self.count_refusal(match refusal {
            AuthError::MissingToken => "no-token",
            AuthError::Malformed => "malformed",
            AuthError::Token(_) => "token",
            AuthError::Proof(_) => "proof",
            AuthError::InsufficientScope(_) => "scopes",
            AuthError::IssuerUnavailable(_) => "issuer",
        });
    }

    fn count_refusal(&self, label: &str) {
        if let Some(index) = REFUSAL_REASONS.iter().position(|it| *it == label) {
            increment(&self.refusals, index);
        }
    }

    /// A call begins. It is counted when it ends, and as called off when it is dropped before.
    pub(crate) fn start_call(&self, server: &str) -> CallTimer {
        let server_metrics = self.servers.borrow().get(server).cloned();
        let server_metrics = server_metrics.unwrap_or_else(|| {
            let mut created = Arc::default();
            self.servers.send_modify(|servers| {
                created = servers.entry(server.to_owned()).or_default().clone();
            });
            created
        });
        server_metrics.in_flight.fetch_add(1, Ordering::Relaxed);
        CallTimer {
            server: server_metrics,
            started: Instant::now(),
            outcome: CallOutcome::Cancelled,
        }
    }

    pub(crate) fn methods(&self) -> impl Iterator<Item = (&'static str, u64)> {
        COUNTED_METHODS.into_iter().zip(self.methods.iter().map(load))
    }

    pub(crate) fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REFUSAL_REASONS.into_iter().zip(self.refusals.iter().map(load))
    }

    pub(crate) fn responses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        STATUS_CLASSES.into_iter().zip(self.responses.iter().map(load))
    }

    /// Every server that was called so far.
    pub(crate) fn servers(&self) -> BTreeMap<String, Arc<ServerMetrics>> {
        self.servers.borrow().clone()
    }
}

impl ServerMetrics {
    fn record(&self, ended: CallOutcome, duration: Duration) {
        let index = CallOutcome::ALL.iter().position(|it| *it == ended).unwrap_or_default();
        increment(&self.outcomes, index);
        let is_at_most = |it: &(u64, &str)| duration <= Duration::from_millis(it.0);
        increment(
            &self.buckets,
            DURATION_BUCKETS.iter().position(is_at_most).unwrap_or(DURATION_BUCKETS.len()),
        );
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.total_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CallOutcome::ALL.into_iter().map(CallOutcome::id).zip(self.outcomes.iter().map(load))
    }

    /// How many calls took at most so long, for every bound and without one.
    pub(crate) fn cumulative_buckets(&self) -> Vec<(&'static str, u64)> {
        let bounds = DURATION_BUCKETS.into_iter().map(|it| it.1).chain(["+Inf"]);
        let mut sum = 0;
        let mut cumulative = |(bound, range): (&'static str, &AtomicU64)| {
            sum += load(range);
            (bound, sum)
        };
        bounds.zip(&self.buckets).map(&mut cumulative).collect()
    }

    /// How long all calls together took, in seconds.
    pub(crate) fn total_seconds(&self) -> f64 {
        Duration::from_micros(load(&self.total_micros)).as_secs_f64()
    }
}

/// A call that is being measured.
#[derive(Debug)]
pub(crate) struct CallTimer {
    server: Arc<ServerMetrics>,
    started: Instant,
    outcome: CallOutcome,
}

impl CallTimer {
    /// It is over.
    pub(crate) fn finish(mut self, ended: CallOutcome) {
        self.outcome = ended;
    }
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        self.server.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.server.record(self.outcome, self.started.elapsed());
    }
}

/// A number that is one more for as long as this lives.
#[derive(Debug)]
pub(crate) struct GaugeGuard<'a>(&'a AtomicU64);

impl<'a> GaugeGuard<'a> {
    pub(crate) fn increment(counter: &'a AtomicU64) -> GaugeGuard<'a> {
        counter.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(counter)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn increment(counters: &[AtomicU64], index: usize) {
    if let Some(counter) = counters.get(index) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_once_and_a_dropped_one_as_called_off() {
        let metrics = Metrics::default();
        metrics.start_call("s").finish(CallOutcome::Denied);
        drop(metrics.start_call("s"));
        let open = metrics.start_call("s");
        let servers = metrics.servers();
        let ended: Vec<_> = servers["s"].outcomes().filter(|it| it.1 > 0).collect();
        assert_eq!(ended, [("denied", 1), ("cancelled", 1)]);
        assert_eq!(servers["s"].in_flight.load(Ordering::Relaxed), 1);
        drop(open);
        assert_eq!(servers["s"].in_flight.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn durations_are_sorted_into_ranges_that_include_the_smaller_ones() {
        let server_metrics = ServerMetrics::default();
        for millis in [5, 6, 700_000] {
            server_metrics.record(CallOutcome::Succeeded, Duration::from_millis(millis));
        }
        let buckets = server_metrics.cumulative_buckets();
        assert_eq!((buckets[0], buckets[1]), (("0.005", 1), ("0.01", 2)));
        assert_eq!(buckets.last(), Some(&("+Inf", 3)));
        assert!((server_metrics.total_seconds() - 700.011).abs() < 1e-6);
    }

    #[test]
    fn a_method_that_nobody_knows_is_one_of_the_others() {
        let metrics = Metrics::default();
        metrics.count_request("tools/call");
        metrics.count_request("whatever/the/client/likes");
        let counted: Vec<_> = metrics.methods().filter(|it| it.1 > 0).collect();
        assert_eq!(counted, [("tools/call", 1), ("other", 1)]);
    }
}

//! Counters of requests, responses and calls. Counting adds to a shared atomic: it never waits, and allocates only at
//! the first call of a server. `prometheus` renders the counters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use switchboard::audit::log::CallOutcome;
use switchboard_wire::shared::Shared;
use tracing::warn;

use crate::method::Method;
use crate::telemetry::limit_kind::LimitKind;

/// The labels of methods that have a counter of their own. All other methods share the last one.
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
/// The classes of HTTP status codes.
pub(crate) const STATUS_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// The upper bounds of the duration buckets, in milliseconds and as the text of the label in seconds.
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

/// The least number of seconds between two log events of the same limit.
const LIMIT_EVENT_INTERVAL: u64 = 10;

/// Why an HTTP request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    Host,
    Target,
    Origin,
    NoToken,
    Malformed,
    Token,
    Proof,
    Scopes,
    Issuer,
    NoCertificate,
    Tls,
    Revocations,
}

impl RefusalReason {
    /// Every reason, in the order of declaration.
    pub(crate) const ALL: [RefusalReason; 12] = [
        RefusalReason::Host,
        RefusalReason::Target,
        RefusalReason::Origin,
        RefusalReason::NoToken,
        RefusalReason::Malformed,
        RefusalReason::Token,
        RefusalReason::Proof,
        RefusalReason::Scopes,
        RefusalReason::Issuer,
        RefusalReason::NoCertificate,
        RefusalReason::Tls,
        RefusalReason::Revocations,
    ];

    /// The value of the `reason` label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            RefusalReason::Host => "host",
            RefusalReason::Target => "target",
            RefusalReason::Origin => "origin",
            RefusalReason::NoToken => "no-token",
            RefusalReason::Malformed => "malformed",
            RefusalReason::Token => "token",
            RefusalReason::Proof => "proof",
            RefusalReason::Scopes => "scopes",
            RefusalReason::Issuer => "issuer",
            RefusalReason::NoCertificate => "no-certificate",
            RefusalReason::Tls => "tls",
            RefusalReason::Revocations => "revocations-unknown",
        }
    }
}

/// The counters of a gateway.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Open sessions of legacy clients.
    pub(crate) sessions: AtomicU64,
    /// Open HTTP connections.
    pub(crate) connections: AtomicU64,
    /// Requests that were sent to another replica.
    pub(crate) forwarded_requests: AtomicU64,
    /// Sessions that were taken over from a replica that had gone.
    pub(crate) sessions_taken_over: AtomicU64,
    methods: [AtomicU64; COUNTED_METHODS.len()],
    refusals: [AtomicU64; RefusalReason::ALL.len()],
    responses: [AtomicU64; STATUS_CLASSES.len()],
    limits: [LimitMetrics; LimitKind::ALL.len()],
    /// Shared state: changes only at the first call of a server.
    servers: Shared<BTreeMap<String, Arc<ServerMetrics>>>,
}

/// The counter of one limit.
#[derive(Debug, Default)]
struct LimitMetrics {
    rejections: AtomicU64,
    /// The time of the last log event, in seconds since the start of the process; 0 before the first.
    last_event: AtomicU64,
}

/// The counters of one server.
#[derive(Debug, Default)]
pub(crate) struct ServerMetrics {
    /// Calls in flight.
    pub(crate) in_flight: AtomicU64,
    outcomes: [AtomicU64; CallOutcome::ALL.len()],
    /// Calls by duration; the last bucket has no upper bound.
    buckets: [AtomicU64; DURATION_BUCKETS.len() + 1],
    total_micros: AtomicU64,
}

impl Metrics {
    /// Counts a client's request.
    pub(crate) fn count_request(&self, method: &Method) {
        increment(&self.methods, method_index(method));
    }

    /// Counts an HTTP response.
    pub(crate) fn count_response(&self, status: http::StatusCode) {
        increment(&self.responses, usize::from(status.as_u16() / 100).saturating_sub(1));
    }

    /// Counts an HTTP request that was refused.
    pub(crate) fn count_refusal(&self, reason: RefusalReason) {
        increment(&self.refusals, reason as usize);
    }

    /// Counts work that was refused, or dropped, because of a limit. A flood of it is not a flood of log events.
    pub(crate) fn count_limit(&self, limit: LimitKind, principal: &str, now: Duration) {
        let Some(counters) = self.limits.get(limit as usize) else { return };
        counters.rejections.fetch_add(1, Ordering::Relaxed);
        let now = now.as_secs() + LIMIT_EVENT_INTERVAL;
        let is_due = |last: u64| (now >= last + LIMIT_EVENT_INTERVAL).then_some(now);
        let last_event = &counters.last_event;
        if last_event.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok() {
            warn!(limit = limit.label(), principal, "a limit is exceeded");
        }
    }

    /// Starts to measure a call. Dropping the timer before it is finished counts the call as cancelled.
    pub(crate) fn start_call(&self, server: &str) -> CallTimer {
        let known = self.servers.read(|servers| servers.get(server).cloned());
        let server_metrics = known.unwrap_or_else(|| {
            self.servers.update(|servers| servers.entry(server.to_owned()).or_default().clone())
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
        RefusalReason::ALL.into_iter().map(RefusalReason::label).zip(self.refusals.iter().map(load))
    }

    pub(crate) fn limit_rejections(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let rejections = self.limits.iter().map(|it| load(&it.rejections));
        LimitKind::ALL.into_iter().map(LimitKind::label).zip(rejections)
    }

    pub(crate) fn responses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        STATUS_CLASSES.into_iter().zip(self.responses.iter().map(load))
    }

    /// The counters of every server that was called since the start.
    pub(crate) fn servers(&self) -> BTreeMap<String, Arc<ServerMetrics>> {
        self.servers.read(BTreeMap::clone)
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

    /// The number of calls up to each bound, and the number of all calls.
    pub(crate) fn cumulative_buckets(&self) -> Vec<(&'static str, u64)> {
        let bounds = DURATION_BUCKETS.into_iter().map(|it| it.1).chain(["+Inf"]);
        let mut sum = 0;
        let mut cumulative = |(bound, range): (&'static str, &AtomicU64)| {
            sum += load(range);
            (bound, sum)
        };
        bounds.zip(&self.buckets).map(&mut cumulative).collect()
    }

    /// The sum of all durations, in seconds.
    pub(crate) fn total_seconds(&self) -> f64 {
        Duration::from_micros(load(&self.total_micros)).as_secs_f64()
    }
}

/// Measures a call.
#[derive(Debug)]
pub(crate) struct CallTimer {
    server: Arc<ServerMetrics>,
    started: Instant,
    outcome: CallOutcome,
}

impl CallTimer {
    /// Counts the call with this outcome.
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

/// Increments a gauge until it is dropped.
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

/// The place of a method's counter in [`COUNTED_METHODS`].
fn method_index(method: &Method) -> usize {
    match method {
        Method::ToolsCall => 0,
        Method::ToolsList => 1,
        Method::ResourcesRead => 2,
        Method::ResourcesList => 3,
        Method::ResourceTemplatesList => 4,
        Method::PromptsGet => 5,
        Method::PromptsList => 6,
        Method::Complete => 7,
        Method::SetLogLevel => 8,
        Method::SkillsList => 9,
        Method::SkillsGet => 10,
        Method::TasksGet => 11,
        Method::TasksUpdate => 12,
        Method::TasksCancel => 13,
        Method::TasksResult => 14,
        Method::TasksList => 15,
        Method::Initialize
        | Method::Ping
        | Method::Discover
        | Method::ResourceDirectoryRead
        | Method::ResourcesSubscribe
        | Method::ResourcesUnsubscribe
        | Method::SubscriptionsListen
        | Method::Other(_) => COUNTED_METHODS.len() - 1,
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
    fn a_call_is_counted_once_and_a_dropped_one_as_cancelled() {
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
    fn duration_buckets_are_cumulative() {
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
    fn each_counted_method_has_the_counter_of_its_label_and_all_others_share_one() {
        let metrics = Metrics::default();
        for label in COUNTED_METHODS {
            metrics.count_request(&Method::parse(label.into()));
        }
        assert!(metrics.methods().all(|it| it.1 == 1));
        metrics.count_request(&Method::Other("not/a/method".into()));
        assert_eq!(metrics.methods().last(), Some(("other", 2)));
    }

    #[test]
    fn a_refusal_is_counted_under_its_reason() {
        let metrics = Metrics::default();
        for reason in RefusalReason::ALL {
            metrics.count_refusal(reason);
            let counted = metrics.refusals().find(|it| it.0 == reason.label());
            assert_eq!(counted, Some((reason.label(), 1)));
        }
    }
}

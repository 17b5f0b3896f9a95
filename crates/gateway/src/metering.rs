//! Counts what goes through. Counting is adding to a number that everybody shares: nothing waits and nothing is
//! allocated, except when a server is called for the first time. `metrics_page` writes the numbers down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use switchboard::audit::Ended;
use switchboard_auth::verify::Refusal;
use tokio::sync::watch;

use crate::head_guard::Reason;

/// The methods that are counted each for itself; all others are one.
pub(crate) const METHODS: [&str; 17] = [
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
pub(crate) const REFUSALS: [&str; 9] =
    ["host", "target", "origin", "no-token", "malformed", "token", "proof", "scopes", "issuer"];
/// The kinds of answers over HTTP.
pub(crate) const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// The ends of the ranges that durations are sorted into, in milliseconds, and how they are written in seconds.
pub(crate) const BOUNDS: [(u64, &str); 15] = [
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
pub(crate) struct Meters {
    /// Sessions of legacy clients that are open.
    pub(crate) sessions: AtomicU64,
    /// Connections that are open.
    pub(crate) connections: AtomicU64,
    methods: [AtomicU64; METHODS.len()],
    refusals: [AtomicU64; REFUSALS.len()],
    responses: [AtomicU64; CLASSES.len()],
    servers: watch::Sender<BTreeMap<String, Arc<ServerMeter>>>,
}

/// One server's.
#[derive(Debug, Default)]
pub(crate) struct ServerMeter {
    /// Calls that are under way.
    pub(crate) under_way: AtomicU64,
    ended: [AtomicU64; Ended::ALL.len()],
    /// How many took how long; the last range has no end.
    ranges: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl Meters {
    /// Somebody asked something.
    pub(crate) fn asked(&self, method: &str) {
        let place = METHODS.iter().position(|it| *it == method).unwrap_or(METHODS.len() - 1);
        add(&self.methods, place);
    }

    /// A request was answered with this status.
    pub(crate) fn responded(&self, status: http::StatusCode) {
        add(&self.responses, usize::from(status.as_u16() / 100).saturating_sub(1));
    }

    /// The guard turned a request away.
    pub(crate) fn turned_away(&self, reason: &Reason) {
        self.refused(match reason {
            Reason::NoHost | Reason::SeveralHosts | Reason::MalformedHost | Reason::ForeignHost => {
                "host"
            }
            Reason::BadTarget => "target",
            Reason::SeveralOrigins | Reason::NullOrigin | Reason::ForeignOrigin => "origin",
        });
    }

    /// The doorkeeper let somebody wait outside.
    pub(crate) fn kept_out(&self, refusal: &Refusal) {
        self.refused(match refusal {
            Refusal::NoToken => "no-token",
            Refusal::Malformed => "malformed",
            Refusal::Token(_) => "token",
            Refusal::Proof(_) => "proof",
            Refusal::Scopes(_) => "scopes",
            Refusal::Unavailable(_) => "issuer",
        });
    }

    fn refused(&self, word: &str) {
        if let Some(place) = REFUSALS.iter().position(|it| *it == word) {
            add(&self.refusals, place);
        }
    }

    /// A call begins. It is counted when it ends, and as called off when it is dropped before.
    pub(crate) fn call(&self, server: &str) -> Measured {
        let meter = self.servers.borrow().get(server).cloned();
        let meter = meter.unwrap_or_else(|| {
            let mut made = Arc::default();
            self.servers.send_modify(|servers| {
                made = servers.entry(server.to_owned()).or_default().clone();
            });
            made
        });
        meter.under_way.fetch_add(1, Ordering::Relaxed);
        Measured { meter, began: Instant::now(), ended: Ended::Cancelled }
    }

    pub(crate) fn methods(&self) -> impl Iterator<Item = (&'static str, u64)> {
        METHODS.into_iter().zip(self.methods.iter().map(read))
    }

    pub(crate) fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REFUSALS.into_iter().zip(self.refusals.iter().map(read))
    }

    pub(crate) fn responses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CLASSES.into_iter().zip(self.responses.iter().map(read))
    }

    /// Every server that was called so far.
    pub(crate) fn servers(&self) -> BTreeMap<String, Arc<ServerMeter>> {
        self.servers.borrow().clone()
    }
}

impl ServerMeter {
    fn note(&self, ended: Ended, took: Duration) {
        let place = Ended::ALL.iter().position(|it| *it == ended).unwrap_or_default();
        add(&self.ended, place);
        let is_within = |it: &(u64, &str)| took <= Duration::from_millis(it.0);
        add(&self.ranges, BOUNDS.iter().position(is_within).unwrap_or(BOUNDS.len()));
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Ended::ALL.into_iter().map(Ended::id).zip(self.ended.iter().map(read))
    }

    /// How many calls took at most so long, for every bound and without one.
    pub(crate) fn within(&self) -> Vec<(&'static str, u64)> {
        let bounds = BOUNDS.into_iter().map(|it| it.1).chain(["+Inf"]);
        let mut sum = 0;
        let mut upto = |(bound, range): (&'static str, &AtomicU64)| {
            sum += read(range);
            (bound, sum)
        };
        bounds.zip(&self.ranges).map(&mut upto).collect()
    }

    /// How long all calls together took, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        Duration::from_micros(read(&self.micros)).as_secs_f64()
    }
}

/// A call that is being measured.
#[derive(Debug)]
pub(crate) struct Measured {
    meter: Arc<ServerMeter>,
    began: Instant,
    ended: Ended,
}

impl Measured {
    /// It is over.
    pub(crate) fn over(mut self, ended: Ended) {
        self.ended = ended;
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.meter.under_way.fetch_sub(1, Ordering::Relaxed);
        self.meter.note(self.ended, self.began.elapsed());
    }
}

/// A number that is one more for as long as this lives.
#[derive(Debug)]
pub(crate) struct Present<'a>(&'a AtomicU64);

impl<'a> Present<'a> {
    pub(crate) fn at(number: &'a AtomicU64) -> Present<'a> {
        number.fetch_add(1, Ordering::Relaxed);
        Present(number)
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn add(numbers: &[AtomicU64], place: usize) {
    if let Some(number) = numbers.get(place) {
        number.fetch_add(1, Ordering::Relaxed);
    }
}

fn read(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_once_and_a_dropped_one_as_called_off() {
        let meters = Meters::default();
        meters.call("s").over(Ended::Denied);
        drop(meters.call("s"));
        let open = meters.call("s");
        let servers = meters.servers();
        let ended: Vec<_> = servers["s"].ended().filter(|it| it.1 > 0).collect();
        assert_eq!(ended, [("denied", 1), ("cancelled", 1)]);
        assert_eq!(servers["s"].under_way.load(Ordering::Relaxed), 1);
        drop(open);
        assert_eq!(servers["s"].under_way.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn durations_are_sorted_into_ranges_that_include_the_smaller_ones() {
        let meter = ServerMeter::default();
        for millis in [5, 6, 700_000] {
            meter.note(Ended::Done, Duration::from_millis(millis));
        }
        let within = meter.within();
        assert_eq!((within[0], within[1]), (("0.005", 1), ("0.01", 2)));
        assert_eq!(within.last(), Some(&("+Inf", 3)));
        assert!((meter.seconds() - 700.011).abs() < 1e-6);
    }

    #[test]
    fn a_method_that_nobody_knows_is_one_of_the_others() {
        let meters = Meters::default();
        meters.asked("tools/call");
        meters.asked("whatever/the/client/likes");
        let asked: Vec<_> = meters.methods().filter(|it| it.1 > 0).collect();
        assert_eq!(asked, [("tools/call", 1), ("other", 1)]);
    }
}

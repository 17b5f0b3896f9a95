//! The page: tables, which targets are met, and the size of a fleet computed from the figures.

use super::fleet::Setup;
use super::{CLIENTS, Figures, KILLED_REPLICAS, Rate, SIZE};
use crate::benchmarks::gateway::load::Era;
use crate::machine;
use crate::output::report::{Extent, Report};
use crate::output::table;

/// The users of the fleet that is computed.
const USERS: f64 = 100_000.0;
/// How often a user makes a call at the busiest time, in seconds.
const SECONDS_BETWEEN_CALLS: f64 = 30.0;
/// How much of a core may be used.
const USED_SHARE: f64 = 0.5;
/// The least that two replicas with a store must reach of the rate of one without, and the most that they may add.
const LEGACY_SHARE: f64 = 0.7;
const MODERN_SHARE: f64 = 0.9;
const MAX_ADDED_P99: f64 = 3000.0;
const MAX_RESUME: f64 = 1000.0;

impl Figures {
    fn rate(&self, setup: Setup, era: Era) -> Option<Rate> {
        self.rates.iter().find(|it| it.0 == setup && it.1 == era)?.2
    }

    /// The rate of two replicas with a store as a share of that of one, and the added 99th percentile.
    fn share(&self, era: Era) -> Option<(f64, f64)> {
        let one = self.rate(Setup::OneBehindBalancer, era)?;
        let two = self.rate(Setup::TwoWithStore, era)?;
        Some((two.calls_per_second / one.calls_per_second, two.p99 - one.p99))
    }
}

fn name(era: Era) -> &'static str {
    match era {
        Era::Legacy => "2025-06-18",
        Era::Modern => "2026-07-28",
    }
}

fn rates_table(figures: &Figures) -> String {
    let header = ["", "version", "calls/s", "p50 ms", "p99 ms", "replicas' CPU µs per call"];
    let milliseconds = |micros: f64| format!("{:.2}", micros / 1000.0);
    let row = |(setup, era, rate): &(Setup, Era, Option<Rate>)| {
        let rate = rate.as_ref()?;
        Some(vec![
            setup.label().to_owned(),
            name(*era).to_owned(),
            table::thousands(rate.calls_per_second),
            milliseconds(rate.p50),
            milliseconds(rate.p99),
            format!("{:.0}", rate.cpu_per_call),
        ])
    };
    let rows: Vec<Vec<String>> = figures.rates.iter().filter_map(row).collect();
    table::markdown(&header, &[0, 1], &rows)
}

/// Subject, limit, measured value, and whether it was met.
fn budgets(figures: &Figures) -> Vec<Vec<String>> {
    let word = |is_met: bool| if is_met { "met" } else { "**missed**" }.to_owned();
    let mut all = Vec::new();
    for (era, least) in [(Era::Legacy, LEGACY_SHARE), (Era::Modern, MODERN_SHARE)] {
        let Some((share, added)) = figures.share(era) else { continue };
        all.push(vec![
            format!("rate of two replicas with a store, {}", name(era)),
            format!("≥ {least} × one without"),
            format!("{share:.2} ×"),
            word(share >= least),
        ]);
        all.push(vec![
            format!("99th percentile with a store, {}", name(era)),
            format!("≤ {:.0} ms more", MAX_ADDED_P99 / 1000.0),
            format!("{:+.1} ms", added / 1000.0),
            word(added <= MAX_ADDED_P99),
        ]);
    }
    let killed = &figures.store_killed;
    let doubled = killed.executed - (killed.answered + killed.failed) as f64;
    all.push(vec![
        "calls that failed while the store was killed and restarted".to_owned(),
        "0".to_owned(),
        format!("{} of {}", killed.failed, killed.answered + killed.failed),
        word(killed.failed == 0),
    ]);
    all.push(vec![
        "calls that were executed more often than made".to_owned(),
        "0".to_owned(),
        format!("{:.0}", doubled.max(0.0)),
        word(doubled <= 0.0),
    ]);
    let worst = figures.resumed.last().copied().unwrap_or_default();
    all.push(vec![
        "a session goes on after its replica was killed".to_owned(),
        format!("≤ {MAX_RESUME:.0} ms"),
        format!("{worst:.0} ms at worst"),
        word(worst <= MAX_RESUME),
    ]);
    all
}

fn fleet_text(figures: &Figures) -> String {
    let calls = USERS / SECONDS_BETWEEN_CALLS;
    let line = |era: Era| {
        let cpu = figures.rate(Setup::TwoWithStore, era)?.cpu_per_call;
        let cores = calls * cpu / 1e6 / USED_SHARE;
        Some(format!(
            "- {}: {:.0} calls/s × {cpu:.0} µs = {:.1} cores at full use, **{:.0} cores** at {:.0} % use.\n",
            name(era),
            calls,
            calls * cpu / 1e6,
            cores.ceil(),
            USED_SHARE * 100.0
        ))
    };
    let lines: String = [Era::Legacy, Era::Modern].into_iter().filter_map(line).collect();
    let gigabytes = |bytes: f64| bytes * USERS / 1e9;
    format!(
        "## A fleet for 100,000 users\n\nComputed, not measured: {USERS:.0} users who each make a call every {SECONDS_BETWEEN_CALLS:.0} s at the busiest \
         time, all connected.\n\n{lines}\
         - Sessions of older clients: {:.1} KB each in a replica, {:.1} KB each in the store: {:.1} GB in all replicas together and \
         {:.1} GB in the store, before events that wait for clients. The default limit of 10,000 sessions for each replica \
         (`gatewayLimits.sessionsTotal`) has to be raised, or there must be ten replicas.\n\
         - With one event stream for each user, each replica needs as many file descriptors as it has users, and so does the balancer.\n\
         - With n replicas behind a balancer without affinity, a share of (n − 1)/n of the requests of older clients takes the way \
         through a second replica. The figure above is for n = 2, half of them; for many replicas count almost twice the difference to \
         one replica.\n",
        figures.memory.replica_bytes / 1e3,
        figures.memory.store_bytes / 1e3,
        gigabytes(figures.memory.replica_bytes),
        gigabytes(figures.memory.store_bytes),
    )
}

pub(super) fn draw(figures: &Figures) -> Report {
    let budgets = budgets(figures);
    let killed = &figures.store_killed;
    let resumed: Vec<String> = figures.resumed.iter().map(|it| format!("{it:.0}")).collect();
    let text = format!(
        "# Replicas\n\nWritten by `cargo xtask bench scale`. Machine: {}.\n\n\
         {CLIENTS} clients make calls as fast as they can, each answered with {SIZE} bytes by a server over HTTP. Clients, HAProxy, replicas, store and \
         server share the cores of one machine, so that two replicas have no more processors than one: the table shows what \
         sharing costs, not what a second machine gains. Each figure is the median of the runs, whose setups alternate.\n\n{}\n\
         ## Targets\n\n{}\n\
         ## A part is killed\n\n\
         **The store** was killed for two seconds under calls of {CLIENTS} clients, half of each version, whose sessions both replicas \
         knew: {} calls answered, {} failed, {:.0} executed according to the replicas, the slowest took {:.0} ms. It lost all it \
         held and got the sessions again.\n\n\
         **A replica** was killed (SIGKILL) {KILLED_REPLICAS} times while it owned a session. The next call in the session, tried every 10 ms \
         through HAProxy, succeeded after {} ms. This includes the time until HAProxy stops choosing the dead replica for some requests.\n\n{}",
        machine::describe(),
        rates_table(figures),
        table::markdown(&["", "target", "measured", ""], &[0], &budgets),
        killed.answered,
        killed.failed,
        killed.executed,
        killed.worst,
        resumed.join(", "),
        fleet_text(figures),
    );
    Report { name: "scale", text, pictures: Vec::new(), budgets, extent: Extent::Whole }
}

//! Draws the page of a run: what each client cost, and which budgets that meets.

use super::client::ClientKind;
use super::load_request::{CallCost, Transport};
use super::{CallMode, LARGE, MAX_IN_FLIGHT, REPETITIONS, Row, SIZES, SMALL};
use crate::machine;
use crate::output::plot::{Lines, Role, Series, Tick};
use crate::output::report::{Extent, Picture, Report};
use crate::output::table;
use crate::output::table::{thousands, two_digits};

/// The whole page, or the part that was measured.
pub fn draw(parts: &[(Transport, Vec<Row>)], extent: Extent) -> Report {
    let (mut pictures, mut all_budgets) = (Vec::new(), Vec::new());
    let mut page = format!(
        "\
# A call to another process

Written by `cargo xtask bench calls`. Machine: {}.

Each cell has three figures: the median time of sequential calls in µs, with client and server on one core; the same with any core;
and calls per second with {MAX_IN_FLIGHT} in flight, with any core. On two cores that sleep while they wait, most of a short call is the wake-up,
and the scheduler decides whether a client gets one core or two. On one core the time is the work of client and server. Budgets of time
are therefore checked twice.

All figures are medians of {REPETITIONS} repetitions, in which the clients ran in turn. The response to a `tools/call` is a text of the size in the
column's header; the server searches for a few bytes instead of parsing. Every client is a process of its own with one thread for its
calls (the runtimes of JavaScript and Python start more), measures itself, and makes half as many calls first to warm up.
CPU is that of the client alone, and peak its largest resident set, for sequential calls of 100 B on one core.
The ratios are comparable on this machine; the absolute numbers depend on its other load.
",
        machine::describe(),
    );
    for (transport, rows) in parts {
        let title = match transport {
            Transport::Stdio => "Standard streams",
            Transport::Http => "Streamable HTTP",
        };
        let budgets: Vec<_> = budgets(*transport).iter().map(|it| it.row(rows)).collect();
        let pair =
            [CallMode::OneCore, CallMode::InFlight].map(|mode| picture(*transport, rows, mode));
        let links: String = pair.iter().map(Picture::link).collect();
        page.push_str(&format!("\n## {title}\n\n{}\n{links}\n", costs(*transport, rows)));
        page.push_str(&table::markdown(
            &["budget", "where", "limit", "measured", ""],
            &[1, 4],
            &budgets,
        ));
        pictures.extend(pair);
        all_budgets.extend(budgets.into_iter().map(|it| index_row(title, it)));
    }
    Report { name: "calls", text: page, pictures, budgets: all_budgets, extent }
}

/// What and where in one cell.
fn index_row(title: &str, mut budget: Vec<String>) -> Vec<String> {
    let place = budget.remove(1);
    budget[0] = format!("{title}, {}, {place}", budget[0]);
    budget
}

/// How a call's cost grows with what comes back.
fn picture(transport: Transport, rows: &[Row], mode: CallMode) -> Picture {
    let (file, over) = match transport {
        Transport::Stdio => ("stdio", "standard streams"),
        Transport::Http => ("http", "streamable HTTP"),
    };
    let (file, what, upwards): (String, &str, &str) = match mode {
        CallMode::InFlight => {
            (format!("calls-{file}-rate"), "Calls a second, 64 in flight", "calls a second")
        }
        CallMode::OneCore | CallMode::AnyCore => {
            (format!("calls-{file}"), "One call after the other", "µs a call, on one core")
        }
    };
    let title = format!("{what}, over {over}, by the size of the result");
    let figure = |row: &Row, size: usize| {
        row.cost(size, mode).map(|it| match mode {
            CallMode::InFlight => it.calls_per_second,
            CallMode::OneCore | CallMode::AnyCore => it.p50,
        })
    };
    let series = rows.iter().map(|row| {
        let role = match row.client.kind {
            ClientKind::Baseline => Role::Baseline,
            ClientKind::Ours => Role::Ours,
            ClientKind::HandWritten
            | ClientKind::OursDecoded
            | ClientKind::Rmcp
            | ClientKind::TypescriptV1
            | ClientKind::TypescriptV2
            | ClientKind::Python => Role::Other,
        };
        let label = row.client.kind.label(transport);
        Series::new(label, role, SIZES.iter().map(|size| figure(row, *size)).collect())
    });
    let stops = SIZES.iter().zip(["100 B", "10 KB", "1 MB"]);
    let stops = stops.map(|(size, label)| Tick { size: *size as f64, label: label.to_owned() });
    let (stops, series) = (stops.collect(), series.collect());
    let lines = Lines {
        title: &title,
        x_axis: "size of the result",
        y_axis: upwards,
        ticks: stops,
        series,
    };
    Picture::new(&file, &title, lines.draw())
}

fn costs(transport: Transport, rows: &[Row]) -> String {
    let row = |row: &Row| {
        let mut cells = vec![row.client.kind.label(transport).to_owned()];
        cells.extend(SIZES.map(|size| {
            let figure = |mode, figure: fn(&CallCost) -> f64| {
                row.cost(size, mode).map_or("–".to_owned(), |it| short(figure(&it)))
            };
            let times =
                [CallMode::OneCore, CallMode::AnyCore].map(|mode| figure(mode, |it| it.p50));
            let many = figure(CallMode::InFlight, |it| it.calls_per_second);
            format!("{} / {} / {many}", times[0], times[1])
        }));
        let small = row.cost(SMALL, CallMode::OneCore);
        let part = |figure: fn(&CallCost) -> f64| {
            small.as_ref().map_or("–".to_owned(), |it| short(figure(it)))
        };
        cells.push(part(|it| it.cpu_per_call));
        cells.push(part(|it| it.peak_kilobytes * 1024.0 / 1e6));
        cells
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    table::markdown(&["client", "100 B", "10 KB", "1 MB", "CPU µs", "peak MB"], &[], &rows)
}

/// What ours may cost, measured by what another client costs.
struct Budget {
    what: &'static str,
    other: ClientKind,
    size: usize,
    mode: CallMode,
    limit: Limit,
}

#[derive(Clone, Copy)]
enum Limit {
    /// The time of a call is at most so many times the other's.
    AtMost(f64),
    /// The other's time of a call is at least so many times ours.
    TimesFaster(f64),
    /// Calls per second are at least so many times the other's.
    TimesMore(f64),
}

fn budgets(transport: Transport) -> Vec<Budget> {
    use Limit::{AtMost, TimesFaster, TimesMore};
    let by_hand =
        ("100 B: time, next to hand-written", ClientKind::HandWritten, SMALL, AtMost(1.5));
    let times = match transport {
        Transport::Stdio => vec![
            by_hand,
            ("100 B: faster than the Rust SDK", ClientKind::Rmcp, SMALL, TimesFaster(3.0)),
            (
                "100 B: faster than the TypeScript SDK v1",
                ClientKind::TypescriptV1,
                SMALL,
                TimesFaster(3.0),
            ),
            (
                "100 B: faster than the TypeScript SDK v2",
                ClientKind::TypescriptV2,
                SMALL,
                TimesFaster(3.0),
            ),
            ("100 B: faster than the Python SDK", ClientKind::Python, SMALL, TimesFaster(3.0)),
            ("1 MB: faster than the Rust SDK", ClientKind::Rmcp, LARGE, TimesFaster(8.0)),
        ],
        Transport::Http => vec![
            by_hand,
            ("100 B: faster than the Rust SDK", ClientKind::Rmcp, SMALL, TimesFaster(5.0)),
            ("1 MB: faster than the Rust SDK", ClientKind::Rmcp, LARGE, TimesFaster(4.0)),
        ],
    };
    let twice = times.into_iter().flat_map(|(what, other, size, limit)| {
        [CallMode::OneCore, CallMode::AnyCore].map(|mode| Budget { what, other, size, mode, limit })
    });
    let in_flight = match transport {
        Transport::Stdio => Some(Budget {
            what: "100 B: more calls/s than the Rust SDK",
            other: ClientKind::Rmcp,
            size: SMALL,
            mode: CallMode::InFlight,
            limit: TimesMore(5.0),
        }),
        Transport::Http => None,
    };
    twice.chain(in_flight).collect()
}

impl Budget {
    fn row(&self, rows: &[Row]) -> Vec<String> {
        let of = |who: ClientKind| {
            rows.iter().find(|row| row.client.kind == who)?.cost(self.size, self.mode)
        };
        let both = of(ClientKind::Ours).zip(of(self.other));
        let ratio = both.map(|(ours, it)| match self.limit {
            Limit::AtMost(_) => ours.p50 / it.p50,
            Limit::TimesFaster(_) => it.p50 / ours.p50,
            Limit::TimesMore(_) => ours.calls_per_second / it.calls_per_second,
        });
        let (limit, is_met) = match self.limit {
            Limit::AtMost(most) => (format!("≤ {most}×"), ratio.map(|it| it <= most)),
            Limit::TimesFaster(least) | Limit::TimesMore(least) => {
                (format!("≥ {least}×"), ratio.map(|it| it >= least))
            }
        };
        let mode = match self.mode {
            CallMode::OneCore => "one core",
            CallMode::AnyCore => "anywhere",
            CallMode::InFlight => "64 in flight",
        };
        let verdict = match is_met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "unknown: not measured",
        };
        let measured = ratio.map_or("–".to_owned(), |ratio| format!("{}×", two_digits(ratio)));
        [self.what, mode, &limit, &measured, verdict].map(str::to_owned).to_vec()
    }
}

/// A number with as many digits as mean something.
fn short(number: f64) -> String {
    if number < 20.0 { format!("{number:.1}") } else { thousands(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmarks::calls::client::{Client, Pace};

    fn row(who: ClientKind, p50: f64, calls_per_second: f64) -> Row {
        let cost = CallCost { p50, calls_per_second, cpu_per_call: 0.0, peak_kilobytes: 0.0 };
        let client = Client { kind: who, pace: Pace::Native, command: Vec::new() };
        let mut row = Row { client, costs: Default::default() };
        row.costs.iter_mut().flatten().for_each(|costs| costs.push(cost));
        row
    }

    fn budget(limit: Limit) -> Budget {
        Budget { what: "it", other: ClientKind::Rmcp, size: SMALL, mode: CallMode::OneCore, limit }
    }

    #[track_caller]
    fn check(limit: Limit, ours: (f64, f64), expected: [&str; 3]) {
        let rows = [row(ClientKind::Ours, ours.0, ours.1), row(ClientKind::Rmcp, 10.0, 100.0)];
        assert_eq!(budget(limit).row(&rows)[2..], expected);
    }

    #[test]
    fn a_budget_is_met_at_its_limit_and_missed_beyond() {
        check(Limit::AtMost(1.5), (15.0, 0.0), ["≤ 1.5×", "1.50×", "met"]);
        check(Limit::AtMost(1.5), (20.0, 0.0), ["≤ 1.5×", "2.00×", "**missed**"]);
        check(Limit::TimesFaster(5.0), (2.0, 0.0), ["≥ 5×", "5.00×", "met"]);
        check(Limit::TimesFaster(5.0), (4.0, 0.0), ["≥ 5×", "2.50×", "**missed**"]);
        check(Limit::TimesMore(5.0), (0.0, 500.0), ["≥ 5×", "5.00×", "met"]);
        check(Limit::TimesMore(5.0), (0.0, 100.0), ["≥ 5×", "1.00×", "**missed**"]);
    }

    #[test]
    fn a_client_that_was_not_measured_meets_no_budget() {
        let row = budget(Limit::AtMost(1.0)).row(&[row(ClientKind::Rmcp, 1.0, 1.0)]);
        assert_eq!(row[2..], ["≤ 1×", "–", "unknown: not measured"]);
    }

    #[test]
    fn every_budget_of_time_is_judged_in_both_places() {
        for transport in [Transport::Stdio, Transport::Http] {
            let budgets = budgets(transport);
            let count = |mode| budgets.iter().filter(|it| it.mode == mode).count();
            assert_eq!(count(CallMode::OneCore), count(CallMode::AnyCore));
        }
    }
}

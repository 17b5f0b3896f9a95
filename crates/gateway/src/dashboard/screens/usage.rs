//! Usage over time, rolled up from the audit log.

use maud::{Markup, html};

use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::link;
use crate::dashboard::page::{NavItem, Section, View};
use crate::dashboard::parts::{count, millis, name, nothing, shown, thousands, timestamp};
use crate::dashboard::usage_report::{Period, UsageReport, Use};

pub(super) async fn render(period: Period, context: ScreenContext<'_>) -> View {
    let report = context.parts.records.usage(period).await;
    let sections = vec![
        Section::Static(html! {
            h1 { "Usage" }
            div.tabs role="group" aria-label="Period" {
                @for one in Period::ALL {
                    a.tab href=(link("/ui/usage", &[("period", one.id())])) aria-current=[(one == period).then_some("true")] {
                        (one.label())
                    }
                }
            }
        }),
        Section::Live("usage", body(&report, period)),
    ];
    View::new("Usage", NavItem::Usage, sections)
}

fn body(report: &UsageReport, period: Period) -> Markup {
    if let Some(failure) = &report.failure {
        return html! { p.notice.problem { "The audit log cannot be read: " (shown(failure, 300)) } };
    }
    let tools = report.tools.iter().map(|((server, tool), used)| {
        let target = link("/ui/calls", &[("server", server), ("tool", tool)]);
        (html! { (name(tool)) span.quiet { " of " (name(server)) } }, target, used)
    });
    let servers = report.servers.iter().map(|(server, used)| {
        (
            name(if server.is_empty() { "unknown" } else { server }),
            link("/ui/calls", &[("server", server)]),
            used,
        )
    });
    let principals = report.principals.iter().map(|(principal, used)| {
        (name(principal), link("/ui/calls", &[("principal", principal)]), used)
    });
    html! {
        dl.tiles {
            (tile("Calls", report.total.calls))
            (tile("Errors", report.total.errors))
            (tile("Denied", report.total.denied))
            div.tile { dt { "Mean duration" } dd { (millis(report.total.mean_ms() as f64)) } }
        }
        @if let Some(since) = &report.covers_since {
            p.notice.warning { "The log is longer than this page reads; it covers the time since " (timestamp(since)) "." }
        }
        @if report.total.calls == 0 {
            (nothing("No calls in this period."))
        } @else {
            (chart(report, period))
            (table("tools", "Tools", tools))
            (table("servers", "Servers", servers))
            (table("principals", "Principals", principals))
        }
    }
}

fn tile(term: &str, number: u64) -> Markup {
    html! { div.tile { dt { (term) } dd { (thousands(number)) } } }
}

/// Calls by time as bars; the failed part is at the bottom of its bar. The table below the picture says the same in numbers.
fn chart(report: &UsageReport, period: Period) -> Markup {
    const HEIGHT: f64 = 100.0;
    const BAR: f64 = 20.0;
    let highest = report.bars.iter().map(|it| it.1.calls).max().unwrap_or(1).max(1) as f64;
    let width = report.bars.len() as f64 * BAR;
    let size = |calls: u64| calls as f64 / highest * HEIGHT;
    html! {
        figure.chart {
            svg viewBox={"0 0 " (width) " " (HEIGHT)} preserveAspectRatio="none" role="img" aria-label={"Calls by time, " (period.label())} {
                @for (at, (start, used)) in report.bars.iter().enumerate() {
                    @let failed = used.errors + used.denied;
                    g {
                        title { (shown(start, 30)) ": " (used.calls) " calls, " (failed) " failed or denied" }
                        rect.bar x=(at as f64 * BAR + 2.0) width=(BAR - 4.0) y=(format!("{:.1}", HEIGHT - size(used.calls))) height=(format!("{:.1}", size(used.calls))) {}
                        rect.failed x=(at as f64 * BAR + 2.0) width=(BAR - 4.0) y=(format!("{:.1}", HEIGHT - size(failed))) height=(format!("{:.1}", size(failed))) {}
                    }
                }
            }
            figcaption {
                span { @if let Some(first) = report.bars.first() { (timestamp(&first.0)) } }
                span.key { span.swatch.bar {} "calls " span.swatch.failed {} "failed or denied · highest bar " (thousands(highest as u64)) }
                span { "now" }
            }
            details {
                summary { "As a table" }
                div.table {
                    table {
                        thead { tr { th scope="col" { "From" } th.number scope="col" { "Calls" } th.number scope="col" { "Errors" } th.number scope="col" { "Denied" } } }
                        tbody {
                            @for (start, used) in report.bars.iter().rev().filter(|it| it.1.calls > 0) {
                                tr {
                                    th scope="row" { (timestamp(start)) }
                                    td.number { (count(used.calls)) }
                                    td.number { (count(used.errors)) }
                                    td.number { (count(used.denied)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn table<'a>(
    id: &str,
    heading: &str,
    rows: impl Iterator<Item = (Markup, String, &'a Use)>,
) -> Markup {
    html! {
        section aria-labelledby={(id) "-heading"} {
            h2 id={(id) "-heading"} { (heading) }
            div.table {
                table {
                    thead {
                        tr {
                            th scope="col" { "Name" }
                            th.number scope="col" { "Calls" }
                            th.number scope="col" { "Errors" }
                            th.number scope="col" { "Denied" }
                            th.number scope="col" { "Mean" }
                            th.number scope="col" { "Longest" }
                        }
                    }
                    tbody {
                        @for (label, target, used) in rows {
                            tr {
                                th scope="row" { a href=(target) { (label) } }
                                td.number { (thousands(used.calls)) }
                                td.number { (count(used.errors)) }
                                td.number { (count(used.denied)) }
                                td.number { (millis(used.mean_ms() as f64)) }
                                td.number { (millis(used.longest_ms() as f64)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

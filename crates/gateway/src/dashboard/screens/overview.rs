//! The first screen: how the gateway does, and every server with its state, the cause of a problem and what mends it.

use maud::{Markup, html};
use switchboard::Snapshot;
use switchboard::catalogue::ListKind;
use switchboard::connection::{ServerView, Status};

use super::replicas;
use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::link;
use crate::dashboard::history::{Activity, MetricsHistory};
use crate::dashboard::operator::{ConfiguredServer, SharedHostView};
use crate::dashboard::page::{NavItem, RenderScope, Section, View};
use crate::dashboard::parts::{
    Tone, badge, count, latency, name, nothing, prose, seconds_since_1970, shown, thousands,
};

/// The most servers that are listed.
const MAX_SERVERS: usize = 500;
/// The longest cause and remedy, in characters.
const MAX_CAUSE_CHARS: usize = 300;
/// The states of definitions that are left out without anything to mend.
const QUIET_STATES: [&str; 4] = ["ready", "shadowed", "duplicate", "left-out"];

pub(super) async fn render(context: ScreenContext<'_>, scope: RenderScope) -> View {
    let host = &context.parts.gateway.relay.host;
    let (snapshot, history) = (host.snapshot(), context.parts.history.borrow().clone());
    let mut sections = vec![
        Section::Static(html! { h1 { "Overview" } }),
        Section::Live("summary", summary(&context, &snapshot, &history)),
        Section::Live("servers", servers(&snapshot, &history)),
        Section::Live("replicas", replicas::section(&context.parts.gateway.relay.shared)),
    ];
    if scope == RenderScope::Page {
        let operator = context.parts.operator.clone();
        let shared = tokio::task::spawn_blocking(move || operator.shared_host()).await;
        let configured = match context.parts.configuration().await {
            Ok(configuration) => not_served(&configuration.servers),
            Err(why) => html! { p.notice.problem { (why) } },
        };
        sections.push(Section::Static(configured));
        if let Ok(Some(shared)) = shared {
            sections.push(Section::Static(shared_host(&shared)));
        }
    }
    View::new("Overview", NavItem::Overview, sections)
}

fn summary(context: &ScreenContext<'_>, snapshot: &Snapshot, history: &MetricsHistory) -> Markup {
    let views: Vec<_> = snapshot.servers.values().collect();
    let connected = views.iter().filter(|it| it.status == Status::Connected).count();
    let activity = history.total();
    let sessions = context.clients.sessions().len();
    let waiting = context.parts.approvals.pending().len();
    let servers_tone = if connected == views.len() { "" } else { " attention" };
    let errors_tone = if activity.errors > 0 { " attention" } else { "" };
    html! {
        dl.tiles {
            div class={"tile" (servers_tone)} {
                dt { "Servers connected" }
                dd { (connected) span.of { " of " (views.len()) } }
            }
            div.tile.wide {
                dt { "Calls per second" }
                dd { (format!("{:.1}", activity.rate)) }
                (curve(&history.curve()))
            }
            div class={"tile" (errors_tone)} {
                dt { "Errors in 5 minutes" }
                dd {
                    (thousands(activity.errors))
                    @if activity.denied > 0 { span.of { " + " (activity.denied) " denied" } }
                }
            }
            div.tile {
                dt { "Calls in 5 minutes" }
                dd { (thousands(activity.calls)) }
            }
            div.tile {
                dt { "Latency, p50 and p95" }
                dd { (latency(activity.p50)) span.of { " · " (latency(activity.p95)) } }
            }
            div.tile {
                dt { "Client sessions" }
                dd { a href="/ui/clients" { (sessions) } }
            }
            div class={"tile" @if waiting > 0 { " attention" }} {
                dt { "Waiting for approval" }
                dd { a href="/ui/approvals" { (waiting) } }
            }
        }
        @if let Some(failure) = context.parts.gateway.relay.audit.status().failure {
            p.notice.problem role="alert" {
                "The audit log cannot be written: " (shown(&failure.to_string(), MAX_CAUSE_CHARS))
            }
        }
    }
}

/// A curve of rates, for the eye; the number beside it says the latest.
fn curve(rates: &[f64]) -> Markup {
    const WIDTH: f64 = 200.0;
    const HEIGHT: f64 = 32.0;
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let step = WIDTH / (rates.len().max(2) - 1) as f64;
    let point = |(at, rate): (usize, &f64)| {
        let share = if highest > 0.0 { rate / highest } else { 0.0 };
        format!("{:.1},{:.1}", at as f64 * step, HEIGHT - 1.5 - share * (HEIGHT - 3.0))
    };
    let points: Vec<String> = rates.iter().enumerate().map(point).collect();
    html! {
        svg.curve viewBox="0 0 200 32" preserveAspectRatio="none" aria-hidden="true" {
            @if points.len() > 1 { polyline points=(points.join(" ")) {} }
        }
    }
}

fn servers(snapshot: &Snapshot, history: &MetricsHistory) -> Markup {
    // Those with a problem come first.
    let mut views: Vec<_> = snapshot.servers.values().collect();
    views.sort_by_key(|it| match it.status {
        Status::Failed(_) => 0,
        Status::NeedsAuth(_) | Status::SessionRefused(_) => 1,
        Status::Pending { .. } => 2,
        Status::Connected => 3,
        Status::Disabled => 4,
    });
    html! {
        section aria-labelledby="servers-heading" {
            h2 #servers-heading { "Servers" }
            @if views.is_empty() {
                (nothing("No server is running. Add one with swb add; this page shows it at once."))
            } @else {
                div.table {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Server" }
                                th scope="col" { "State" }
                                th.number scope="col" { "Tools" }
                                th.number scope="col" { "Calls/s" }
                                th.number scope="col" { "Calls, 5 min" }
                                th.number scope="col" { "Errors" }
                                th.number scope="col" { "p50" }
                                th.number scope="col" { "p95" }
                            }
                        }
                        tbody {
                            @for view in views.iter().take(MAX_SERVERS) {
                                (server_row(view, &history.of_server(&view.name)))
                            }
                        }
                    }
                }
                @if views.len() > MAX_SERVERS {
                    p.quiet { (views.len() - MAX_SERVERS) " more are not shown." }
                }
            }
        }
    }
}

fn server_row(view: &ServerView, activity: &Activity) -> Markup {
    let tools = view.listed().items(ListKind::Tools).len() as u64;
    html! {
        tr data-key=(shown(&view.name, 200)) {
            th scope="row" { a href=(link("/ui/server", &[("name", &view.name)])) { (name(&view.name)) } }
            td.state {
                (badge(Tone::of_status(&view.status), &view.status.label()))
                @if let Some(cause) = view.status.cause() {
                    p.cause { (prose(&cause.to_string(), MAX_CAUSE_CHARS)) }
                    p.remedy { (prose(&cause.remedy(&view.name), MAX_CAUSE_CHARS)) }
                }
            }
            td.number { (count(tools)) }
            td.number { (if activity.rate > 0.0 { format!("{:.1}", activity.rate) } else { "–".to_owned() }) }
            td.number { (count(activity.calls)) }
            td.number { (count(activity.errors)) }
            td.number { (latency(activity.p50)) }
            td.number { (latency(activity.p95)) }
        }
    }
}

/// Configured servers that do not run, with the reason.
fn not_served(servers: &[ConfiguredServer]) -> Markup {
    let left_out: Vec<&ConfiguredServer> =
        servers.iter().filter(|it| !QUIET_STATES.contains(&it.state.as_str())).collect();
    html! {
        @if !left_out.is_empty() {
            section aria-labelledby="left-out-heading" {
                h2 #left-out-heading { "Configured, but not served" }
                div.table {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Server" }
                                th scope="col" { "State" }
                                th scope="col" { "Defined in" }
                            }
                        }
                        tbody {
                            @for server in left_out.into_iter().take(MAX_SERVERS) {
                                tr {
                                    th scope="row" {
                                        a href=(link("/ui/server", &[("name", &server.name)])) { (name(&server.name)) }
                                    }
                                    td.state {
                                        (badge(Tone::Quiet, &server.state_text))
                                        @if let Some(reason) = &server.reason {
                                            p.remedy { (prose(reason, MAX_CAUSE_CHARS)) }
                                        }
                                    }
                                    td { code { (shown(&server.origin, 200)) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn shared_host(shared: &SharedHostView) -> Markup {
    html! {
        section aria-labelledby="shared-heading" {
            h2 #shared-heading { "Shared host" }
            p.quiet {
                "Process " (shared.pid) ", build " (shown(&shared.build, 80)) ", since "
                (seconds_since_1970(shared.since)) ". It runs servers for several sessions of this user."
            }
            @if shared.programs.is_empty() {
                (nothing("It runs no server now."))
            } @else {
                div.table {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Server" }
                                th.number scope="col" { "Process" }
                                th scope="col" { "Used by" }
                            }
                        }
                        tbody {
                            @for program in shared.programs.iter().take(MAX_SERVERS) {
                                tr {
                                    th scope="row" { (name(&program.name)) }
                                    td.number { (program.pid.map_or("–".to_owned(), |it| it.to_string())) }
                                    td { (shown(&program.clients.join(", "), MAX_CAUSE_CHARS)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

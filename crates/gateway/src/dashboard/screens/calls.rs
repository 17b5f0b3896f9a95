//! The newest calls of the audit log, with filters.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use switchboard::audit::log::CallOutcome;
use switchboard::utc_timestamp;

use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::{Form, link};
use crate::dashboard::page::{NavItem, RenderScope, Section, View};
use crate::dashboard::parts::{
    Tone, badge, millis, name, nothing, outcome_label, prose, shown, thousands, timestamp,
};
use crate::dashboard::records::{CallList, RecordedCall};

/// How many calls are shown.
const MAX_ROWS: usize = 100;
/// How many names a choice offers.
const MAX_CHOICES: usize = 200;

/// The periods to choose from: the value in links, its label, and its seconds.
const PERIODS: [(&str, &str, u64); 5] = [
    ("", "Any time", 0),
    ("5m", "Last 5 minutes", 300),
    ("1h", "Last hour", 3600),
    ("24h", "Last 24 hours", 86_400),
    ("7d", "Last 7 days", 604_800),
];

/// Which calls are shown. An empty text stands for all.
#[derive(Debug, Default)]
pub(crate) struct CallFilter {
    principal: String,
    server: String,
    tool: String,
    outcome: String,
    session: String,
    period: String,
}

impl CallFilter {
    pub(super) fn parse(query: &Form) -> CallFilter {
        let text = |name| query.text(name).to_owned();
        CallFilter {
            principal: text("principal"),
            server: text("server"),
            tool: text("tool"),
            outcome: text("outcome"),
            session: text("session"),
            period: text("period"),
        }
    }

    pub(super) async fn render(&self, context: ScreenContext<'_>, scope: RenderScope) -> View {
        let list = context.parts.records.calls().await;
        let mut sections = Vec::new();
        if scope == RenderScope::Page {
            sections.push(Section::Static(html! {
                h1 { "Calls" }
                (self.form(&list))
            }));
        }
        sections.push(Section::Live("calls", self.table(&list)));
        View::new("Calls", NavItem::Calls, sections)
    }

    fn matches(&self, call: &RecordedCall, since: &str) -> bool {
        let record = &call.record;
        let is = |filter: &str, value: &str| filter.is_empty() || filter == value;
        is(&self.principal, &record.caller)
            && is(&self.server, &record.server)
            && is(&self.outcome, &record.outcome)
            && is(&self.session, &record.origin.session)
            && (self.tool.is_empty() || record.tool.contains(&self.tool))
            && *record.time >= *since
    }

    fn form(&self, list: &CallList) -> Markup {
        let names = |of: fn(&RecordedCall) -> &str| -> BTreeSet<&str> {
            list.calls.iter().map(|it| of(it)).filter(|it| !it.is_empty()).collect()
        };
        let outcomes = CallOutcome::ALL.map(CallOutcome::id);
        html! {
            form.filter method="get" action="/ui/calls" role="search" {
                (choice("principal", "Principal", &self.principal, names(|it| &it.record.caller)))
                (choice("server", "Server", &self.server, names(|it| &it.record.server)))
                label { "Tool " input type="search" name="tool" value=(self.tool) data-shortcut="/"; }
                (choice("outcome", "Outcome", &self.outcome, outcomes))
                label {
                    "Time "
                    select name="period" {
                        @for (value, label, _) in PERIODS {
                            option value=(value) selected[value == self.period] { (label) }
                        }
                    }
                }
                @if !self.session.is_empty() {
                    label { "Session " input type="text" name="session" value=(self.session); }
                }
                button.button type="submit" { "Apply" }
                a.button href="/ui/calls" { "Clear" }
            }
        }
    }

    fn table(&self, list: &CallList) -> Markup {
        let seconds = PERIODS.iter().find(|it| it.0 == self.period).map_or(0, |it| it.2);
        let since = match seconds {
            0 => String::new(),
            seconds => SystemTime::now()
                .checked_sub(Duration::from_secs(seconds))
                .map(utc_timestamp)
                .unwrap_or_default(),
        };
        let found: Vec<&Arc<RecordedCall>> =
            list.calls.iter().rev().filter(|it| self.matches(it, &since)).collect();
        html! {
            @if let Some(failure) = &list.failure {
                p.notice.problem { "The audit log cannot be read: " (shown(failure, 300)) }
            }
            p.quiet {
                (thousands(found.len() as u64)) " calls"
                @if found.len() > MAX_ROWS { ", the newest " (MAX_ROWS) " are shown" }
                @if list.is_partial {
                    "; only the newest " (thousands(list.calls.len() as u64)) " records of the log are searched"
                }
            }
            @if found.is_empty() {
                (nothing("No calls. New ones appear here at once."))
            } @else {
                div.table {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Time" }
                                th scope="col" { "Outcome" }
                                th scope="col" { "Tool" }
                                th scope="col" { "Server" }
                                th scope="col" { "Principal" }
                                th.number scope="col" { "Took" }
                                th scope="col" { "Decided by" }
                            }
                        }
                        tbody { @for call in found.into_iter().take(MAX_ROWS) { (row(call)) } }
                    }
                }
            }
        }
    }
}

fn choice<'a>(
    input: &str,
    label: &str,
    chosen: &str,
    values: impl IntoIterator<Item = &'a str>,
) -> Markup {
    let mut values: Vec<&str> = values.into_iter().take(MAX_CHOICES).collect();
    if !chosen.is_empty() && !values.contains(&chosen) {
        values.push(chosen);
    }
    html! {
        label {
            (label) " "
            select name=(input) {
                option value="" { "All" }
                @for value in values {
                    option value=(value) selected[value == chosen] { (shown(outcome_label(value), 60)) }
                }
            }
        }
    }
}

fn row(call: &RecordedCall) -> Markup {
    let record = &call.record;
    let tool = if record.tool.is_empty() { &record.exposed } else { &record.tool };
    html! {
        tr data-key=(call.id) {
            td { a href=(link("/ui/call", &[("id", &call.id)])) { (timestamp(&record.time)) } }
            td { (badge(Tone::of_outcome(&record.outcome), outcome_label(&record.outcome))) }
            th scope="row" { (name(tool)) }
            td { (name(&record.server)) }
            td { (name(&record.caller)) }
            td.number { (millis(record.duration_ms as f64)) }
            td.wrap { (prose(&record.because, 160)) }
        }
    }
}

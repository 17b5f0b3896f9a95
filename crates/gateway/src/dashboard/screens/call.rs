//! One call of the audit log in detail.

use maud::{Markup, html};
use serde_json::Value as Json;
use switchboard::audit::log::STARTED;

use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::link;
use crate::dashboard::page::{NavItem, RenderScope, Section, View};
use crate::dashboard::parts::{
    Tone, badge, millis, name, outcome_label, pretty_json, prose, shown, timestamp,
};
use crate::dashboard::records::RecordedCall;

pub(super) async fn render(id: &str, context: ScreenContext<'_>, scope: RenderScope) -> View {
    if scope == RenderScope::Live {
        return View::new("Call", NavItem::Calls, Vec::new());
    }
    let list = context.parts.records.calls().await;
    let Some(call) = list.find(id) else {
        let what =
            "There is no such call among the newest of the audit log. `swb audit` reads all of it.";
        return View::missing(NavItem::Calls, what);
    };
    View::new("Call", NavItem::Calls, vec![Section::Static(details(call))])
}

fn details(call: &RecordedCall) -> Markup {
    let record = &call.record;
    let tool = if record.tool.is_empty() { &record.exposed } else { &record.tool };
    let json: Json = serde_json::to_value(record).unwrap_or_default();
    let origin = &record.origin;
    html! {
        p.crumbs { a href="/ui/calls" { "Calls" } }
        h1 { (name(tool)) }
        section.panel aria-label="The call" {
            div.panel-head { (badge(Tone::of_outcome(&record.outcome), outcome_label(&record.outcome))) }
            dl.facts {
                (fact("Started", &timestamp(&record.time)))
                @if record.outcome != STARTED { (fact("Took", &text(&millis(record.duration_ms as f64)))) }
                (fact("Principal", &html! {
                    a href=(link("/ui/calls", &[("principal", &record.caller)])) { (name(&record.caller)) }
                }))
                @if !record.server.is_empty() {
                    (fact("Server", &html! {
                        a href=(link("/ui/server", &[("name", &record.server)])) { (name(&record.server)) }
                    }))
                }
                (fact("Called as", &html! {
                    a href=(link("/ui/tool", &[("name", &record.exposed)])) { (name(&record.exposed)) }
                }))
            }
        }
        section aria-labelledby="decision-heading" {
            h2 #decision-heading { "Decision" }
            dl.facts {
                @if !record.verdict.is_empty() {
                    (fact("The rules said", &badge(Tone::of_effect(&record.verdict), &record.verdict)))
                }
                (fact("Decided", &badge(Tone::of_effect(&record.decision), &record.decision)))
                (fact("By", &prose(&record.because, 600)))
            }
        }
        section aria-labelledby="request-heading" {
            h2 #request-heading { "Request" }
            dl.facts {
                @if !record.arguments.is_empty() {
                    (fact("Digest of the arguments", &html! { code { (shown(&record.arguments, 100)) } }))
                }
                @if !origin.session.is_empty() {
                    (fact("Session", &html! {
                        a href=(link("/ui/calls", &[("session", &origin.session)])) { code { (shown(&origin.session, 64)) } }
                    }))
                }
                @if !origin.request.is_empty() { (fact("Request id", &html! { code { (shown(&origin.request, 100)) } })) }
                @if !origin.trace.is_empty() { (fact("Trace id", &html! { code { (shown(&origin.trace, 64)) } })) }
                @if !origin.span.is_empty() { (fact("Span id", &html! { code { (shown(&origin.span, 64)) } })) }
            }
            p.quiet { "The log holds a digest of the arguments, not the arguments." }
            details {
                summary { "The record" }
                pre tabindex="0" { (pretty_json(&json)) }
            }
        }
    }
}

fn text(text: &str) -> Markup {
    html! { (shown(text, 600)) }
}

fn fact(term: &str, value: &Markup) -> Markup {
    html! { div { dt { (term) } dd { (value) } } }
}

//! The calls that wait for a decision, and the forms that decide them.

use maud::{Markup, html};
use switchboard::permission::{DefinitionDiff, LineChange};

use crate::approval_queue::PendingApproval;
use crate::dashboard::context::ScreenContext;
use crate::dashboard::page::{NavItem, Section, View};
use crate::dashboard::parts::{hidden, moment, name, nothing, pretty_json, prose, shown};

/// The most calls that are shown.
const MAX_SHOWN: usize = 100;

pub(super) fn render(context: ScreenContext<'_>) -> View {
    let pending = context.parts.approvals.pending();
    let list = html! {
        @if pending.is_empty() {
            (nothing("No call waits. A call that needs a decision appears here at once."))
        }
        @for approval in pending.iter().take(MAX_SHOWN) {
            (approval_card(approval, context.page_token, None))
        }
        @if pending.len() > MAX_SHOWN { p.quiet { (pending.len() - MAX_SHOWN) " more wait." } }
    };
    let head = html! {
        h1 { "Approvals" }
        p.quiet { "Calls that the rules want a user to decide, from clients that cannot ask theirs." }
    };
    let sections = vec![Section::Static(head), Section::Live("approvals", list)];
    View::new("Approvals", NavItem::Approvals, sections)
}

/// One waiting call. `run` is the number of the dashboard's own call, to return to.
pub(super) fn approval_card(
    approval: &PendingApproval,
    page_token: &str,
    run: Option<&str>,
) -> Markup {
    let number = approval.id.to_string();
    html! {
        article.card data-key={"approval-" (number)} aria-label={"Call " (number)} {
            h2 { (name(&approval.tool)) span.quiet { " of " (name(&approval.server)) } }
            p {
                "Requested by " strong { (name(&approval.caller)) } " at " (moment(approval.requested_at)) ": "
                (prose(&approval.reason, 300)) "."
            }
            @for flag in &approval.flags { p.notice.warning { "Hidden text: " (shown(flag, 200)) } }
            pre tabindex="0" aria-label="Arguments" { (pretty_json(&approval.arguments)) }
            @if let Some(diff) = &approval.definition_change { (definition_change(diff)) }
            form.decision method="post" action="/ui/approvals/decide" {
                (hidden(&[("page-token", page_token), ("number", &number)]))
                @if let Some(run) = run { (hidden(&[("run", run)])) }
                div.actions {
                    button.button.primary type="submit" name="decision" value="once" { "Allow once" }
                    button.button.danger type="submit" name="decision" value="deny" { "Deny" }
                    label.grow {
                        span.hidden-text { "Reason for a denial" }
                        input type="text" name="reason" maxlength="500" placeholder="Reason for a denial (optional)";
                    }
                }
                @if !approval.suggestions.is_empty() {
                    details {
                        summary { "Allow more than this call" }
                        ul.choices {
                            @for (at, suggestion) in approval.suggestions.iter().enumerate() {
                                li {
                                    code { (suggestion.rule.to_printable()) }
                                    span.actions {
                                        button.button type="submit" name="decision" value={"session:" (at)} {
                                            "For this client until the gateway stops"
                                        }
                                        button.button type="submit" name="decision" value={"always:" (at)} {
                                            "Always, for every client"
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn definition_change(diff: &DefinitionDiff) -> Markup {
    html! {
        p.notice.warning { "The tool's definition changed since it was approved:" }
        pre.diff tabindex="0" aria-label="Changes of the definition" {
            @for (change, line) in &diff.lines {
                @let (mark, class) = match change {
                    LineChange::Added => ("+ ", "added"),
                    LineChange::Removed => ("- ", "removed"),
                    LineChange::Unchanged => ("  ", "kept"),
                };
                span class=(class) { (mark) (shown(line, 400)) "\n" }
            }
        }
    }
}

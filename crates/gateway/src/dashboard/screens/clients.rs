//! The clients of the gateway: sessions, principals and suspended requests.

use maud::{Markup, html};

use crate::dashboard::clients::{PrincipalRow, SessionRow};
use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::link;
use crate::dashboard::page::{NavItem, Section, View};
use crate::dashboard::parts::{
    ButtonKind, age, button_form, count, name, nothing, shown, thousands,
};
use crate::multi_round_trip::suspended::SuspendedView;

/// The most rows of a table.
const MAX_ROWS: usize = 200;

pub(super) async fn render(context: ScreenContext<'_>) -> View {
    let sessions = context.clients.sessions();
    let mut principals = context.clients.principals();
    principals.retain(|it| it.connections > 0 || it.sessions > 0 || it.requests > 0);
    let suspended = context.parts.gateway.multi_round_trip.suspended().await;
    let sections = vec![
        Section::Static(html! { h1 { "Clients" } }),
        Section::Live("sessions", sessions_table(&sessions, context.page_token)),
        Section::Live("principals", principals_table(&principals)),
        Section::Live("suspended", suspended_table(&suspended, context.page_token)),
    ];
    View::new("Clients", NavItem::Clients, sections)
}

fn sessions_table(sessions: &[SessionRow], page_token: &str) -> Markup {
    html! {
        section aria-labelledby="sessions-heading" {
            h2 #sessions-heading { "Sessions " span.quiet { (thousands(sessions.len() as u64)) } }
            p.quiet { "Clients of the newer protocol have none: each of their requests stands alone." }
            @if sessions.is_empty() {
                (nothing("No client has a session."))
            } @else {
                div.table {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Principal" }
                                th scope="col" { "Program" }
                                th scope="col" { "Protocol" }
                                th scope="col" { "Servers may ask it for" }
                                th.number scope="col" { "Open for" }
                                th.number scope="col" { "Requests" }
                                th scope="col" { span.hidden-text { "Actions" } }
                            }
                        }
                        tbody {
                            @for session in sessions.iter().take(MAX_ROWS) {
                                tr data-key=(session.digest) {
                                    th scope="row" {
                                        a href=(link("/ui/calls", &[("session", &session.digest)])) { (name(&session.principal)) }
                                    }
                                    td { @if session.program.is_empty() { "–" } @else { (name(&session.program)) } }
                                    td { (shown(&session.protocol_version, 20)) }
                                    td { @if session.capabilities.is_empty() { "nothing" } @else { (session.capabilities.join(", ")) } }
                                    td.number { (age(session.age)) }
                                    td.number { (count(session.requests)) }
                                    td.row-actions {
                                        (button_form(
                                            "/ui/clients/end-session",
                                            page_token,
                                            &[("session", &session.digest)],
                                            (ButtonKind::Danger, "End"),
                                        ))
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

fn principals_table(principals: &[PrincipalRow]) -> Markup {
    html! {
        section aria-labelledby="principals-heading" {
            h2 #principals-heading { "Principals " span.quiet { (thousands(principals.len() as u64)) } }
            @if principals.is_empty() {
                (nothing("No principal is connected."))
            } @else {
                div.table {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Principal" }
                                th.number scope="col" { "Connections" }
                                th.number scope="col" { "Sessions" }
                                th.number scope="col" { "Requests in flight" }
                            }
                        }
                        tbody {
                            @for row in principals.iter().take(MAX_ROWS) {
                                tr data-key={"principal-" (shown(&row.principal, 200))} {
                                    th scope="row" {
                                        a href=(link("/ui/calls", &[("principal", &row.principal)])) { (name(&row.principal)) }
                                    }
                                    td.number { (count(row.connections as u64)) }
                                    td.number { (count(row.sessions as u64)) }
                                    td.number { (count(row.requests as u64)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn suspended_table(suspended: &[SuspendedView], page_token: &str) -> Markup {
    html! {
        section aria-labelledby="suspended-heading" {
            h2 #suspended-heading { "Suspended requests " span.quiet { (thousands(suspended.len() as u64)) } }
            @if suspended.is_empty() {
                (nothing("No request waits for input of its client."))
            } @else {
                div.table {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Principal" }
                                th scope="col" { "Method" }
                                th.number scope="col" { "Waits for" }
                                th scope="col" { span.hidden-text { "Actions" } }
                            }
                        }
                        tbody {
                            @for request in suspended.iter().take(MAX_ROWS) {
                                @let id = request.id.to_string();
                                tr data-key={"suspended-" (id)} {
                                    th scope="row" { (name(&request.principal)) }
                                    td { code { (shown(&request.method, 80)) } }
                                    td.number { (age(request.age)) }
                                    td.row-actions {
                                        (button_form(
                                            "/ui/clients/cancel-request",
                                            page_token,
                                            &[("id", &id)],
                                            (ButtonKind::Danger, "Cancel"),
                                        ))
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

//! Logins at servers: which servers need one, logins that are under way, and those that are stored.

use maud::{Markup, html};
use switchboard::connection::Status;
use switchboard::login::{LoginStage, LoginView};
use url::Url;

use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::link;
use crate::dashboard::page::{NavItem, RenderScope, Section, View};
use crate::dashboard::parts::{
    ButtonKind, Tone, badge, button_form, hidden, name, nothing, prose, seconds_since_1970, shown,
};

/// The most rows of a table.
const MAX_ROWS: usize = 200;

pub(super) async fn render(context: ScreenContext<'_>, scope: RenderScope) -> View {
    let mut sections = vec![
        Section::Static(html! { h1 { "Logins" } }),
        Section::Live("needed", needed(&context).await),
    ];
    if scope == RenderScope::Page {
        let stored = context.parts.gateway.relay.host.logins().await;
        sections.push(Section::Static(match stored {
            Ok((logins, storage)) => stored_table(&logins, &storage),
            Err(error) => html! {
                p.notice.problem { "The stored logins cannot be read: " (shown(&error.to_string(), 300)) }
            },
        }));
    }
    View::new("Logins", NavItem::Logins, sections)
}

/// Servers that need a login, and logins that were started here.
async fn needed(context: &ScreenContext<'_>) -> Markup {
    let stages = context.parts.runs.logins().await;
    let snapshot = context.parts.gateway.relay.host.snapshot();
    let needs = |server: &str| {
        let view = snapshot.servers.get(server);
        view.is_some_and(|it| matches!(it.status, Status::NeedsAuth(_)))
    };
    let waiting: Vec<&String> = snapshot.servers.keys().filter(|it| needs(it)).collect();
    let done = stages.iter().filter(|(server, stage)| {
        !needs(server) && matches!(stage, LoginStage::SignedIn | LoginStage::Preparing)
    });
    html! {
        section aria-labelledby="needed-heading" {
            h2 #needed-heading { "Needed" }
            @if waiting.is_empty() { (nothing("No server needs a login.")) }
            @for server in waiting.iter().take(MAX_ROWS) {
                article.card data-key={"login-" (shown(server, 200))} aria-label={"Login at " (shown(server, 200))} {
                    h3 { a href=(link("/ui/server", &[("name", server)])) { (name(server)) } }
                    @if let Some(cause) = snapshot.servers.get(*server).and_then(|it| it.status.cause()) {
                        p.quiet { (prose(&cause.to_string(), 300)) }
                    }
                    (stage_of(context, server, stages.get(*server)))
                }
            }
            @for (server, _) in done {
                p { (badge(Tone::Good, "signed in")) " " (name(server)) }
            }
        }
    }
}

fn stage_of(context: &ScreenContext<'_>, server: &str, stage: Option<&LoginStage>) -> Markup {
    let start = |label: &str| {
        let pairs = [("name", server)];
        button_form("/ui/logins/start", context.page_token, &pairs, (ButtonKind::Primary, label))
    };
    match stage {
        None => start("Start a login"),
        Some(LoginStage::Preparing) => html! { p { (badge(Tone::Busy, "preparing")) } },
        Some(LoginStage::SignedIn) => html! {
            p { (badge(Tone::Busy, "signed in, reconnecting")) }
            (start("Start another login"))
        },
        Some(LoginStage::Failed(why)) => html! {
            p.cause { (badge(Tone::Bad, "failed")) " " (shown(why, 400)) }
            (start("Start another login"))
        },
        Some(LoginStage::AwaitingUser { url, rejection }) => html! {
            @if let Some(why) = rejection { p.cause { (shown(why, 400)) } }
            @match web_page(url) {
                Some(page) => p {
                    a.button.primary href=(page) target="_blank" rel="noopener noreferrer" { "Open the login page" }
                    " " span.quiet { (shown(page.host_str().unwrap_or_default(), 120)) }
                },
                None => p { code { (shown(url, 500)) } },
            }
            details {
                summary { "The browser is on another machine" }
                p.quiet { "It ends at a page that it cannot load. Paste the address of that page here." }
                form.inline method="post" action="/ui/logins/submit" {
                    (hidden(&[("page-token", context.page_token), ("name", server)]))
                    label.grow {
                        span.hidden-text { "Address" }
                        input type="text" name="callback" autocomplete="off" required;
                    }
                    button.button type="submit" { "Send" }
                }
            }
        },
    }
}

/// The page, if a browser may open it.
fn web_page(url: &str) -> Option<Url> {
    Url::parse(url).ok().filter(|it| matches!(it.scheme(), "https" | "http"))
}

fn stored_table(logins: &[LoginView], storage: &str) -> Markup {
    html! {
        section aria-labelledby="stored-heading" {
            h2 #stored-heading { "Stored" }
            @if logins.is_empty() {
                (nothing("No login is stored."))
            } @else {
                p.quiet { "Tokens are stored " (shown(storage, 200)) "." }
                div.table {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Server" }
                                th scope="col" { "State" }
                                th scope="col" { "Account" }
                                th scope="col" { "Issuer" }
                                th scope="col" { "Token expires" }
                                th scope="col" { "Scopes" }
                            }
                        }
                        tbody {
                            @for login in logins.iter().take(MAX_ROWS) {
                                tr {
                                    th.wrap scope="row" { (name(&login.server)) }
                                    td {
                                        @match login.is_valid {
                                            true => (badge(Tone::Good, "valid")),
                                            false => (badge(Tone::Bad, "not valid")),
                                        }
                                    }
                                    td { (shown(login.identity.as_deref().unwrap_or("–"), 120)) }
                                    td.wrap { (shown(&login.issuer, 200)) }
                                    td {
                                        @match login.expires_at {
                                            Some(at) => (seconds_since_1970(at)),
                                            None => "–",
                                        }
                                        @if login.is_renewable { span.quiet { ", renewed" } }
                                    }
                                    td.wrap { (shown(&login.scopes.join(" "), 300)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_pages_become_links() {
        assert!(web_page("https://auth.example.com/x").is_some());
        for other in ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "x"] {
            assert!(web_page(other).is_none(), "{other}");
        }
    }
}

//! The frame around every screen: head, navigation, notices. And what a screen is: sections, some of which change while
//! the page is open.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use url::form_urlencoded;

use super::assets;
use super::parts::{ButtonKind, button_form};

/// What is rendered of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenderScope {
    Page,
    /// Only what changes while the page is open.
    Live,
}

/// A part of a screen.
pub(crate) enum Section {
    Static(Markup),
    /// Sent again when it changes, under this name.
    Live(&'static str, Markup),
}

/// The items of the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NavItem {
    Overview,
    Tools,
    Calls,
    Approvals,
    Clients,
    Policy,
    Logins,
    Usage,
}

impl NavItem {
    const ALL: [NavItem; 8] = [
        NavItem::Overview,
        NavItem::Tools,
        NavItem::Calls,
        NavItem::Approvals,
        NavItem::Clients,
        NavItem::Policy,
        NavItem::Logins,
        NavItem::Usage,
    ];

    fn label(self) -> &'static str {
        match self {
            NavItem::Overview => "Overview",
            NavItem::Tools => "Tools",
            NavItem::Calls => "Calls",
            NavItem::Approvals => "Approvals",
            NavItem::Clients => "Clients",
            NavItem::Policy => "Policy",
            NavItem::Logins => "Logins",
            NavItem::Usage => "Usage",
        }
    }

    fn path(self) -> &'static str {
        match self {
            NavItem::Overview => "/ui/",
            NavItem::Tools => "/ui/tools",
            NavItem::Calls => "/ui/calls",
            NavItem::Approvals => "/ui/approvals",
            NavItem::Clients => "/ui/clients",
            NavItem::Policy => "/ui/policy",
            NavItem::Logins => "/ui/logins",
            NavItem::Usage => "/ui/usage",
        }
    }
}

/// A rendered screen.
pub(crate) struct View {
    pub(crate) title: String,
    pub(crate) nav: NavItem,
    pub(crate) sections: Vec<Section>,
    /// Whether the screen is about something that does not exist.
    pub(crate) is_missing: bool,
}

impl View {
    pub(crate) fn new(title: &str, nav: NavItem, sections: Vec<Section>) -> View {
        View { title: title.to_owned(), nav, sections, is_missing: false }
    }

    /// A screen about something that does not exist, or no longer.
    pub(crate) fn missing(nav: NavItem, what: &str) -> View {
        let text = html! {
            h1 { "Not found" }
            p { (what) }
        };
        View { is_missing: true, ..View::new("Not found", nav, vec![Section::Static(text)]) }
    }
}

/// What the frame shows besides the screen.
pub(crate) struct Frame<'a> {
    pub(crate) page_token: &'a str,
    pub(crate) waiting_approvals: usize,
    pub(crate) notice: Option<Notice>,
    /// The path and query of the page, for its events. None for a page without events.
    pub(crate) location: Option<&'a str>,
    pub(crate) version: &'a str,
}

/// What an action has done, shown once at the top of the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) kind: NoticeKind,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    Done,
    Problem,
}

/// The number of approvals that wait, in the navigation.
pub(crate) fn approvals_count(waiting: usize) -> Markup {
    html! {
        @if waiting > 0 {
            span.count { (waiting) span.hidden-text { " waiting" } }
        }
    }
}

/// What a screen reader is told when it changes.
pub(crate) fn announcement(waiting: usize) -> Markup {
    html! {
        @match waiting {
            0 => {},
            1 => "1 call waits for approval",
            _ => { (waiting) " calls wait for approval" }
        }
    }
}

/// A whole page.
pub(crate) fn page(view: View, frame: &Frame<'_>) -> String {
    let events = frame.location.map(|it| {
        let page: String = form_urlencoded::byte_serialize(it.as_bytes()).collect();
        format!("/ui/events?page={page}")
    });
    let main = html! {
        @if let Some(notice) = &frame.notice { (notice_text(notice)) }
        @for section in view.sections {
            @match section {
                Section::Static(markup) => (markup),
                Section::Live(id, markup) => div data-live=(id) { (markup) },
            }
        }
    };
    let body = html! {
        a.skip href="#main" { "Skip to content" }
        header.side {
            div.brand {
                (logo())
                span { "Switchboard" }
            }
            nav aria-label="Main" {
                ul {
                    @for item in NavItem::ALL {
                        li {
                            a href=(item.path()) aria-current=[(item == view.nav).then_some("page")] {
                                (item.label())
                                @if item == NavItem::Approvals {
                                    span data-live="approvals-count" {
                                        (approvals_count(frame.waiting_approvals))
                                    }
                                }
                            }
                        }
                    }
                }
            }
            div.side-foot {
                p.connection id="connection" hidden { "Live updates are off." }
                p.version { "Version " (frame.version) }
                (button_form("/ui/logout", frame.page_token, &[], (ButtonKind::Plain, "Sign out")))
            }
        }
        div.hidden-text role="status" data-live="announcement" {
            (announcement(frame.waiting_approvals))
        }
        main id="main" tabindex="-1" { (main) }
    };
    document(&view.title, events.as_deref(), &body)
}

fn notice_text(notice: &Notice) -> Markup {
    let (class, role) = match notice.kind {
        NoticeKind::Done => ("notice", "status"),
        NoticeKind::Problem => ("notice problem", "alert"),
    };
    html! { p class=(class) role=(role) { (notice.text) } }
}

/// The login page. It has a form if the link carries a secret.
pub(crate) fn login_page(link: Option<&str>, problem: Option<&str>) -> String {
    let body = html! {
        main.login id="main" {
            div.brand { (logo()) span { "Switchboard" } }
            h1 { "Sign in" }
            @if let Some(problem) = problem {
                p.notice.problem role="alert" { (problem) }
            }
            @match link {
                Some(link) => {
                    p { "This link opens the dashboard in this browser. It can be used once." }
                    form method="post" action="/ui/login" data-submit {
                        input type="hidden" name="link" value=(link);
                        button.button.primary type="submit" { "Sign in" }
                    }
                }
                None => {
                    p { "Open the dashboard with a login link. This command prints a new one:" }
                    div.command { code { "swb ui" } }
                    p.quiet { "A link can be used once, within ten minutes." }
                }
            }
        }
    };
    document("Sign in", None, &body)
}

/// A page that says why a request failed.
pub(crate) fn error_page(title: &str, text: &str) -> String {
    let body = html! {
        main.login id="main" {
            div.brand { (logo()) span { "Switchboard" } }
            h1 { (title) }
            p { (text) }
            p { a href="/ui/" { "Back to the overview" } }
        }
    };
    document(title, None, &body)
}

fn document(title: &str, events: Option<&str>, body: &Markup) -> String {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Switchboard" }
                link rel="icon" href=(assets::ICON);
                link rel="stylesheet" href=(assets::STYLE_PATH);
                script type="module" src=(assets::SCRIPT_PATH) {}
            }
            body data-events=[events] { (body) }
        }
    };
    document.into_string()
}

fn logo() -> Markup {
    PreEscaped(assets::LOGO.to_owned())
}

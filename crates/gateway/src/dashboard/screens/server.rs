//! One server: its connection, where it is configured, its tools, resources and prompts, and its log.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use maud::{Markup, html};
use switchboard::config::entry::server::TransportKind;
use switchboard::connection::{ServerView, Status};

use super::server_lists::{self, ListPage};
use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::{Form, link};
use crate::dashboard::operator::ConfiguredServer;
use crate::dashboard::page::{NavItem, RenderScope, Section, View};
use crate::dashboard::parts::{
    ButtonKind, Tone, badge, button_form, latency, lines, millis, name, nothing, prose, shown,
    visible_lines,
};

/// How much of the end of a log is shown.
const MAX_LOG_BYTES: u64 = 24 * 1024;
const MAX_LOG_LINES: usize = 150;
const MAX_LINE_CHARS: usize = 2000;
/// The longest text of a cause, in characters.
const MAX_CAUSE_CHARS: usize = 600;

/// What the query of the screen says.
pub(crate) struct ServerScreen {
    name: String,
    list: ListPage,
}

impl ServerScreen {
    pub(super) fn parse(query: &Form) -> ServerScreen {
        ServerScreen { name: query.text("name").to_owned(), list: ListPage::parse(query) }
    }

    pub(super) async fn render(&self, context: ScreenContext<'_>, scope: RenderScope) -> View {
        let host = &context.parts.gateway.relay.host;
        let snapshot = host.snapshot();
        let view = snapshot.servers.get(&self.name);
        let configured = match scope {
            RenderScope::Page => context.parts.configuration().await.unwrap_or_default().servers,
            RenderScope::Live => Vec::new(),
        };
        let definitions: Vec<&ConfiguredServer> =
            configured.iter().filter(|it| it.name == self.name).collect();
        if view.is_none() && definitions.is_empty() && scope == RenderScope::Page {
            let what = format!("There is no server {}.", shown(&self.name, 120));
            return View::missing(NavItem::Overview, &what);
        }
        let mut sections = Vec::new();
        if scope == RenderScope::Page {
            sections.push(Section::Static(html! {
                p.crumbs { a href="/ui/" { "Overview" } }
                h1 { (name(&self.name)) }
            }));
        }
        sections.push(Section::Live(
            "connection",
            connection(&context, &self.name, view.map(|it| &**it)),
        ));
        if scope == RenderScope::Page {
            sections.push(Section::Static(configuration(&definitions)));
            if let Some(view) = view {
                let pool = host.pool();
                sections.push(Section::Static(server_lists::lists(view, &pool, &self.list)));
            }
        }
        sections.push(Section::Live("log", log(log_files(&context, &self.name)).await));
        View::new(&shown(&self.name, 80), NavItem::Overview, sections)
    }
}

fn log_files(context: &ScreenContext<'_>, server: &str) -> [PathBuf; 2] {
    context.parts.gateway.relay.host.stderr_log().files(server)
}

/// The state of the connection, facts about it, and what can be done.
fn connection(context: &ScreenContext<'_>, server: &str, view: Option<&ServerView>) -> Markup {
    let Some(view) = view else {
        return html! {
            section.panel {
                (badge(Tone::Quiet, "not running"))
                div.actions { (switch_button(context, server, "enabled")) }
            }
        };
    };
    let activity = context.parts.history.borrow().of_server(server);
    let info = view.server_info.as_ref();
    html! {
        section.panel aria-label="Connection" {
            div.panel-head {
                (badge(Tone::of_status(&view.status), &view.status.label()))
                div.actions {
                    (button_form(
                        "/ui/server/reconnect",
                        context.page_token,
                        &[("name", server)],
                        (ButtonKind::Plain, "Reconnect"),
                    ))
                    @match view.status {
                        Status::Disabled => (switch_button(context, server, "enabled")),
                        Status::Pending { .. } | Status::Connected | Status::Failed(_) | Status::NeedsAuth(_)
                        | Status::SessionRefused(_) => (switch_button(context, server, "disabled")),
                    }
                    @if let Status::NeedsAuth(_) = view.status {
                        a.button.primary href="/ui/logins" { "Sign in" }
                    }
                }
            }
            @if let Some(cause) = view.status.cause() {
                p.cause { (prose(&cause.to_string(), MAX_CAUSE_CHARS)) }
                p.remedy { (prose(&cause.remedy(server), MAX_CAUSE_CHARS)) }
                @if !cause.evidence.is_empty() {
                    details {
                        summary { "Evidence" }
                        @for piece in &cause.evidence {
                            h3 { (piece.label()) }
                            pre tabindex="0" { (lines(piece.text())) }
                        }
                    }
                }
            }
            @for note in view.notes() {
                p.notice.warning { (prose(&note, MAX_CAUSE_CHARS)) }
            }
            dl.facts {
                (fact("Transport", view.transport.id()))
                @if let Some(info) = info {
                    (fact("Server", &format!("{} {}", info.title.as_deref().unwrap_or(&info.name), info.server_version)))
                    (fact("Protocol", &format!("{} ({})", info.protocol_version, era(info.era))))
                }
                @if let Some(pid) = view.pid { (fact("Process", &pid.to_string())) }
                @if view.transport == TransportKind::Stdio {
                    (fact("Runs in", if view.is_shared { "the shared host" } else { "this gateway" }))
                }
                @if let Some(ready) = view.time_to_ready { (fact("Ready after", &millis(ready.as_secs_f64() * 1000.0))) }
                (fact("Calls, 5 min", &activity.calls.to_string()))
                (fact("Errors, 5 min", &activity.errors.to_string()))
                (fact("p50 · p95", &format!("{} · {}", latency(activity.p50), latency(activity.p95))))
            }
            @if let Some(instructions) = info.and_then(|it| it.instructions.as_deref()) {
                details {
                    summary { "Instructions of the server" }
                    pre tabindex="0" { (lines(instructions)) }
                }
            }
            p.quiet { a href=(link("/ui/calls", &[("server", server)])) { "Calls of this server" } }
        }
    }
}

fn era(era: switchboard::wire::protocol::era::Era) -> &'static str {
    match era {
        switchboard::wire::protocol::era::Era::Legacy => "with sessions",
        switchboard::wire::protocol::era::Era::Modern => "without sessions",
    }
}

fn switch_button(context: &ScreenContext<'_>, server: &str, to: &str) -> Markup {
    let label = match to {
        "enabled" => (ButtonKind::Primary, "Enable"),
        _ => (ButtonKind::Danger, "Disable"),
    };
    let pairs = [("name", server), ("to", to)];
    button_form("/ui/server/switch", context.page_token, &pairs, label)
}

fn fact(term: &str, text: &str) -> Markup {
    html! { div { dt { (term) } dd { (shown(text, 200)) } } }
}

/// Every definition of the name, and which one counts.
fn configuration(definitions: &[&ConfiguredServer]) -> Markup {
    html! {
        section aria-labelledby="configuration-heading" {
            h2 #configuration-heading { "Configuration" }
            @if definitions.is_empty() {
                (nothing("It is not in a configuration file."))
            } @else {
                div.table {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Defined in" }
                                th scope="col" { "Scope" }
                                th scope="col" { "Type" }
                                th scope="col" { "Command or URL" }
                                th scope="col" { "State" }
                            }
                        }
                        tbody {
                            @for definition in definitions {
                                tr {
                                    th scope="row" { code { (shown(&definition.origin, 200)) } }
                                    td { (definition.scope) }
                                    td { (definition.transport) }
                                    td.wrap { code { (shown(&definition.target, 400)) } }
                                    td.state {
                                        @let tone = if definition.state == "ready" { Tone::Good } else { Tone::Quiet };
                                        (badge(tone, &definition.state_text))
                                        @if let Some(reason) = &definition.reason {
                                            p.remedy { (prose(reason, MAX_CAUSE_CHARS)) }
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

async fn log(files: [PathBuf; 2]) -> Markup {
    let text = tokio::task::spawn_blocking(move || log_end(&files)).await.unwrap_or_default();
    html! {
        section aria-labelledby="log-heading" {
            h2 #log-heading { "Log" }
            @if text.is_empty() {
                (nothing("The server has written nothing to its standard error."))
            } @else {
                pre.log tabindex="0" aria-label="The last lines of the log" { (text) }
            }
        }
    }
}

/// The last lines of a log, made visible.
fn log_end(files: &[PathBuf; 2]) -> String {
    let [_, current] = files;
    let mut bytes = Vec::new();
    let read = || -> std::io::Result<u64> {
        let mut file = std::fs::File::open(current)?;
        let size = file.metadata()?.len();
        let start = size.saturating_sub(MAX_LOG_BYTES);
        file.seek(SeekFrom::Start(start))?;
        file.take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(start)
    };
    let mut read = read;
    let Ok(start) = read() else { return String::new() };
    let text = String::from_utf8_lossy(&bytes);
    let mut all: Vec<&str> = text.lines().collect();
    if start > 0 && !all.is_empty() {
        all.remove(0);
    }
    let last = &all[all.len().saturating_sub(MAX_LOG_LINES)..];
    let short: Vec<String> =
        last.iter().map(|line| line.chars().take(MAX_LINE_CHARS).collect()).collect();
    visible_lines(&short.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_has_whole_lines_and_no_control_characters() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let files = [folder.path().join("a.older.log"), folder.path().join("a.log")];
        assert_eq!(log_end(&files), "");
        let text: String = (0..5000).map(|it| format!("line {it} \u{1b}[31m\n")).collect();
        std::fs::write(&files[1], text).expect("written");
        let end = log_end(&files);
        assert_eq!(end.lines().count(), MAX_LOG_LINES);
        assert!(end.ends_with("line 4999 \\u{1b}[31m"), "{end}");
        assert!(end.lines().all(|line| line.starts_with("line ")));
    }
}

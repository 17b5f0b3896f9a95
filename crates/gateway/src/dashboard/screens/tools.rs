//! The tools of all servers, with a search.

use std::sync::Arc;

use maud::{Markup, html};
use switchboard::pool::{Tool, ToolKind};

use crate::dashboard::context::ScreenContext;
use crate::dashboard::form::{Form, link};
use crate::dashboard::page::{NavItem, RenderScope, Section, View};
use crate::dashboard::parts::{
    Tone, badge, moment, name, nothing, outcome_label, shown, thousands,
};
use crate::dashboard::runs::{Run, RunState};

/// How many tools a page shows.
const PAGE_SIZE: usize = 50;
/// How many tools a search finds.
const MAX_FOUND: usize = 200;
/// How many calls of the dashboard are listed.
const MAX_RUNS: usize = 10;
/// The longest description in a table.
const MAX_DESCRIPTION_CHARS: usize = 200;

/// What the query of the screen says.
pub(crate) struct ToolsScreen {
    search: String,
    page: usize,
}

impl ToolsScreen {
    pub(super) fn parse(query: &Form) -> ToolsScreen {
        ToolsScreen { search: query.text("q").to_owned(), page: query.number("page") }
    }

    pub(super) async fn render(&self, context: ScreenContext<'_>, scope: RenderScope) -> View {
        let mut sections = Vec::new();
        if scope == RenderScope::Page {
            sections.push(Section::Static(self.list(&context)));
        }
        sections.push(Section::Live("runs", recent_runs(&context.parts.runs.all().await)));
        View::new("Tools", NavItem::Tools, sections)
    }

    fn list(&self, context: &ScreenContext<'_>) -> Markup {
        let pool = context.parts.gateway.relay.host.pool();
        let found: Vec<Arc<Tool>> = match self.search.is_empty() {
            true => pool.tools().to_vec(),
            false => pool.search(&self.search, MAX_FOUND).into_iter().map(|it| it.tool).collect(),
        };
        let first = self.page.saturating_mul(PAGE_SIZE).min(found.len());
        let shown_tools: Vec<&Arc<Tool>> = found.iter().skip(first).take(PAGE_SIZE).collect();
        html! {
            h1 { "Tools" }
            form.filter method="get" action="/ui/tools" role="search" {
                label { "Search " input type="search" name="q" value=(self.search) data-shortcut="/"; }
                button.button type="submit" { "Search" }
            }
            p.quiet {
                @if self.search.is_empty() {
                    (thousands(found.len() as u64)) " tools of all servers"
                } @else {
                    (thousands(found.len() as u64)) " found of " (thousands(pool.tools().len() as u64))
                }
            }
            @if found.is_empty() {
                (nothing("No tools."))
            } @else {
                (tool_rows(&shown_tools, ServerColumn::Shown))
                (pages("/ui/tools", &[("q", &self.search)], (self.page, PAGE_SIZE, found.len())))
            }
        }
    }
}

/// The calls that were made in the dashboard, newest first.
fn recent_runs(runs: &[Arc<Run>]) -> Markup {
    html! {
        @if !runs.is_empty() {
            section aria-labelledby="runs-heading" {
                h2 #runs-heading { "Called here" }
                ul.runs {
                    @for run in runs.iter().rev().take(MAX_RUNS) {
                        li data-key={"run-" (run.id)} {
                            (state_badge(&run.state)) " "
                            a href={"/ui/run?id=" (run.id)} { (name(run.tool.display_name())) }
                            span.quiet { " " (moment(run.started)) }
                        }
                    }
                }
            }
        }
    }
}

/// The state of a call that was started here.
pub(super) fn state_badge(state: &RunState) -> Markup {
    match state {
        RunState::Running => badge(Tone::Busy, "running"),
        RunState::Cancelled => badge(Tone::Warning, "cancelled"),
        RunState::Finished { result, .. } => match result.as_ref() {
            Ok(output) if output.is_error => badge(Tone::Bad, "tool error"),
            Ok(_) => badge(Tone::Good, "ok"),
            Err(failure) => {
                let outcome = failure.outcome.id();
                badge(Tone::of_outcome(outcome), outcome_label(outcome))
            }
        },
    }
}

/// Whether a table of tools names the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerColumn {
    Shown,
    Hidden,
}

/// A table of tools.
pub(super) fn tool_rows(tools: &[&Arc<Tool>], servers: ServerColumn) -> Markup {
    html! {
        div.table {
            table {
                thead {
                    tr {
                        th scope="col" { "Tool" }
                        @if servers == ServerColumn::Shown { th scope="col" { "Server" } }
                        th scope="col" { "Effect" }
                        th scope="col" { "Description" }
                    }
                }
                tbody {
                    @for tool in tools {
                        tr {
                            th scope="row" {
                                a href=(link("/ui/tool", &[("name", &tool.exposed_name)])) { (name(tool.display_name())) }
                            }
                            @if servers == ServerColumn::Shown { td { @if tool.server.is_empty() { "built in" } @else { (name(&tool.server)) } } }
                            td { (effects(tool)) }
                            td.wrap { (shown(&tool.description, MAX_DESCRIPTION_CHARS)) }
                        }
                    }
                }
            }
        }
    }
}

/// What the server claims about a tool's effects.
pub(super) fn effects(tool: &Tool) -> &'static str {
    let annotations = &tool.annotations;
    match (tool.kind, annotations.read_only, annotations.destructive) {
        (ToolKind::LoginPlaceholder, _, _) => "login",
        (_, true, _) => "read-only",
        (_, false, true) => "destructive",
        (_, false, false) => "writes",
    }
}

/// Links to the page before and the next one.
pub(super) fn pages(
    path: &str,
    query: &[(&str, &str)],
    (page, size, total): (usize, usize, usize),
) -> Markup {
    let to = |page: usize| {
        let number = page.to_string();
        link(path, &[query, &[("page", &number)]].concat())
    };
    let (first, last) = (page.saturating_mul(size) + 1, total.min((page + 1).saturating_mul(size)));
    html! {
        @if total > size {
            nav.pages aria-label="Pages" {
                @if page > 0 { a.button rel="prev" href=(to(page - 1)) { "Previous" } }
                span.quiet { (first) "–" (last) " of " (thousands(total as u64)) }
                @if last < total { a.button rel="next" href=(to(page + 1)) { "Next" } }
            }
        }
    }
}

//! The lists of one server: tools with a filter and pages, resources, templates and prompts.

use std::sync::Arc;

use maud::{Markup, html};
use serde::Deserialize;
use switchboard::catalogue::{ListItem, ListKind};
use switchboard::connection::ServerView;
use switchboard::pool::{Pool, Tool};

use super::tools::{ServerColumn, pages, tool_rows};
use crate::dashboard::form::Form;
use crate::dashboard::parts::{hidden, nothing, shown};

/// How many tools a page shows.
const PAGE_SIZE: usize = 50;
/// How many items of the other lists are shown.
const MAX_ITEMS: usize = 200;

/// Which tools are shown.
pub(super) struct ListPage {
    filter: String,
    page: usize,
}

impl ListPage {
    pub(super) fn parse(query: &Form) -> ListPage {
        ListPage { filter: query.text("q").to_owned(), page: query.number("page") }
    }
}

pub(super) fn lists(view: &ServerView, pool: &Pool, list: &ListPage) -> Markup {
    let needle = list.filter.to_lowercase();
    let is_match = |tool: &&Arc<Tool>| {
        tool.server == view.name
            && (needle.is_empty()
                || tool.name.to_lowercase().contains(&needle)
                || tool.description.to_lowercase().contains(&needle))
    };
    let tools: Vec<&Arc<Tool>> = pool.tools().iter().filter(is_match).collect();
    let total = view.listed().items(ListKind::Tools).len();
    let first = list.page.saturating_mul(PAGE_SIZE).min(tools.len());
    let shown_tools = &tools[first..tools.len().min(first + PAGE_SIZE)];
    let quarantined: Vec<_> =
        pool.quarantined().iter().filter(|it| it.server == view.name).take(MAX_ITEMS).collect();
    let of = |kind| view.listed().items(kind);
    html! {
        section aria-labelledby="tools-heading" {
            h2 #tools-heading { "Tools " span.quiet { (total) } }
            @if total > PAGE_SIZE || !list.filter.is_empty() {
                form.filter method="get" action="/ui/server" role="search" {
                    (hidden(&[("name", &view.name)]))
                    label { "Filter " input type="search" name="q" value=(list.filter); }
                    button.button type="submit" { "Apply" }
                }
            }
            @if tools.is_empty() {
                (nothing("No tools."))
            } @else {
                (tool_rows(shown_tools, ServerColumn::Hidden))
                (pages("/ui/server", &[("name", &view.name), ("q", &list.filter)], (list.page, PAGE_SIZE, tools.len())))
            }
            @if !quarantined.is_empty() {
                details {
                    summary { "Hidden from models: " (quarantined.len()) }
                    ul {
                        @for entry in quarantined {
                            li { code { (shown(&entry.tool, 120)) } ": " (shown(&entry.reason.to_string(), 200)) }
                        }
                    }
                }
            }
        }
        (items("resources", "Resources", of(ListKind::Resources)))
        (items("templates", "Resource templates", of(ListKind::ResourceTemplates)))
        (items("prompts", "Prompts", of(ListKind::Prompts)))
    }
}

#[derive(Deserialize, Default)]
struct ItemText {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

fn items(id: &str, heading: &str, items: &[ListItem]) -> Markup {
    html! {
        @if !items.is_empty() {
            section aria-labelledby={(id) "-heading"} {
                h2 id={(id) "-heading"} { (heading) " " span.quiet { (items.len()) } }
                div.table {
                    table {
                        thead {
                            tr { th scope="col" { "Name" } th scope="col" { "Title" } th scope="col" { "Description" } }
                        }
                        tbody {
                            @for item in items.iter().take(MAX_ITEMS) {
                                @let text = item.raw.decode::<ItemText>().unwrap_or_default();
                                tr {
                                    th.wrap scope="row" { code { (shown(&item.name, 200)) } }
                                    td { (shown(text.title.or(text.name).as_deref().unwrap_or_default(), 120)) }
                                    td.wrap { (shown(text.description.as_deref().unwrap_or_default(), 300)) }
                                }
                            }
                        }
                    }
                }
                @if items.len() > MAX_ITEMS {
                    p.quiet { (items.len() - MAX_ITEMS) " more are not shown." }
                }
            }
        }
    }
}

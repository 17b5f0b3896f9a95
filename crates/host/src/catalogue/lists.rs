//! The lists of a server: tools, resources, resource templates and prompts, with each item as the server sent it.
//! Fetching them is left to `fetch`; the meaning of an item to its users.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::protocol::capabilities::ServerCapabilities;
use switchboard_wire::protocol::param_headers::ParamHeaderError;

/// One of a server's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    ResourceTemplates,
    /// `prompts/list`
    Prompts,
}

impl ListKind {
    /// Every list.
    pub const ALL: [ListKind; 4] =
        [ListKind::Tools, ListKind::Resources, ListKind::ResourceTemplates, ListKind::Prompts];

    pub(super) fn method(self) -> &'static str {
        match self {
            ListKind::Tools => "tools/list",
            ListKind::Resources => "resources/list",
            ListKind::ResourceTemplates => "resources/templates/list",
            ListKind::Prompts => "prompts/list",
        }
    }

    /// The member of a response that holds the items; also its name in output.
    pub fn id(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Resources => "resources",
            ListKind::ResourceTemplates => "resourceTemplates",
            ListKind::Prompts => "prompts",
        }
    }

    pub(super) fn name_key(self) -> &'static str {
        match self {
            ListKind::Tools | ListKind::Prompts => "name",
            ListKind::Resources => "uri",
            ListKind::ResourceTemplates => "uriTemplate",
        }
    }

    /// Whether the server declares this list.
    pub fn is_declared(self, capabilities: &ServerCapabilities) -> bool {
        match self {
            ListKind::Tools => capabilities.tools.is_some(),
            ListKind::Resources | ListKind::ResourceTemplates => capabilities.resources.is_some(),
            ListKind::Prompts => capabilities.prompts.is_some(),
        }
    }

    /// The lists that a notification announces a change of.
    pub fn changed_by(notification: &str) -> &'static [ListKind] {
        match notification {
            "notifications/tools/list_changed" => &[ListKind::Tools],
            "notifications/resources/list_changed" => {
                &[ListKind::Resources, ListKind::ResourceTemplates]
            }
            "notifications/prompts/list_changed" => &[ListKind::Prompts],
            _ => &[],
        }
    }
}

/// One tool, resource, template or prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListItem {
    /// Its name, or its URI.
    pub name: String,
    /// The whole item, byte for byte.
    pub raw: Payload,
}

/// One fetched list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchedList {
    /// Its items.
    pub items: Vec<ListItem>,
    /// The problem.
    pub issues: Vec<ListIssue>,
    /// How long it is valid, where the server says so.
    pub ttl: Option<Duration>,
    /// The HTTP status 401 or 403, where the server rejected the request.
    pub auth_status: Option<u16>,
    /// Whether it may be out of date, because no response came.
    pub is_stale: bool,
}

/// Something wrong with a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListIssue {
    /// The list.
    pub list: ListKind,
    /// The issue.
    pub kind: ListIssueKind,
}

/// The kinds of issues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListIssueKind {
    /// The server declares the list, and it could not be fetched.
    Failed(String),
    /// A cursor came twice.
    CursorLoop,
    /// The list does not end; the items so far are used.
    Unbounded,
    /// How many items have no name or a name that is taken; they are left out.
    Skipped(usize),
    /// A tool with an invalid `x-mcp-header`; it is left out.
    InvalidParamHeaders {
        /// The tool.
        tool: String,
        /// The problem.
        fault: ParamHeaderError,
    },
}

impl fmt::Display for ListIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.list.id();
        match &self.kind {
            ListIssueKind::Failed(why) => write!(f, "{list} could not be listed: {why}"),
            ListIssueKind::CursorLoop => write!(f, "the pages of {list} go round in a circle"),
            ListIssueKind::Unbounded => write!(f, "the list of {list} does not end"),
            ListIssueKind::InvalidParamHeaders { tool, fault } => {
                write!(f, "`{tool}` is left out: {fault}")
            }
            ListIssueKind::Skipped(count) => {
                write!(f, "{count} of {list} left out: no name, or one that is taken")
            }
        }
    }
}

/// All lists of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    lists: BTreeMap<ListKind, FetchedList>,
}

impl Catalogue {
    /// The items of a list.
    pub fn items(&self, list: ListKind) -> &[ListItem] {
        self.lists.get(&list).map_or(&[], |listed| &listed.items)
    }

    /// The issues of all lists.
    pub fn issues(&self) -> impl Iterator<Item = &ListIssue> {
        self.lists.values().flat_map(|listed| &listed.issues)
    }

    /// The shortest validity of its lists, where the server gives one.
    pub fn ttl(&self) -> Option<Duration> {
        self.lists.values().filter_map(|listed| listed.ttl).min()
    }

    /// Whether a list may be out of date.
    pub fn has_stale_list(&self) -> bool {
        self.lists.values().any(|listed| listed.is_stale)
    }

    /// The same with some lists replaced. A list that got no response keeps its old items and gets an issue.
    pub fn updated_with(&self, fetched: Vec<(ListKind, FetchedList)>) -> Catalogue {
        let mut lists = self.lists.clone();
        for (list, mut listed) in fetched {
            if let (true, Some(before)) = (listed.is_stale, lists.remove(&list)) {
                let is_about_items = |it: &ListIssue| !matches!(it.kind, ListIssueKind::Failed(_));
                listed.items = before.items;
                listed.issues.splice(0..0, before.issues.into_iter().filter(is_about_items));
            }
            lists.insert(list, listed);
        }
        Catalogue { lists }
    }
}

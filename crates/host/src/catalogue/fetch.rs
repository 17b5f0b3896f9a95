//! What a server has: its tools, resources and prompts, fetched page by page and kept as they came.
//! What an item means is left to those who use it; here it only needs a name.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use switchboard_wire::client::Client;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::CallError;
use switchboard_wire::protocol::capabilities::ServerCapabilities;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::param_headers::{ParamHeaderError, ParamHeaders};
use tokio::time::{Instant, timeout_at};

/// The most items that are taken of one list.
pub const MAX_ITEMS: usize = 50_000;
/// The most pages that are asked for.
const MAX_PAGES: usize = 2_000;
/// The longest that one list may take, all pages together.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest name that an item may have.
const MAX_NAME_BYTES: usize = 4096;

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

    fn method(self) -> &'static str {
        match self {
            ListKind::Tools => "tools/list",
            ListKind::Resources => "resources/list",
            ListKind::ResourceTemplates => "resources/templates/list",
            ListKind::Prompts => "prompts/list",
        }
    }

    /// The member of an answer that holds the items, and the word for them.
    pub fn id(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Resources => "resources",
            ListKind::ResourceTemplates => "resourceTemplates",
            ListKind::Prompts => "prompts",
        }
    }

    fn name_key(self) -> &'static str {
        match self {
            ListKind::Tools | ListKind::Prompts => "name",
            ListKind::Resources => "uri",
            ListKind::ResourceTemplates => "uriTemplate",
        }
    }

    /// Does the server say that it has such a list?
    pub fn is_declared(self, capabilities: &ServerCapabilities) -> bool {
        match self {
            ListKind::Tools => capabilities.tools.is_some(),
            ListKind::Resources | ListKind::ResourceTemplates => capabilities.resources.is_some(),
            ListKind::Prompts => capabilities.prompts.is_some(),
        }
    }

    /// The lists that a notification says have changed.
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
    /// What it is asked for by: a name, or a URI.
    pub name: String,
    /// All of it, as it came.
    pub raw: Payload,
}

/// One list as it was when it was fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchedList {
    /// What is in it.
    pub items: Vec<ListItem>,
    /// What was odd about it.
    pub issues: Vec<ListIssue>,
    /// How long it may be believed, where the server says so.
    pub ttl: Option<Duration>,
    /// The status with which we were turned away, where we were.
    pub auth_status: Option<u16>,
    /// Is it not what the server says now, because no answer came?
    pub is_stale: bool,
}

/// Something odd about a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListIssue {
    /// Which.
    pub list: ListKind,
    /// What.
    pub kind: ListIssueKind,
}

/// What can be odd about a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListIssueKind {
    /// It was declared and could not be had.
    Failed(String),
    /// Its pages go round in a circle.
    CursorLoop,
    /// It does not end; what came so far is kept.
    Unbounded,
    /// Items without a name, or twice the same; they are left out.
    Skipped(usize),
    /// A tool whose wish for headers cannot be met; it is left out.
    InvalidParamHeaders {
        /// The tool.
        tool: String,
        /// What is wrong with the wish.
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

/// Everything that a server has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    lists: BTreeMap<ListKind, FetchedList>,
}

impl Catalogue {
    /// What is in a list.
    pub fn items(&self, list: ListKind) -> &[ListItem] {
        self.lists.get(&list).map_or(&[], |listed| &listed.items)
    }

    /// What was odd about the lists.
    pub fn issues(&self) -> impl Iterator<Item = &ListIssue> {
        self.lists.values().flat_map(|listed| &listed.issues)
    }

    /// How long all of it may be believed, where the server says so.
    pub fn ttl(&self) -> Option<Duration> {
        self.lists.values().filter_map(|listed| listed.ttl).min()
    }

    /// Is there a list that no answer came for?
    pub fn has_stale_list(&self) -> bool {
        self.lists.values().any(|listed| listed.is_stale)
    }

    /// The same with some lists replaced. What was listed holds until the server says something else: that it says nothing
    /// is noted.
    pub fn updated_with(&self, fetched: Vec<(ListKind, FetchedList)>) -> Catalogue {
        let mut lists = self.lists.clone();
        for (list, mut listed) in fetched {
            if let (true, Some(before)) = (listed.is_stale, lists.remove(&list)) {
                let is_of_items = |it: &ListIssue| !matches!(it.kind, ListIssueKind::Failed(_));
                listed.items = before.items;
                listed.issues.splice(0..0, before.issues.into_iter().filter(is_of_items));
            }
            lists.insert(list, listed);
        }
        Catalogue { lists }
    }
}

/// Fetches lists, side by side; only those that the server declares.
pub async fn fetch(
    client: Client,
    lists: Vec<ListKind>,
    timeout: Duration,
) -> Vec<(ListKind, FetchedList)> {
    let capabilities = &client.server().capabilities;
    let wanted = |list| lists.contains(&list) && ListKind::is_declared(list, capabilities);
    let one = |list: ListKind| {
        let client = client.clone();
        let wanted = wanted(list);
        async move {
            match wanted {
                true => Some((list, fetch_pages(&client, list, timeout).await)),
                false => None,
            }
        }
    };
    let (tools, resources, templates, prompts) = tokio::join!(
        one(ListKind::Tools),
        one(ListKind::Resources),
        one(ListKind::ResourceTemplates),
        one(ListKind::Prompts)
    );
    [tools, resources, templates, prompts].into_iter().flatten().collect()
}

/// Every page of a list.
async fn fetch_pages(client: &Client, list: ListKind, timeout: Duration) -> FetchedList {
    let mut builder = ListBuilder::new(list);
    builder.checks_param_headers =
        list == ListKind::Tools && client.carries_headers() && client.server().era == Era::Modern;
    let deadline = Instant::now() + LIST_TIMEOUT;
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let mut request = client.request(list.method()).timeout(timeout);
        if let Some(cursor) = &cursor {
            request =
                request.params(Payload::from_json(json!({"cursor": cursor}).to_string().into()));
        }
        let Ok(answer) = timeout_at(deadline, request.send()).await else {
            return builder.finish_with_issue(ListIssueKind::Unbounded);
        };
        let page = match answer {
            Ok(page) => page,
            Err(error) => return builder.finish_with_error(&error),
        };
        match builder.add_page(&page) {
            NextPage::Done => return builder.finish(),
            NextPage::Page(next) => cursor = Some(next),
            NextPage::Stop(kind) => return builder.finish_with_issue(kind),
        }
    }
    builder.finish_with_issue(ListIssueKind::Unbounded)
}

/// What was gathered of a list so far.
struct ListBuilder {
    list: ListKind,
    listed: FetchedList,
    names: HashMap<String, ()>,
    cursors: HashMap<String, ()>,
    skipped: usize,
    /// Are there headers, so that a tool can wish for some?
    checks_param_headers: bool,
}

enum NextPage {
    Done,
    Page(String),
    Stop(ListIssueKind),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    next_cursor: Option<String>,
    #[serde(default)]
    ttl_ms: Option<u64>,
}

impl ListBuilder {
    fn new(list: ListKind) -> ListBuilder {
        let (names, cursors) = (HashMap::new(), HashMap::new());
        ListBuilder {
            list,
            listed: FetchedList::default(),
            names,
            cursors,
            skipped: 0,
            checks_param_headers: false,
        }
    }

    fn add_page(&mut self, page: &Payload) -> NextPage {
        let members: HashMap<&str, &RawValue> = match serde_json::from_slice(page.as_bytes()) {
            Ok(members) => members,
            Err(_) => {
                return NextPage::Stop(ListIssueKind::Failed(
                    "the answer makes no sense".to_owned(),
                ));
            }
        };
        let items = members.get(self.list.id()).map(|raw| serde_json::from_str(raw.get()));
        let items: Vec<&RawValue> = match items {
            Some(Ok(items)) => items,
            Some(Err(_)) => {
                return NextPage::Stop(ListIssueKind::Failed(
                    "the answer makes no sense".to_owned(),
                ));
            }
            None => Vec::new(),
        };
        for raw in items {
            self.add_item(raw, page);
            if self.listed.items.len() >= MAX_ITEMS {
                return NextPage::Stop(ListIssueKind::Unbounded);
            }
        }
        let rest: PageMeta = page.decode().unwrap_or(PageMeta { next_cursor: None, ttl_ms: None });
        if let Some(ttl) = rest.ttl_ms.filter(|ms| *ms > 0).map(Duration::from_millis) {
            self.listed.ttl = Some(self.listed.ttl.map_or(ttl, |it| it.min(ttl)));
        }
        match rest.next_cursor.filter(|cursor| !cursor.is_empty()) {
            None => NextPage::Done,
            Some(cursor) => match self.cursors.insert(cursor.clone(), ()) {
                None => NextPage::Page(cursor),
                Some(()) => NextPage::Stop(ListIssueKind::CursorLoop),
            },
        }
    }

    fn add_item(&mut self, raw: &RawValue, page: &Payload) {
        let name = serde_json::from_str::<HashMap<&str, &RawValue>>(raw.get())
            .ok()
            .and_then(|it| it.get(self.list.name_key()).map(|raw| raw.get().to_owned()))
            .and_then(|text| serde_json::from_str::<String>(&text).ok())
            .filter(|name| !name.is_empty() && name.len() <= MAX_NAME_BYTES);
        match name {
            Some(name) if self.names.insert(name.clone(), ()).is_none() => {
                if let Some(fault) = self.param_header_error(raw) {
                    let kind = ListIssueKind::InvalidParamHeaders { tool: name, fault };
                    self.listed.issues.push(ListIssue { list: self.list, kind });
                    return;
                }
                let raw = Payload::from_json(page.as_bytes().slice_ref(raw.get().as_bytes()));
                self.listed.items.push(ListItem { name, raw });
            }
            Some(_) | None => self.skipped += 1,
        }
    }

    /// What is wrong with a tool's wish for headers. Only a tool that speaks of them is read.
    fn param_header_error(&self, raw: &RawValue) -> Option<ParamHeaderError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool {
            #[serde(default)]
            input_schema: serde_json::Value,
        }
        if !self.checks_param_headers || !raw.get().contains("x-mcp-header") {
            return None;
        }
        let tool: Tool = serde_json::from_str(raw.get()).ok()?;
        ParamHeaders::from_schema(&tool.input_schema).err()
    }

    fn finish_with_issue(mut self, kind: ListIssueKind) -> FetchedList {
        self.listed.issues.push(ListIssue { list: self.list, kind });
        self.finish()
    }

    /// A server that declares resources often has no templates, and says so with an error.
    fn finish_with_error(mut self, error: &CallError) -> FetchedList {
        const METHOD_NOT_FOUND: i64 = -32601;
        if let CallError::Transport(fault) = error {
            self.listed.auth_status = fault.status().filter(|it| matches!(it, 401 | 403));
        }
        self.listed.is_stale = match error {
            CallError::Remote(_) => false,
            CallError::Timeout(_) | CallError::Transport(_) | CallError::Closed { .. } => {
                self.listed.auth_status.is_none()
            }
        };
        let is_absent = matches!(error, CallError::Remote(error) if error.code == METHOD_NOT_FOUND);
        match self.list == ListKind::ResourceTemplates && is_absent {
            true => self.finish(),
            false => {
                let why = crate::failure::ConnectionFailure::from(error).to_string();
                self.finish_with_issue(ListIssueKind::Failed(why))
            }
        }
    }

    fn finish(mut self) -> FetchedList {
        if self.skipped > 0 {
            let kind = ListIssueKind::Skipped(self.skipped);
            self.listed.issues.push(ListIssue { list: self.list, kind });
        }
        self.listed
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::jsonrpc::message::RpcError;

    use super::*;

    fn page(json: &serde_json::Value) -> Payload {
        Payload::encode(json).expect("JSON")
    }

    #[test]
    fn items_stay_as_they_came_and_those_without_a_name_are_left_out() {
        let mut builder = ListBuilder::new(ListKind::Tools);
        let raw = r#"{"tools": [{"name": "a",  "x": 1.0}, {"title": "no name"}, 5, {"name": "a"}, {"name": 7}], "ttlMs": 5000}"#;
        let next = builder.add_page(&Payload::from_json(raw.into()));
        assert!(matches!(next, NextPage::Done));
        let listed = builder.finish();
        let kept = Payload::from_json(r#"{"name": "a",  "x": 1.0}"#.into());
        assert_eq!(listed.items, [ListItem { name: "a".to_owned(), raw: kept }]);
        assert_eq!(
            listed.issues,
            [ListIssue { list: ListKind::Tools, kind: ListIssueKind::Skipped(4) }]
        );
        assert_eq!(listed.ttl, Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_tool_whose_wish_for_headers_cannot_be_met_is_left_out_where_there_are_headers() {
        let tools = json!({"tools": [
            {"name": "good", "inputSchema": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}},
            {"name": "bad", "inputSchema": {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}},
        ]});
        let mut builder = ListBuilder::new(ListKind::Tools);
        builder.checks_param_headers = true;
        builder.add_page(&page(&tools));
        let listed = builder.finish();
        let names: Vec<&str> = listed.items.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["good"]);
        assert_eq!(
            listed.issues[0].to_string(),
            "`bad` is left out: `x-mcp-header` of `a`, which is not a string, integer or boolean"
        );
        let mut plain = ListBuilder::new(ListKind::Tools);
        plain.add_page(&page(&tools));
        assert_eq!(plain.finish().items.len(), 2);
    }

    #[test]
    fn a_cursor_that_comes_back_ends_the_list() {
        let mut builder = ListBuilder::new(ListKind::Prompts);
        let first = json!({"prompts": [{"name": "a"}], "nextCursor": "1"});
        assert!(matches!(builder.add_page(&page(&first)), NextPage::Page(cursor) if cursor == "1"));
        let second = json!({"prompts": [{"name": "b"}], "nextCursor": "1"});
        assert!(matches!(
            builder.add_page(&page(&second)),
            NextPage::Stop(ListIssueKind::CursorLoop)
        ));
        assert_eq!(builder.finish().items.len(), 2);
    }

    #[test]
    fn what_was_listed_holds_until_there_is_another_answer() {
        let item = ListItem { name: "a".to_owned(), raw: page(&json!({"name": "a"})) };
        let left_out = ListIssue { list: ListKind::Tools, kind: ListIssueKind::Skipped(1) };
        let good = FetchedList {
            items: vec![item],
            issues: vec![left_out.clone()],
            ..FetchedList::default()
        };
        let known = Catalogue::default().updated_with(vec![(ListKind::Tools, good.clone())]);
        let failed = |error| ListBuilder::new(ListKind::Tools).finish_with_error(&error);
        let late = || failed(CallError::Timeout(Duration::from_secs(1)));
        let unsure = known
            .updated_with(vec![(ListKind::Tools, late())])
            .updated_with(vec![(ListKind::Tools, late())]);
        assert!(unsure.has_stale_list());
        assert_eq!(unsure.items(ListKind::Tools), good.items);
        let notes: Vec<&ListIssue> = unsure.issues().collect();
        assert_eq!((notes.len(), notes[0]), (2, &left_out), "{notes:?}");
        assert_eq!(unsure.updated_with(vec![(ListKind::Tools, good)]), known);
        let refusal = RpcError { code: -32603, message: "no".to_owned(), data: None };
        let refused = known.updated_with(vec![(ListKind::Tools, failed(refusal.into()))]);
        assert!(refused.items(ListKind::Tools).is_empty() && !refused.has_stale_list());
    }

    #[test]
    fn an_answer_without_sense_is_noted() {
        for answer in [json!([]), json!({"tools": "x"})] {
            let next = ListBuilder::new(ListKind::Tools).add_page(&page(&answer));
            assert!(matches!(next, NextPage::Stop(ListIssueKind::Failed(_))));
        }
    }
}

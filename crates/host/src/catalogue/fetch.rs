//! Fetches the lists of a server page by page, within bounds. An item only needs a name to be accepted.

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use switchboard_wire::client::Client;
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::peer::CallError;
use switchboard_wire::protocol::era::Era;
use switchboard_wire::protocol::param_headers::{ParamHeaderError, ParamHeaders};
use tokio::time::{Instant, timeout_at};

use crate::failure::ConnectionFailure;

pub(crate) use crate::catalogue::lists::{
    FetchedList, ListIssue, ListIssueKind, ListItem, ListKind,
};

/// The maximum number of items of one list.
pub const MAX_ITEMS: usize = 50_000;
/// The maximum number of pages of one list.
const MAX_PAGES: usize = 2_000;
/// The timeout of one list, all pages together.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum length of an item's name.
const MAX_NAME_BYTES: usize = 4096;

/// Fetches those of the lists that the server declares, concurrently.
pub async fn fetch(
    client: Client,
    lists: Vec<ListKind>,
    timeout: Duration,
) -> Vec<(ListKind, FetchedList)> {
    let capabilities = &client.server().capabilities;
    let is_requested = |list| lists.contains(&list) && ListKind::is_declared(list, capabilities);
    let one = |list: ListKind| {
        let client = client.clone();
        let is_requested = is_requested(list);
        async move {
            match is_requested {
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

/// The list in a JSON array of items, checked like a page of a server; `None` where it is no such array.
pub(super) fn parse_items(list: ListKind, items: &RawValue) -> Option<FetchedList> {
    let mut builder = ListBuilder::new(list);
    let page = format!("{{\"{}\":{}}}", list.id(), items.get());
    match builder.add_page(&Payload::from_json(page.into())) {
        NextPage::Done => Some(builder.finish()),
        NextPage::Page(_) | NextPage::Stop(_) => None,
    }
}

/// Fetches all pages of one list.
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
        let Ok(response) = timeout_at(deadline, request.send()).await else {
            return builder.finish_with_issue(ListIssueKind::Unbounded);
        };
        let page = match response {
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

/// The pages of a list so far.
struct ListBuilder {
    list: ListKind,
    listed: FetchedList,
    names: HashMap<String, ()>,
    cursors: HashMap<String, ()>,
    skipped: usize,
    /// Whether the transport has headers, so that `x-mcp-header` counts.
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
                    "the response is not valid".to_owned(),
                ));
            }
        };
        let items = members.get(self.list.id()).map(|raw| serde_json::from_str(raw.get()));
        let items: Vec<&RawValue> = match items {
            Some(Ok(items)) => items,
            Some(Err(_)) => {
                return NextPage::Stop(ListIssueKind::Failed(
                    "the response is not valid".to_owned(),
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

    /// The error in a tool's `x-mcp-header`, if any. Parses the schema only if the word occurs in it.
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

    /// Many servers declare resources and answer the request for templates with an error; that is no issue.
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
                let why = ConnectionFailure::from(error).to_string();
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
    use crate::catalogue::lists::Catalogue;

    fn page(json: &serde_json::Value) -> Payload {
        Payload::encode(json).expect("JSON")
    }

    #[test]
    fn items_stay_byte_for_byte_and_those_without_a_name_are_left_out() {
        let mut builder = ListBuilder::new(ListKind::Tools);
        let text = r#"{"tools": [{"name": "a",  "x": 1.0}, {"title": "no name"}, 5, {"name": "a"}, {"name": 7}], "ttlMs": 5000}"#;
        let next = builder.add_page(&Payload::from_json(text.into()));
        assert!(matches!(next, NextPage::Done));
        let listed = builder.finish();
        let raw = Payload::from_json(r#"{"name": "a",  "x": 1.0}"#.into());
        assert_eq!(listed.items, [ListItem { name: "a".to_owned(), raw }]);
        assert_eq!(
            listed.issues,
            [ListIssue { list: ListKind::Tools, kind: ListIssueKind::Skipped(4) }]
        );
        assert_eq!(listed.ttl, Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_tool_with_an_invalid_param_header_is_left_out_where_the_transport_has_headers() {
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
    fn a_list_is_kept_until_there_is_another_response() {
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
        let issues: Vec<&ListIssue> = unsure.issues().collect();
        assert_eq!((issues.len(), issues[0]), (2, &left_out), "{issues:?}");
        assert_eq!(unsure.updated_with(vec![(ListKind::Tools, good)]), known);
        let refusal = RpcError { code: -32603, message: "no".to_owned(), data: None };
        let refused = known.updated_with(vec![(ListKind::Tools, failed(refusal.into()))]);
        assert!(refused.items(ListKind::Tools).is_empty() && !refused.has_stale_list());
    }

    #[test]
    fn an_invalid_response_is_an_issue() {
        for response in [json!([]), json!({"tools": "x"})] {
            let next = ListBuilder::new(ListKind::Tools).add_page(&page(&response));
            assert!(matches!(next, NextPage::Stop(ListIssueKind::Failed(_))));
        }
    }
}

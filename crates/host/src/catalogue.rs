//! What a server has: its tools, resources and prompts, fetched page by page and kept as they came.
//! What an item means is left to those who use it; here it only needs a name.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use switchboard_wire::client::Client;
use switchboard_wire::era::Era;
use switchboard_wire::introduction::Capabilities;
use switchboard_wire::message::Payload;
use switchboard_wire::mirror::{Mirror, MirrorFault};
use switchboard_wire::peer::CallError;
use tokio::time::{Instant, timeout_at};

/// The most items that are taken of one list.
pub const MOST_ITEMS: usize = 50_000;
/// The most pages that are asked for.
const MOST_PAGES: usize = 2_000;
/// The longest that one list may take, all pages together.
const LONGEST: Duration = Duration::from_secs(60);
/// The longest name that an item may have.
const LONGEST_NAME: usize = 4096;

/// One of a server's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `tools/list`
    Tools,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
    /// `prompts/list`
    Prompts,
}

impl List {
    /// Every list.
    pub const ALL: [List; 4] = [List::Tools, List::Resources, List::Templates, List::Prompts];

    fn method(self) -> &'static str {
        match self {
            List::Tools => "tools/list",
            List::Resources => "resources/list",
            List::Templates => "resources/templates/list",
            List::Prompts => "prompts/list",
        }
    }

    /// The member of an answer that holds the items, and the word for them.
    pub fn id(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
            List::Prompts => "prompts",
        }
    }

    fn name_member(self) -> &'static str {
        match self {
            List::Tools | List::Prompts => "name",
            List::Resources => "uri",
            List::Templates => "uriTemplate",
        }
    }

    /// Does the server say that it has such a list?
    pub fn is_declared(self, capabilities: &Capabilities) -> bool {
        match self {
            List::Tools => capabilities.tools.is_some(),
            List::Resources | List::Templates => capabilities.resources.is_some(),
            List::Prompts => capabilities.prompts.is_some(),
        }
    }

    /// The lists that a notification says have changed.
    pub fn changed_by(notification: &str) -> &'static [List] {
        match notification {
            "notifications/tools/list_changed" => &[List::Tools],
            "notifications/resources/list_changed" => &[List::Resources, List::Templates],
            "notifications/prompts/list_changed" => &[List::Prompts],
            _ => &[],
        }
    }
}

/// One tool, resource, template or prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is asked for by: a name, or a URI.
    pub name: String,
    /// All of it, as it came.
    pub raw: Payload,
}

/// One list as it was when it was fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// What is in it.
    pub items: Vec<Item>,
    /// What was odd about it.
    pub notes: Vec<Note>,
    /// How long it may be believed, where the server says so.
    pub fresh_for: Option<Duration>,
    /// The status with which we were turned away, where we were.
    pub turned_away: Option<u16>,
    /// Is it not what the server says now, because no answer came?
    pub is_unanswered: bool,
}

/// Something odd about a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Which.
    pub list: List,
    /// What.
    pub oddity: Oddity,
}

/// What can be odd about a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Oddity {
    /// It was declared and could not be had.
    Refused(String),
    /// Its pages go round in a circle.
    Circle,
    /// It does not end; what came so far is kept.
    Endless,
    /// Items without a name, or twice the same; they are left out.
    LeftOut(usize),
    /// A tool whose wish for headers cannot be met; it is left out.
    Unmirrored {
        /// The tool.
        tool: String,
        /// What is wrong with the wish.
        fault: MirrorFault,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = self.list.id();
        match &self.oddity {
            Oddity::Refused(why) => write!(f, "{list} could not be listed: {why}"),
            Oddity::Circle => write!(f, "the pages of {list} go round in a circle"),
            Oddity::Endless => write!(f, "the list of {list} does not end"),
            Oddity::Unmirrored { tool, fault } => write!(f, "`{tool}` is left out: {fault}"),
            Oddity::LeftOut(count) => {
                write!(f, "{count} of {list} left out: no name, or one that is taken")
            }
        }
    }
}

/// Everything that a server has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    lists: BTreeMap<List, Listed>,
}

impl Catalogue {
    /// What is in a list.
    pub fn items(&self, list: List) -> &[Item] {
        self.lists.get(&list).map_or(&[], |listed| &listed.items)
    }

    /// What was odd about the lists.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.lists.values().flat_map(|listed| &listed.notes)
    }

    /// How long all of it may be believed, where the server says so.
    pub fn fresh_for(&self) -> Option<Duration> {
        self.lists.values().filter_map(|listed| listed.fresh_for).min()
    }

    /// Is there a list that no answer came for?
    pub fn is_unanswered(&self) -> bool {
        self.lists.values().any(|listed| listed.is_unanswered)
    }

    /// The same with some lists replaced. What was listed holds until the server says something else: that it says nothing
    /// is noted.
    pub fn with(&self, fetched: Vec<(List, Listed)>) -> Catalogue {
        let mut lists = self.lists.clone();
        for (list, mut listed) in fetched {
            if let (true, Some(before)) = (listed.is_unanswered, lists.remove(&list)) {
                let is_of_items = |it: &Note| !matches!(it.oddity, Oddity::Refused(_));
                listed.items = before.items;
                listed.notes.splice(0..0, before.notes.into_iter().filter(is_of_items));
            }
            lists.insert(list, listed);
        }
        Catalogue { lists }
    }
}

/// Fetches lists, side by side; only those that the server declares.
pub async fn fetch(client: Client, lists: Vec<List>, patience: Duration) -> Vec<(List, Listed)> {
    let capabilities = &client.introduction().capabilities;
    let wanted = |list| lists.contains(&list) && List::is_declared(list, capabilities);
    let one = |list: List| {
        let client = client.clone();
        let wanted = wanted(list);
        async move {
            match wanted {
                true => Some((list, pages(&client, list, patience).await)),
                false => None,
            }
        }
    };
    let (tools, resources, templates, prompts) = tokio::join!(
        one(List::Tools),
        one(List::Resources),
        one(List::Templates),
        one(List::Prompts)
    );
    [tools, resources, templates, prompts].into_iter().flatten().collect()
}

/// Every page of a list.
async fn pages(client: &Client, list: List, patience: Duration) -> Listed {
    let mut gathered = Gathered::new(list);
    gathered.checks_mirrors =
        list == List::Tools && client.carries_headers() && client.introduction().era == Era::Modern;
    let deadline = Instant::now() + LONGEST;
    let mut cursor: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let mut request = client.request(list.method()).within(patience);
        if let Some(cursor) = &cursor {
            request =
                request.params(Payload::from_json(json!({"cursor": cursor}).to_string().into()));
        }
        let Ok(answer) = timeout_at(deadline, request.send()).await else {
            return gathered.noting(Oddity::Endless);
        };
        let page = match answer {
            Ok(page) => page,
            Err(error) => return gathered.refused(&error),
        };
        match gathered.take(&page) {
            Next::Done => return gathered.finish(),
            Next::Page(next) => cursor = Some(next),
            Next::Stop(oddity) => return gathered.noting(oddity),
        }
    }
    gathered.noting(Oddity::Endless)
}

/// What was gathered of a list so far.
struct Gathered {
    list: List,
    listed: Listed,
    names: HashMap<String, ()>,
    cursors: HashMap<String, ()>,
    left_out: usize,
    /// Are there headers, so that a tool can wish for some?
    checks_mirrors: bool,
}

enum Next {
    Done,
    Page(String),
    Stop(Oddity),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rest {
    #[serde(default)]
    next_cursor: Option<String>,
    #[serde(default)]
    ttl_ms: Option<u64>,
}

impl Gathered {
    fn new(list: List) -> Gathered {
        let (names, cursors) = (HashMap::new(), HashMap::new());
        Gathered {
            list,
            listed: Listed::default(),
            names,
            cursors,
            left_out: 0,
            checks_mirrors: false,
        }
    }

    fn take(&mut self, page: &Payload) -> Next {
        let members: HashMap<&str, &RawValue> = match serde_json::from_slice(page.as_bytes()) {
            Ok(members) => members,
            Err(_) => return Next::Stop(Oddity::Refused("the answer makes no sense".to_owned())),
        };
        let items = members.get(self.list.id()).map(|raw| serde_json::from_str(raw.get()));
        let items: Vec<&RawValue> = match items {
            Some(Ok(items)) => items,
            Some(Err(_)) => {
                return Next::Stop(Oddity::Refused("the answer makes no sense".to_owned()));
            }
            None => Vec::new(),
        };
        for raw in items {
            self.add(raw, page);
            if self.listed.items.len() >= MOST_ITEMS {
                return Next::Stop(Oddity::Endless);
            }
        }
        let rest: Rest = page.decode().unwrap_or(Rest { next_cursor: None, ttl_ms: None });
        if let Some(fresh) = rest.ttl_ms.filter(|ms| *ms > 0).map(Duration::from_millis) {
            self.listed.fresh_for = Some(self.listed.fresh_for.map_or(fresh, |it| it.min(fresh)));
        }
        match rest.next_cursor.filter(|cursor| !cursor.is_empty()) {
            None => Next::Done,
            Some(cursor) => match self.cursors.insert(cursor.clone(), ()) {
                None => Next::Page(cursor),
                Some(()) => Next::Stop(Oddity::Circle),
            },
        }
    }

    fn add(&mut self, raw: &RawValue, page: &Payload) {
        let name = serde_json::from_str::<HashMap<&str, &RawValue>>(raw.get())
            .ok()
            .and_then(|it| it.get(self.list.name_member()).map(|raw| raw.get().to_owned()))
            .and_then(|text| serde_json::from_str::<String>(&text).ok())
            .filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME);
        match name {
            Some(name) if self.names.insert(name.clone(), ()).is_none() => {
                if let Some(fault) = self.mirror_fault(raw) {
                    let oddity = Oddity::Unmirrored { tool: name, fault };
                    self.listed.notes.push(Note { list: self.list, oddity });
                    return;
                }
                let raw = Payload::from_json(page.as_bytes().slice_ref(raw.get().as_bytes()));
                self.listed.items.push(Item { name, raw });
            }
            Some(_) | None => self.left_out += 1,
        }
    }

    /// What is wrong with a tool's wish for headers. Only a tool that speaks of them is read.
    fn mirror_fault(&self, raw: &RawValue) -> Option<MirrorFault> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Tool {
            #[serde(default)]
            input_schema: serde_json::Value,
        }
        if !self.checks_mirrors || !raw.get().contains("x-mcp-header") {
            return None;
        }
        let tool: Tool = serde_json::from_str(raw.get()).ok()?;
        Mirror::of(&tool.input_schema).err()
    }

    fn noting(mut self, oddity: Oddity) -> Listed {
        self.listed.notes.push(Note { list: self.list, oddity });
        self.finish()
    }

    /// A server that declares resources often has no templates, and says so with an error.
    fn refused(mut self, error: &CallError) -> Listed {
        const NO_METHOD: i64 = -32601;
        if let CallError::Lost(fault) = error {
            self.listed.turned_away = fault.status().filter(|it| matches!(it, 401 | 403));
        }
        self.listed.is_unanswered = match error {
            CallError::Remote(_) => false,
            CallError::Timeout(_) | CallError::Lost(_) | CallError::Ended { .. } => {
                self.listed.turned_away.is_none()
            }
        };
        let is_absent = matches!(error, CallError::Remote(error) if error.code == NO_METHOD);
        match self.list == List::Templates && is_absent {
            true => self.finish(),
            false => {
                let why = crate::cause::Cause::from(error).to_string();
                self.noting(Oddity::Refused(why))
            }
        }
    }

    fn finish(mut self) -> Listed {
        if self.left_out > 0 {
            let oddity = Oddity::LeftOut(self.left_out);
            self.listed.notes.push(Note { list: self.list, oddity });
        }
        self.listed
    }
}

#[cfg(test)]
mod tests {
    use switchboard_wire::message::RemoteError;

    use super::*;

    fn page(json: &serde_json::Value) -> Payload {
        Payload::of(json).expect("JSON")
    }

    #[test]
    fn items_stay_as_they_came_and_those_without_a_name_are_left_out() {
        let mut gathered = Gathered::new(List::Tools);
        let raw = r#"{"tools": [{"name": "a",  "x": 1.0}, {"title": "no name"}, 5, {"name": "a"}, {"name": 7}], "ttlMs": 5000}"#;
        let next = gathered.take(&Payload::from_json(raw.into()));
        assert!(matches!(next, Next::Done));
        let listed = gathered.finish();
        let kept = Payload::from_json(r#"{"name": "a",  "x": 1.0}"#.into());
        assert_eq!(listed.items, [Item { name: "a".to_owned(), raw: kept }]);
        assert_eq!(listed.notes, [Note { list: List::Tools, oddity: Oddity::LeftOut(4) }]);
        assert_eq!(listed.fresh_for, Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_tool_whose_wish_for_headers_cannot_be_met_is_left_out_where_there_are_headers() {
        let tools = json!({"tools": [
            {"name": "good", "inputSchema": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}},
            {"name": "bad", "inputSchema": {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}},
        ]});
        let mut gathered = Gathered::new(List::Tools);
        gathered.checks_mirrors = true;
        gathered.take(&page(&tools));
        let listed = gathered.finish();
        let names: Vec<&str> = listed.items.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["good"]);
        assert_eq!(
            listed.notes[0].to_string(),
            "`bad` is left out: `x-mcp-header` of `a`, which is no text, whole number or truth value"
        );
        let mut plain = Gathered::new(List::Tools);
        plain.take(&page(&tools));
        assert_eq!(plain.finish().items.len(), 2);
    }

    #[test]
    fn a_cursor_that_comes_back_ends_the_list() {
        let mut gathered = Gathered::new(List::Prompts);
        let first = json!({"prompts": [{"name": "a"}], "nextCursor": "1"});
        assert!(matches!(gathered.take(&page(&first)), Next::Page(cursor) if cursor == "1"));
        let second = json!({"prompts": [{"name": "b"}], "nextCursor": "1"});
        assert!(matches!(gathered.take(&page(&second)), Next::Stop(Oddity::Circle)));
        assert_eq!(gathered.finish().items.len(), 2);
    }

    #[test]
    fn what_was_listed_holds_until_there_is_another_answer() {
        let item = Item { name: "a".to_owned(), raw: page(&json!({"name": "a"})) };
        let left_out = Note { list: List::Tools, oddity: Oddity::LeftOut(1) };
        let good = Listed { items: vec![item], notes: vec![left_out.clone()], ..Listed::default() };
        let known = Catalogue::default().with(vec![(List::Tools, good.clone())]);
        let failed = |error| Gathered::new(List::Tools).refused(&error);
        let late = || failed(CallError::Timeout(Duration::from_secs(1)));
        let unsure = known.with(vec![(List::Tools, late())]).with(vec![(List::Tools, late())]);
        assert!(unsure.is_unanswered());
        assert_eq!(unsure.items(List::Tools), good.items);
        let notes: Vec<&Note> = unsure.notes().collect();
        assert_eq!((notes.len(), notes[0]), (2, &left_out), "{notes:?}");
        assert_eq!(unsure.with(vec![(List::Tools, good)]), known);
        let refusal = RemoteError { code: -32603, message: "no".to_owned(), data: None };
        let refused = known.with(vec![(List::Tools, failed(refusal.into()))]);
        assert!(refused.items(List::Tools).is_empty() && !refused.is_unanswered());
    }

    #[test]
    fn an_answer_without_sense_is_noted() {
        for answer in [json!([]), json!({"tools": "x"})] {
            let next = Gathered::new(List::Tools).take(&page(&answer));
            assert!(matches!(next, Next::Stop(Oddity::Refused(_))));
        }
    }
}

//! What is served at one moment: every tool, resource, template and prompt under the name that clients see, whose it is,
//! and the lists as they are sent. Made anew when something changes; requests only look things up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard::catalogue::{Item, List};
use switchboard::connection::{Status, View};
use switchboard::engine::Snapshot;
use switchboard::lane::Lane;
use switchboard::pool::Pool;
use switchboard::pool::naming;
use switchboard::pool::tool::{Tool, ToolKind};
use switchboard_config::entry::TransportKind;
use switchboard_config::permission::{RuleFault, ToolRule};
use switchboard_wire::era::Era;
use switchboard_wire::message::Payload;

use crate::guest::{Abilities, Guest};
use crate::list_pages::{Entries, Pages};
use crate::search_tools;

/// How things are called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Names {
    /// Every tool and prompt has its server's name before its own.
    #[default]
    Prefixed,
    /// As servers call them. Where two servers use one name, the first server by name has it.
    Plain,
    /// As servers call them, with the server's name before what two servers call the same.
    OnCollision,
}

/// How tools are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolsShown {
    /// All of them.
    #[default]
    All,
    /// One tool that searches, and one that calls what was found.
    Search,
}

/// What is served, and how.
#[derive(Debug, Clone, Default)]
pub struct Serving {
    /// How things are called.
    pub names: Names,
    /// The rules that say what is served; all of it where there are none.
    pub exposed: Vec<ToolRule>,
    /// How tools are shown.
    pub tools: ToolsShown,
    /// Who shares a connection to a server.
    pub sharing: Sharing,
}

/// Who shares a connection to a server that remembers whom it talks to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Everybody.
    #[default]
    Everybody,
    /// All clients of one principal.
    Principal,
    /// Nobody: every session has its own, and answers for itself which folders it works in.
    Session,
}

/// Where something is, and what it is called there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Whose {
    pub(crate) server: Arc<str>,
    pub(crate) name: String,
}

/// What a server can do that is passed through.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    pub(crate) server: Arc<str>,
    /// What rules call it.
    pub(crate) prefix: String,
    pub(crate) era: Era,
    pub(crate) is_program: bool,
    pub(crate) capabilities: Map<String, Json>,
    pub(crate) instructions: Option<String>,
}

impl Facts {
    pub(crate) fn has(&self, capability: &str) -> bool {
        self.capabilities
            .get(capability)
            .is_some_and(|it| !it.is_null() && *it != Json::Bool(false))
    }

    /// The names of extensions that it has, standard and its own.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = &str> {
        ["extensions", "experimental"]
            .into_iter()
            .filter_map(|it| self.capabilities.get(it).and_then(Json::as_object))
            .flat_map(Map::keys)
            .map(String::as_str)
    }
}

/// Everything that is served.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) tools: HashMap<String, Arc<Tool>>,
    /// Tools that were served, by name, of servers that are not connected now. They are not shown, but whoever calls
    /// one has its server connected, or is told why it is not.
    pub(crate) absent: HashMap<String, Arc<Tool>>,
    pub(crate) prompts: HashMap<String, Whose>,
    pub(crate) resources: HashMap<String, Arc<str>>,
    pub(crate) templates: Vec<Whose>,
    pub(crate) servers: Vec<Facts>,
    pub(crate) lists: BTreeMap<List, Pages>,
    pub(crate) pool: Arc<Pool>,
    /// Of the snapshot that it was made of.
    pub(crate) revision: u64,
    tools_shown: ToolsShown,
    sharing: Sharing,
    legacy: Map<String, Json>,
    modern: Map<String, Json>,
}

impl Directory {
    /// What is served now. Lists that are as they were are taken over.
    pub(crate) fn next(
        &self,
        snapshot: &Snapshot,
        pool: &Arc<Pool>,
        serving: &Serving,
    ) -> Directory {
        let views: Vec<&Arc<View>> = snapshot.servers.values().collect();
        let is_served = |view: &View| serving.serves_server(&view.name);
        let mut directory = Directory {
            servers: views.iter().filter(|it| is_served(it)).filter_map(|it| facts(it)).collect(),
            pool: pool.clone(),
            revision: snapshot.revision,
            tools_shown: serving.tools,
            sharing: serving.sharing,
            ..Directory::default()
        };
        let tools = directory.take_tools(pool, serving);
        directory.keep(self, List::Tools, tools);
        directory.remember_absent(self, snapshot);
        let views: Vec<&View> = views.iter().map(|it| &***it).filter(|it| is_served(it)).collect();
        let prompts = directory.take_prompts(&views, serving.names);
        directory.keep(self, List::Prompts, prompts);
        let resources = directory.take_resources(&views);
        directory.keep(self, List::Resources, resources);
        let templates = directory.take_templates(&views);
        directory.keep(self, List::Templates, templates);
        directory.legacy = directory.declared(Era::Legacy);
        directory.modern = directory.declared(Era::Modern);
        directory
    }

    /// What we say that we can do.
    pub(crate) fn capabilities(&self, era: Era) -> &Map<String, Json> {
        match era {
            Era::Legacy => &self.legacy,
            Era::Modern => &self.modern,
        }
    }

    /// Is this one of the tools that stand for all the others?
    pub(crate) fn stands_for_all(&self, tool: &str) -> bool {
        self.tools_shown == ToolsShown::Search
            && [search_tools::SEARCH, search_tools::CALL].contains(&tool)
    }

    fn keep(&mut self, before: &Directory, list: List, entries: Entries) {
        let pages = match before.lists.get(&list) {
            Some(pages) if pages.holds(&entries) => pages.clone(),
            before => Pages::of(list, entries, before.map_or(0, Pages::revision) + 1),
        };
        self.lists.insert(list, pages);
    }

    fn take_tools(&mut self, pool: &Pool, serving: &Serving) -> Entries {
        let all: Vec<&Arc<Tool>> = pool
            .tools()
            .iter()
            .chain(pool.apart())
            .filter(|it| it.kind != ToolKind::BuiltIn && serving.serves(it))
            .collect();
        let twice = twice(all.iter().map(|it| it.name.as_str()));
        let mut entries = BTreeMap::new();
        for tool in all {
            let named = match (serving.names, tool.kind) {
                (Names::Prefixed, _) | (_, ToolKind::StandIn) => &tool.exposed,
                (Names::Plain, _) => &tool.name,
                (Names::OnCollision, _) if twice.contains(tool.name.as_str()) => &tool.exposed,
                (Names::OnCollision, _) => &tool.name,
            };
            if self.tools.contains_key(named) {
                continue;
            }
            self.tools.insert(named.clone(), tool.clone());
            entries.insert(named.clone(), renamed(&tool.raw, &tool.name, named));
        }
        match serving.tools {
            ToolsShown::All => entries.into_values().collect(),
            ToolsShown::Search => search_tools::definitions(),
        }
    }

    /// A tool is missed until its server is connected and has shown its tools, or is not wanted any more.
    fn remember_absent(&mut self, before: &Directory, snapshot: &Snapshot) {
        let served = before.tools.iter().filter(|(_, tool)| tool.kind == ToolKind::Served);
        let shows_tools: BTreeSet<&str> = self
            .tools
            .values()
            .filter(|tool| tool.kind == ToolKind::Served)
            .map(|tool| tool.server.as_str())
            .collect();
        let is_absent = |server: &str| match snapshot.servers.get(server).map(|it| &it.status) {
            Some(Status::Pending { .. } | Status::Failed(_) | Status::NeedsAuth(_)) => true,
            Some(Status::Connected) => !shows_tools.contains(server),
            Some(Status::Disabled) | None => false,
        };
        self.absent = served
            .chain(&before.absent)
            .filter(|(name, tool)| !self.tools.contains_key(*name) && is_absent(&tool.server))
            .map(|(name, tool)| (name.clone(), tool.clone()))
            .collect();
    }

    fn take_prompts(&mut self, views: &[&View], names: Names) -> Entries {
        let all: Vec<(&View, &Item)> = items(views, List::Prompts).collect();
        let twice = twice(all.iter().map(|it| it.1.name.as_str()));
        let mut entries = BTreeMap::new();
        for (view, item) in all {
            let origin = naming::Origin::of(view.scope);
            let prefixed = || format!("mcp__{}__{}", naming::prefix(&view.name, origin), item.name);
            let named = match names {
                Names::Prefixed => prefixed(),
                Names::OnCollision if twice.contains(item.name.as_str()) => prefixed(),
                Names::Plain | Names::OnCollision => item.name.clone(),
            };
            if self.prompts.contains_key(&named) {
                continue;
            }
            let whose = Whose { server: view.name.as_str().into(), name: item.name.clone() };
            entries.insert(named.clone(), renamed(&item.raw, &item.name, &named));
            self.prompts.insert(named, whose);
        }
        entries.into_values().collect()
    }

    /// An address is an address: of two servers that have one, the first by name is asked.
    fn take_resources(&mut self, views: &[&View]) -> Entries {
        let mut entries = Entries::new();
        for (view, item) in items(views, List::Resources) {
            if !self.resources.contains_key(&item.name) {
                self.resources.insert(item.name.clone(), view.name.as_str().into());
                entries.push(item.raw.clone());
            }
        }
        entries
    }

    fn take_templates(&mut self, views: &[&View]) -> Entries {
        let mut entries = Entries::new();
        for (view, item) in items(views, List::Templates) {
            if !self.templates.iter().any(|it| it.name == item.name) {
                let whose = Whose { server: view.name.as_str().into(), name: item.name.clone() };
                self.templates.push(whose);
                entries.push(item.raw.clone());
            }
        }
        entries
    }

    /// The server that has a resource: one that lists it, or whose template it fits best, or the only one there is.
    pub(crate) fn server_of(&self, uri: &str) -> Option<&Arc<str>> {
        if let Some(server) = self.resources.get(uri) {
            return Some(server);
        }
        let fits = |it: &&Whose| uri.starts_with(literal(&it.name));
        let best = self.templates.iter().filter(fits).max_by_key(|it| literal(&it.name).len());
        best.map(|it| &it.server).or_else(|| {
            let mut able = self.servers.iter().filter(|it| it.has("resources"));
            let only = able.next()?;
            able.next().is_none().then_some(&only.server)
        })
    }

    /// The servers that may know a resource which nobody lists, best first.
    pub(crate) fn servers_for(&self, uri: &str) -> Vec<Arc<str>> {
        if let Some(server) = self.server_of(uri) {
            return vec![server.clone()];
        }
        let able = self.servers.iter().filter(|it| it.has("resources"));
        able.map(|it| it.server.clone()).collect()
    }

    /// The server that an entry of a list, other than the list of tools, belongs to.
    pub(crate) fn owner_in(&self, list: List, entry: &Json) -> Option<&Arc<str>> {
        let named = |member: &str| entry[member].as_str();
        match list {
            List::Tools => None,
            List::Prompts => self.prompts.get(named("name")?).map(|it| &it.server),
            List::Resources => self.resources.get(named("uri")?),
            List::Templates => {
                let template = named("uriTemplate")?;
                self.templates.iter().find(|it| it.name == template).map(|it| &it.server)
            }
        }
    }

    /// The servers with a capability or an extension of this name.
    pub(crate) fn able<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Facts> + 'a {
        self.servers.iter().filter(move |it| it.has(name) || it.extensions().any(|it| it == name))
    }

    /// The connection that a client uses for a server. A modern server is told with every request whom it is for, and
    /// remembers nothing, unless it is a program.
    pub(crate) fn lane(&self, guest: &Guest, server: &str) -> Option<Lane> {
        let facts = self.servers.iter().find(|it| *it.server == *server)?;
        if facts.era == Era::Modern && !facts.is_program {
            return None;
        }
        let whose = match self.sharing {
            Sharing::Everybody => String::new(),
            Sharing::Principal => guest.principal.to_string(),
            Sharing::Session => format!("{}/{}", guest.principal, guest.lane_number()),
        };
        // A connection more costs a remote server little, a process more costs much: where all share one, everything
        // is offered, and what a client cannot do is refused when it is asked.
        let is_one_process = facts.is_program && self.sharing == Sharing::Everybody;
        let can = if is_one_process { Abilities::ALL } else { guest.can() };
        if whose.is_empty() && can.is_all() {
            return None;
        }
        let owner = match self.sharing {
            Sharing::Session => guest.owner(),
            Sharing::Everybody | Sharing::Principal => None,
        };
        Some(Lane { key: format!("{whose}|{can}").into(), abilities: can.offered(), owner })
    }

    /// What the connections of a client are called that nobody shares with it, where it has such.
    pub(crate) fn own_lane(&self, guest: &Guest) -> Option<String> {
        match self.sharing {
            Sharing::Everybody | Sharing::Principal => None,
            Sharing::Session => {
                Some(format!("{}/{}|{}", guest.principal, guest.lane_number(), guest.can()))
            }
        }
    }

    /// The one server that an extension's method is for: an extension `a/b` owns the methods `b/…` and `a/b/…`.
    pub(crate) fn owner_of(&self, method: &str) -> Option<&Facts> {
        let owns = |extension: &str| {
            let short = extension.rsplit('/').next().unwrap_or(extension);
            [extension, short]
                .iter()
                .any(|it| method.strip_prefix(it).is_some_and(|rest| rest.starts_with('/')))
        };
        self.servers.iter().find(|it| it.extensions().any(owns))
    }

    /// What there is to pass through, and nothing else.
    fn declared(&self, era: Era) -> Map<String, Json> {
        let mut said = Map::new();
        let any = |name: &str| self.servers.iter().any(|it| it.has(name));
        let are_tools = !self.tools.is_empty() || !self.absent.is_empty();
        if any("tools") || are_tools || self.tools_shown == ToolsShown::Search {
            said.insert("tools".to_owned(), json!({"listChanged": true}));
        }
        if any("resources") {
            let takes = |it: &Facts| {
                let resources = it.capabilities.get("resources");
                resources.is_some_and(|it| it["subscribe"] == true)
            };
            let can_subscribe = self.servers.iter().any(takes);
            let mut how = json!({"listChanged": true});
            if can_subscribe {
                how["subscribe"] = true.into();
            }
            said.insert("resources".to_owned(), how);
        }
        if any("prompts") {
            said.insert("prompts".to_owned(), json!({"listChanged": true}));
        }
        for name in ["completions", "logging"] {
            if any(name) {
                said.insert(name.to_owned(), json!({}));
            }
        }
        for name in ["extensions", "experimental"] {
            let mut all = Map::new();
            for facts in &self.servers {
                let its = facts.capabilities.get(name).and_then(Json::as_object);
                for (name, how) in its.into_iter().flatten() {
                    all.entry(name.clone()).or_insert_with(|| how.clone());
                }
            }
            if !all.is_empty() {
                said.insert(name.to_owned(), Json::Object(all));
            }
        }
        // Tasks of the legacy era are a capability; those of the modern one an extension.
        if era == Era::Legacy
            && let Some(tasks) = self.servers.iter().find_map(|it| it.capabilities.get("tasks"))
        {
            said.insert("tasks".to_owned(), tasks.clone());
        }
        said
    }

    /// How to use it all: what the servers say that are shown, each under its name.
    pub(crate) fn instructions(&self, is_shown: impl Fn(&str) -> bool) -> Option<String> {
        let shown: Vec<&Facts> = self.servers.iter().filter(|it| is_shown(&it.server)).collect();
        let said = |it: &&Facts| Some(format!("# {}\n{}", it.server, it.instructions.as_ref()?));
        let all: Vec<String> = shown.iter().filter_map(said).collect();
        match shown.as_slice() {
            [only] => only.instructions.clone(),
            _ => (!all.is_empty()).then(|| all.join("\n\n")),
        }
    }
}

impl Serving {
    fn serves(&self, tool: &Tool) -> bool {
        let name = naming::as_in_rules(&tool.name);
        let fits = |rule: &ToolRule| rule.names_tool(&tool.prefix, &name);
        self.exposed.is_empty() || self.exposed.iter().any(fits)
    }

    /// Is something of this server served? What is not a tool is served where any of its tools is.
    fn serves_server(&self, server: &str) -> bool {
        let named = naming::sanitised(server);
        self.exposed.is_empty() || self.exposed.iter().any(|rule| rule.names_server(&named))
    }
}

/// A rule that only says what is served.
pub fn exposing(text: &str) -> Result<ToolRule, RuleFault> {
    let text = text.trim();
    let whole = if text.starts_with("mcp__") { text.to_owned() } else { format!("mcp__{text}") };
    ToolRule::parse(&whole)
}

fn facts(view: &View) -> Option<Facts> {
    let introduction = view.introduction.as_ref()?;
    let raw: Json = introduction.raw.decode().ok()?;
    Some(Facts {
        server: view.name.as_str().into(),
        prefix: naming::prefix(&view.name, naming::Origin::of(view.scope)),
        era: introduction.era,
        is_program: matches!(view.transport, TransportKind::Stdio | TransportKind::Sdk),
        capabilities: raw["capabilities"].as_object().cloned().unwrap_or_default(),
        instructions: introduction.instructions.clone(),
    })
}

fn items<'a>(views: &'a [&'a View], list: List) -> impl Iterator<Item = (&'a View, &'a Item)> {
    views.iter().flat_map(move |view| view.catalogue.items(list).iter().map(move |it| (*view, it)))
}

fn twice<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for name in names {
        if !seen.insert(name) {
            twice.insert(name);
        }
    }
    twice
}

/// A definition under another name. What else it says stays as it came.
fn renamed(raw: &Payload, own: &str, named: &str) -> Payload {
    if own == named {
        return raw.clone();
    }
    let Ok(mut map) = raw.decode::<Map<String, Json>>() else { return raw.clone() };
    map.insert("name".to_owned(), named.into());
    Payload::from_json(Json::Object(map).to_string().into())
}

/// What a template says before its first gap.
fn literal(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

//! What is served at one moment: every tool, resource, template and prompt under the name that clients see, whose it is,
//! and the lists as they are sent. Made anew when something changes; requests only look things up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use switchboard::catalogue::fetch::{ListItem, ListKind};
use switchboard::connection::dedicated::DedicatedConnection;
use switchboard::connection::{ServerView, Status};
use switchboard::host::Snapshot;
use switchboard::pool::Pool;
use switchboard::pool::naming;
use switchboard::pool::tool::{Tool, ToolKind};
use switchboard_config::entry::server::TransportKind;
use switchboard_config::permission::{RuleError, ToolRule};
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::protocol::era::Era;

use crate::downstream::client::{Client, ClientCapabilities};
use crate::exposed::pages::{ListEntries, ListPages};
use crate::exposed::search;

/// How things are called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameStyle {
    /// Every tool and prompt has its server's name before its own.
    #[default]
    Prefixed,
    /// As servers call them. Where two servers use one name, the first server by name has it.
    Plain,
    /// As servers call them, with the server's name before what two servers call the same.
    PrefixedOnCollision,
}

/// How tools are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolExposure {
    /// All of them.
    #[default]
    All,
    /// One tool that searches, and one that calls what was found.
    Search,
}

/// What is served, and how.
#[derive(Debug, Clone, Default)]
pub struct ExposeOptions {
    /// How things are called.
    pub names: NameStyle,
    /// The rules that say what is served; all of it where there are none.
    pub rules: Vec<ToolRule>,
    /// How tools are shown.
    pub tools: ToolExposure,
    /// Who shares a connection to a server.
    pub sharing: ConnectionSharing,
}

/// Who shares a connection to a server that remembers whom it talks to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ConnectionSharing {
    /// Everybody.
    #[default]
    Shared,
    /// All clients of one principal.
    PerPrincipal,
    /// Nobody: every session has its own, and answers for itself which folders it works in.
    PerSession,
}

/// Where something is, and what it is called there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerItem {
    pub(crate) server: Arc<str>,
    pub(crate) name: String,
}

/// What a server can do that is passed through.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExposedServer {
    pub(crate) server: Arc<str>,
    /// What rules call it.
    pub(crate) prefix: String,
    pub(crate) era: Era,
    pub(crate) is_local_process: bool,
    pub(crate) capabilities: Map<String, Json>,
    pub(crate) instructions: Option<String>,
}

impl ExposedServer {
    pub(crate) fn has_capability(&self, capability: &str) -> bool {
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
pub(crate) struct ExposedCatalogue {
    pub(crate) tools: HashMap<String, Arc<Tool>>,
    /// Tools that were served, by name, of servers that are not connected now. They are not shown, but whoever calls
    /// one has its server connected, or is told why it is not.
    pub(crate) disconnected_tools: HashMap<String, Arc<Tool>>,
    pub(crate) prompts: HashMap<String, ServerItem>,
    pub(crate) resources: HashMap<String, Arc<str>>,
    pub(crate) templates: Vec<ServerItem>,
    pub(crate) servers: Vec<ExposedServer>,
    pub(crate) lists: BTreeMap<ListKind, ListPages>,
    pub(crate) pool: Arc<Pool>,
    /// Of the snapshot that it was made of.
    pub(crate) revision: u64,
    tool_exposure: ToolExposure,
    sharing: ConnectionSharing,
    legacy_capabilities: Map<String, Json>,
    modern_capabilities: Map<String, Json>,
}

impl ExposedCatalogue {
    /// What is served now. Lists that are as they were are taken over.
    pub(crate) fn next(
        &self,
        snapshot: &Snapshot,
        pool: &Arc<Pool>,
        options: &ExposeOptions,
    ) -> ExposedCatalogue {
        let views: Vec<&Arc<ServerView>> = snapshot.servers.values().collect();
        let is_exposed = |view: &ServerView| options.exposes_server(&view.name);
        let mut catalogue = ExposedCatalogue {
            servers: views
                .iter()
                .filter(|it| is_exposed(it))
                .filter_map(|it| exposed_server(it))
                .collect(),
            pool: pool.clone(),
            revision: snapshot.revision,
            tool_exposure: options.tools,
            sharing: options.sharing,
            ..ExposedCatalogue::default()
        };
        let tools = catalogue.add_tools(pool, options);
        catalogue.set_list(self, ListKind::Tools, tools);
        catalogue.keep_disconnected_tools(self, snapshot);
        let views: Vec<&ServerView> =
            views.iter().map(|it| &***it).filter(|it| is_exposed(it)).collect();
        let prompts = catalogue.add_prompts(&views, options.names);
        catalogue.set_list(self, ListKind::Prompts, prompts);
        let resources = catalogue.add_resources(&views);
        catalogue.set_list(self, ListKind::Resources, resources);
        let templates = catalogue.add_templates(&views);
        catalogue.set_list(self, ListKind::ResourceTemplates, templates);
        catalogue.legacy_capabilities = catalogue.aggregate_capabilities(Era::Legacy);
        catalogue.modern_capabilities = catalogue.aggregate_capabilities(Era::Modern);
        catalogue
    }

    /// What we say that we can do.
    pub(crate) fn capabilities(&self, era: Era) -> &Map<String, Json> {
        match era {
            Era::Legacy => &self.legacy_capabilities,
            Era::Modern => &self.modern_capabilities,
        }
    }

    /// Is this one of the tools that stand for all the others?
    pub(crate) fn is_search_tool(&self, tool: &str) -> bool {
        self.tool_exposure == ToolExposure::Search
            && [search::SEARCH_TOOL, search::CALL_TOOL].contains(&tool)
    }

    fn set_list(&mut self, previous: &ExposedCatalogue, list: ListKind, entries: ListEntries) {
        let pages = match previous.lists.get(&list) {
            Some(pages) if pages.has_entries(&entries) => pages.clone(),
            previous => ListPages::new(list, entries, previous.map_or(0, ListPages::revision) + 1),
        };
        self.lists.insert(list, pages);
    }

    fn add_tools(&mut self, pool: &Pool, options: &ExposeOptions) -> ListEntries {
        let all: Vec<&Arc<Tool>> = pool
            .tools()
            .iter()
            .chain(pool.quarantined_tools())
            .filter(|it| it.kind != ToolKind::BuiltIn && options.exposes(it))
            .collect();
        let duplicates = duplicates(all.iter().map(|it| it.name.as_str()));
        let mut entries = BTreeMap::new();
        for tool in all {
            let named = match (options.names, tool.kind) {
                (NameStyle::Prefixed, _) | (_, ToolKind::LoginPlaceholder) => &tool.exposed_name,
                (NameStyle::Plain, _) => &tool.name,
                (NameStyle::PrefixedOnCollision, _) if duplicates.contains(tool.name.as_str()) => {
                    &tool.exposed_name
                }
                (NameStyle::PrefixedOnCollision, _) => &tool.name,
            };
            if self.tools.contains_key(named) {
                continue;
            }
            self.tools.insert(named.clone(), tool.clone());
            entries.insert(named.clone(), with_name(&tool.raw, &tool.name, named));
        }
        match options.tools {
            ToolExposure::All => entries.into_values().collect(),
            ToolExposure::Search => search::definitions(),
        }
    }

    /// A tool is missed until its server is connected and has shown its tools, or is not wanted any more.
    fn keep_disconnected_tools(&mut self, previous: &ExposedCatalogue, snapshot: &Snapshot) {
        let served = previous.tools.iter().filter(|(_, tool)| tool.kind == ToolKind::Server);
        let shows_tools: BTreeSet<&str> = self
            .tools
            .values()
            .filter(|tool| tool.kind == ToolKind::Server)
            .map(|tool| tool.server.as_str())
            .collect();
        let is_absent = |server: &str| match snapshot.servers.get(server).map(|it| &it.status) {
            Some(Status::Pending { .. } | Status::Failed(_) | Status::NeedsAuth(_)) => true,
            Some(Status::Connected) => !shows_tools.contains(server),
            Some(Status::Disabled) | None => false,
        };
        self.disconnected_tools = served
            .chain(&previous.disconnected_tools)
            .filter(|(name, tool)| !self.tools.contains_key(*name) && is_absent(&tool.server))
            .map(|(name, tool)| (name.clone(), tool.clone()))
            .collect();
    }

    fn add_prompts(&mut self, views: &[&ServerView], names: NameStyle) -> ListEntries {
        let all: Vec<(&ServerView, &ListItem)> = items(views, ListKind::Prompts).collect();
        let duplicates = duplicates(all.iter().map(|it| it.1.name.as_str()));
        let mut entries = BTreeMap::new();
        for (view, item) in all {
            let origin = naming::NameOrigin::of(view.scope);
            let prefixed = || format!("mcp__{}__{}", naming::prefix(&view.name, origin), item.name);
            let named = match names {
                NameStyle::Prefixed => prefixed(),
                NameStyle::PrefixedOnCollision if duplicates.contains(item.name.as_str()) => {
                    prefixed()
                }
                NameStyle::Plain | NameStyle::PrefixedOnCollision => item.name.clone(),
            };
            if self.prompts.contains_key(&named) {
                continue;
            }
            let whose = ServerItem { server: view.name.as_str().into(), name: item.name.clone() };
            entries.insert(named.clone(), with_name(&item.raw, &item.name, &named));
            self.prompts.insert(named, whose);
        }
        entries.into_values().collect()
    }

    /// An address is an address: of two servers that have one, the first by name is asked.
    fn add_resources(&mut self, views: &[&ServerView]) -> ListEntries {
        let mut entries = ListEntries::new();
        for (view, item) in items(views, ListKind::Resources) {
            if !self.resources.contains_key(&item.name) {
                self.resources.insert(item.name.clone(), view.name.as_str().into());
                entries.push(item.raw.clone());
            }
        }
        entries
    }

    fn add_templates(&mut self, views: &[&ServerView]) -> ListEntries {
        let mut entries = ListEntries::new();
        for (view, item) in items(views, ListKind::ResourceTemplates) {
            if !self.templates.iter().any(|it| it.name == item.name) {
                let whose =
                    ServerItem { server: view.name.as_str().into(), name: item.name.clone() };
                self.templates.push(whose);
                entries.push(item.raw.clone());
            }
        }
        entries
    }

    /// The server that has a resource: one that lists it, or whose template it fits best, or the only one there is.
    pub(crate) fn server_for_uri(&self, uri: &str) -> Option<&Arc<str>> {
        if let Some(server) = self.resources.get(uri) {
            return Some(server);
        }
        let matches = |it: &&ServerItem| uri.starts_with(literal_prefix(&it.name));
        let longest =
            self.templates.iter().filter(matches).max_by_key(|it| literal_prefix(&it.name).len());
        longest.map(|it| &it.server).or_else(|| {
            let mut able = self.servers.iter().filter(|it| it.has_capability("resources"));
            let only = able.next()?;
            able.next().is_none().then_some(&only.server)
        })
    }

    /// The servers that may know a resource which nobody lists, best first.
    pub(crate) fn candidate_servers(&self, uri: &str) -> Vec<Arc<str>> {
        if let Some(server) = self.server_for_uri(uri) {
            return vec![server.clone()];
        }
        let able = self.servers.iter().filter(|it| it.has_capability("resources"));
        able.map(|it| it.server.clone()).collect()
    }

    /// The server that an entry of a list, other than the list of tools, belongs to.
    pub(crate) fn owner_of_entry(&self, list: ListKind, entry: &Json) -> Option<&Arc<str>> {
        let named = |member: &str| entry[member].as_str();
        match list {
            ListKind::Tools => None,
            ListKind::Prompts => self.prompts.get(named("name")?).map(|it| &it.server),
            ListKind::Resources => self.resources.get(named("uri")?),
            ListKind::ResourceTemplates => {
                let template = named("uriTemplate")?;
                self.templates.iter().find(|it| it.name == template).map(|it| &it.server)
            }
        }
    }

    /// The servers with a capability or an extension of this name.
    pub(crate) fn servers_with<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = &'a ExposedServer> + 'a {
        self.servers
            .iter()
            .filter(move |it| it.has_capability(name) || it.extensions().any(|it| it == name))
    }

    /// The connection that a client uses for a server. A modern server is told with every request whom it is for, and
    /// remembers nothing, unless it is a program.
    pub(crate) fn dedicated_connection(
        &self,
        client: &Client,
        server: &str,
    ) -> Option<DedicatedConnection> {
        let facts = self.servers.iter().find(|it| *it.server == *server)?;
        if facts.era == Era::Modern && !facts.is_local_process {
            return None;
        }
        let whose = match self.sharing {
            ConnectionSharing::Shared => String::new(),
            ConnectionSharing::PerPrincipal => client.principal.to_string(),
            ConnectionSharing::PerSession => {
                format!("{}/{}", client.principal, client.dedicated_connection_id())
            }
        };
        // A connection more costs a remote server little, a process more costs much: where all share one, everything
        // is offered, and what a client cannot do is refused when it is asked.
        let is_one_process = facts.is_local_process && self.sharing == ConnectionSharing::Shared;
        let can = if is_one_process { ClientCapabilities::ALL } else { client.capabilities() };
        if whose.is_empty() && can.has_all() {
            return None;
        }
        let owner = match self.sharing {
            ConnectionSharing::PerSession => client.session_handler(),
            ConnectionSharing::Shared | ConnectionSharing::PerPrincipal => None,
        };
        Some(DedicatedConnection {
            key: format!("{whose}|{can}").into(),
            client_capabilities: can.advertised(),
            default_handler: owner,
        })
    }

    /// What the connections of a client are called that nobody shares with it, where it has such.
    pub(crate) fn own_connection_key(&self, client: &Client) -> Option<String> {
        match self.sharing {
            ConnectionSharing::Shared | ConnectionSharing::PerPrincipal => None,
            ConnectionSharing::PerSession => Some(format!(
                "{}/{}|{}",
                client.principal,
                client.dedicated_connection_id(),
                client.capabilities()
            )),
        }
    }

    /// The one server that an extension's method is for: an extension `a/b` owns the methods `b/…` and `a/b/…`.
    pub(crate) fn server_for_method(&self, method: &str) -> Option<&ExposedServer> {
        let owns = |extension: &str| {
            let short = extension.rsplit('/').next().unwrap_or(extension);
            [extension, short]
                .iter()
                .any(|it| method.strip_prefix(it).is_some_and(|rest| rest.starts_with('/')))
        };
        self.servers.iter().find(|it| it.extensions().any(owns))
    }

    /// What there is to pass through, and nothing else.
    fn aggregate_capabilities(&self, era: Era) -> Map<String, Json> {
        let mut declared = Map::new();
        let any = |name: &str| self.servers.iter().any(|it| it.has_capability(name));
        let has_tools = !self.tools.is_empty() || !self.disconnected_tools.is_empty();
        if any("tools") || has_tools || self.tool_exposure == ToolExposure::Search {
            declared.insert("tools".to_owned(), json!({"listChanged": true}));
        }
        if any("resources") {
            let can_subscribe_to = |it: &ExposedServer| {
                let resources = it.capabilities.get("resources");
                resources.is_some_and(|it| it["subscribe"] == true)
            };
            let can_subscribe = self.servers.iter().any(can_subscribe_to);
            let mut settings = json!({"listChanged": true});
            if can_subscribe {
                settings["subscribe"] = true.into();
            }
            declared.insert("resources".to_owned(), settings);
        }
        if any("prompts") {
            declared.insert("prompts".to_owned(), json!({"listChanged": true}));
        }
        for name in ["completions", "logging"] {
            if any(name) {
                declared.insert(name.to_owned(), json!({}));
            }
        }
        for name in ["extensions", "experimental"] {
            let mut all = Map::new();
            for facts in &self.servers {
                let declared_here = facts.capabilities.get(name).and_then(Json::as_object);
                for (name, settings) in declared_here.into_iter().flatten() {
                    all.entry(name.clone()).or_insert_with(|| settings.clone());
                }
            }
            if !all.is_empty() {
                declared.insert(name.to_owned(), Json::Object(all));
            }
        }
        // Tasks of the legacy era are a capability; those of the modern one an extension.
        if era == Era::Legacy
            && let Some(tasks) = self.servers.iter().find_map(|it| it.capabilities.get("tasks"))
        {
            declared.insert("tasks".to_owned(), tasks.clone());
        }
        declared
    }

    /// How to use it all: what the servers say that are shown, each under its name.
    pub(crate) fn instructions(&self, is_shown: impl Fn(&str) -> bool) -> Option<String> {
        let shown: Vec<&ExposedServer> =
            self.servers.iter().filter(|it| is_shown(&it.server)).collect();
        let declared =
            |it: &&ExposedServer| Some(format!("# {}\n{}", it.server, it.instructions.as_ref()?));
        let all: Vec<String> = shown.iter().filter_map(declared).collect();
        match shown.as_slice() {
            [only] => only.instructions.clone(),
            _ => (!all.is_empty()).then(|| all.join("\n\n")),
        }
    }
}

impl ExposeOptions {
    fn exposes(&self, tool: &Tool) -> bool {
        let name = naming::sanitise_borrowed(&tool.name);
        let matches = |rule: &ToolRule| rule.names_tool(&tool.prefix, &name);
        self.rules.is_empty() || self.rules.iter().any(matches)
    }

    /// Is something of this server served? What is not a tool is served where any of its tools is.
    fn exposes_server(&self, server: &str) -> bool {
        let named = naming::sanitise(server);
        self.rules.is_empty() || self.rules.iter().any(|rule| rule.names_server(&named))
    }
}

/// A rule that only says what is served.
pub fn parse_expose_rule(text: &str) -> Result<ToolRule, RuleError> {
    let text = text.trim();
    let rule_text =
        if text.starts_with("mcp__") { text.to_owned() } else { format!("mcp__{text}") };
    ToolRule::parse(&rule_text)
}

fn exposed_server(view: &ServerView) -> Option<ExposedServer> {
    let introduction = view.server_info.as_ref()?;
    let raw: Json = introduction.raw.decode().ok()?;
    Some(ExposedServer {
        server: view.name.as_str().into(),
        prefix: naming::prefix(&view.name, naming::NameOrigin::of(view.scope)),
        era: introduction.era,
        is_local_process: matches!(view.transport, TransportKind::Stdio | TransportKind::Sdk),
        capabilities: raw["capabilities"].as_object().cloned().unwrap_or_default(),
        instructions: introduction.instructions.clone(),
    })
}

fn items<'a>(
    views: &'a [&'a ServerView],
    list: ListKind,
) -> impl Iterator<Item = (&'a ServerView, &'a ListItem)> {
    views.iter().flat_map(move |view| view.catalogue.items(list).iter().map(move |it| (*view, it)))
}

fn duplicates<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let (mut seen, mut duplicates) = (BTreeSet::new(), BTreeSet::new());
    for name in names {
        if !seen.insert(name) {
            duplicates.insert(name);
        }
    }
    duplicates
}

/// A definition under another name. What else it says stays as it came.
fn with_name(raw: &Payload, own: &str, named: &str) -> Payload {
    if own == named {
        return raw.clone();
    }
    let Ok(mut map) = raw.decode::<Map<String, Json>>() else { return raw.clone() };
    map.insert("name".to_owned(), named.into());
    Payload::from_json(Json::Object(map).to_string().into())
}

/// What a template says before its first gap.
fn literal_prefix(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

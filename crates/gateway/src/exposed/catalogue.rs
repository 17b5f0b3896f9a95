//! The exposed catalogue at one moment: every tool, resource, template and prompt under its exposed name, the server
//! that owns it, and the lists as bytes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use switchboard::Snapshot;
use switchboard::catalogue::{ListItem, ListKind};
use switchboard::connection::{DedicatedConnection, ServerView, Status};
use switchboard::pool::{Pool, Tool, ToolKind, naming};
use switchboard_wire::jsonrpc::message::Payload;
use switchboard_wire::protocol::era::Era;

use crate::downstream::client::Client;
use crate::downstream::leases::ConnectionLease;
use crate::exposed::capabilities;
use crate::exposed::capabilities::MoreServers;
use crate::exposed::options::{ExposeOptions, NameStyle, ToolExposure};
use crate::exposed::pages::{ListEntries, ListPages};
use crate::exposed::search;
use crate::exposed::server::{ExposedServer, ServerItem};
use crate::exposed::sharing::SharingPolicy;
use crate::exposed::titles::SharedTitles;
use crate::json::payload;

/// What is known of the lists of a server that is connecting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownLists {
    /// Its lists of an earlier connection are part of the catalogue.
    Remembered,
    /// Nothing.
    Nothing,
}

/// The exposed catalogue.
#[derive(Debug, Default)]
pub(crate) struct ExposedCatalogue {
    pub(crate) tools: HashMap<String, Arc<Tool>>,
    /// Tools of servers that are not connected now, by exposed name. They are not listed. A call of one connects its
    /// server, or fails with the reason why the server is not connected.
    pub(crate) disconnected_tools: HashMap<String, Arc<Tool>>,
    /// The servers that connect for the first time, and what is known of their lists.
    pub(crate) connecting: BTreeMap<String, KnownLists>,
    /// Whether something was known of the lists of every server at one moment. It stays so when servers are added.
    pub(crate) first_lists_known: bool,
    pub(crate) prompts: HashMap<String, ServerItem>,
    pub(crate) resources: HashMap<String, Arc<str>>,
    pub(crate) templates: Vec<ServerItem>,
    pub(crate) servers: Vec<ExposedServer>,
    /// The name in permission rules of every server, connected or not.
    pub(crate) prefixes: HashMap<String, String>,
    /// The servers whose instructions clients get: the connected ones, and those that are remembered.
    pub(crate) instructing_servers: Vec<ExposedServer>,
    pub(crate) lists: BTreeMap<ListKind, ListPages>,
    pub(crate) pool: Arc<Pool>,
    /// The revision of the snapshot that it was built from.
    pub(crate) revision: u64,
    tool_exposure: ToolExposure,
    sharing: SharingPolicy,
    legacy_capabilities: Map<String, Json>,
    modern_capabilities: Map<String, Json>,
}

impl ExposedCatalogue {
    /// The catalogue before the first snapshot: nothing is known of any server.
    pub(crate) fn before_first_snapshot() -> ExposedCatalogue {
        let capabilities = |era| capabilities::aggregate(&[], MoreServers::Connecting, era);
        ExposedCatalogue {
            legacy_capabilities: capabilities(Era::Legacy),
            modern_capabilities: capabilities(Era::Modern),
            ..ExposedCatalogue::default()
        }
    }

    /// Builds the next catalogue. Lists that did not change are reused.
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
                .filter_map(|it| ExposedServer::from_view(it))
                .collect(),
            connecting: views
                .iter()
                .filter(|it| is_exposed(it))
                .filter_map(|it| Some((it.name.clone(), known_lists(it)?)))
                .collect(),
            prefixes: views
                .iter()
                .map(|it| {
                    let origin = naming::NameOrigin::of(it.scope);
                    (it.name.clone(), naming::prefix(&it.name, origin))
                })
                .collect(),
            pool: pool.clone(),
            revision: snapshot.revision,
            tool_exposure: options.tools,
            sharing: SharingPolicy {
                sharing: options.sharing,
                interactive: options.interactive_sessions,
            },
            ..ExposedCatalogue::default()
        };
        catalogue.first_lists_known = self.first_lists_known
            || catalogue.connecting.values().all(|it| *it == KnownLists::Remembered);
        let remembered = views.iter().filter(|it| is_exposed(it));
        let remembered = remembered.filter_map(|it| ExposedServer::from_remembered(it));
        catalogue.instructing_servers =
            catalogue.servers.iter().cloned().chain(remembered).collect();
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

    /// The capabilities that the gateway declares.
    pub(crate) fn capabilities(&self, era: Era) -> &Map<String, Json> {
        match era {
            Era::Legacy => &self.legacy_capabilities,
            Era::Modern => &self.modern_capabilities,
        }
    }

    /// The tool of this name whose server is not connected, so that it must be connected before the call.
    pub(crate) fn unconnected_tool(&self, name: &str) -> Option<&Arc<Tool>> {
        match self.tools.get(name) {
            Some(tool) => Some(tool).filter(|it| {
                it.kind == ToolKind::Server && self.connecting.contains_key(&it.server)
            }),
            None => self.disconnected_tools.get(name),
        }
    }

    /// Whether the tool's server has listed its tools on this connection.
    pub(crate) fn is_listed(&self, name: &str, server: &str) -> bool {
        !self.connecting.contains_key(server)
            && (self.tools.contains_key(name) || !self.disconnected_tools.contains_key(name))
    }

    /// Is this `search_tools` or `call_tool`, and are these exposed?
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
        let titles = SharedTitles::new(all.iter().map(|it| (it.server.as_str(), &it.raw)));
        let mut entries = BTreeMap::new();
        for tool in all {
            let exposed_name = match (options.names, tool.kind) {
                (NameStyle::Prefixed, _) | (_, ToolKind::LoginPlaceholder) => &tool.exposed_name,
                (NameStyle::Plain, _) => &tool.name,
                (NameStyle::PrefixedOnCollision, _) if duplicates.contains(tool.name.as_str()) => {
                    &tool.exposed_name
                }
                (NameStyle::PrefixedOnCollision, _) => &tool.name,
            };
            if self.tools.contains_key(exposed_name) {
                continue;
            }
            self.tools.insert(exposed_name.clone(), tool.clone());
            let raw = titles.distinguish(&tool.server, &tool.raw);
            entries.insert(exposed_name.clone(), with_name(&raw, &tool.name, exposed_name));
        }
        match options.tools {
            ToolExposure::All => entries.into_values().collect(),
            ToolExposure::Search => search::definitions(),
        }
    }

    /// Keeps the tools of each server that is not connected, until it has listed its tools again or is removed.
    fn keep_disconnected_tools(&mut self, previous: &ExposedCatalogue, snapshot: &Snapshot) {
        let served = previous.tools.iter().filter(|(_, tool)| tool.kind == ToolKind::Server);
        let shows_tools: BTreeSet<&str> = self
            .tools
            .values()
            .filter(|tool| tool.kind == ToolKind::Server)
            .map(|tool| tool.server.as_str())
            .collect();
        let is_absent = |server: &str| match snapshot.servers.get(server).map(|it| &it.status) {
            Some(
                Status::Pending { .. }
                | Status::Failed(_)
                | Status::NeedsAuth(_)
                | Status::SessionRefused(_),
            ) => true,
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
        let titles = SharedTitles::new(all.iter().map(|it| (it.0.name.as_str(), &it.1.raw)));
        let mut entries = BTreeMap::new();
        for (view, item) in all {
            let origin = naming::NameOrigin::of(view.scope);
            let prefixed = || format!("mcp__{}__{}", naming::prefix(&view.name, origin), item.name);
            let exposed_name = match names {
                NameStyle::Prefixed => prefixed(),
                NameStyle::PrefixedOnCollision if duplicates.contains(item.name.as_str()) => {
                    prefixed()
                }
                NameStyle::Plain | NameStyle::PrefixedOnCollision => item.name.clone(),
            };
            if self.prompts.contains_key(&exposed_name) {
                continue;
            }
            let prompt = ServerItem { server: view.name.as_str().into(), name: item.name.clone() };
            let raw = titles.distinguish(&view.name, &item.raw);
            entries.insert(exposed_name.clone(), with_name(&raw, &item.name, &exposed_name));
            self.prompts.insert(exposed_name, prompt);
        }
        entries.into_values().collect()
    }

    /// If two servers list the same URI, the first server by name owns it.
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
                let template =
                    ServerItem { server: view.name.as_str().into(), name: item.name.clone() };
                self.templates.push(template);
                entries.push(item.raw.clone());
            }
        }
        entries
    }

    /// The server that owns a resource: one that lists it, the one with the best matching template, or the only server
    /// with resources.
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

    /// The servers to try for a resource that no server lists.
    pub(crate) fn candidate_servers(&self, uri: &str) -> Vec<Arc<str>> {
        if let Some(server) = self.server_for_uri(uri) {
            return vec![server.clone()];
        }
        let able = self.servers.iter().filter(|it| it.has_capability("resources"));
        able.map(|it| it.server.clone()).collect()
    }

    /// The server that owns an entry of a list. None for tools, whose owner is in `tools`.
    pub(crate) fn owner_of_entry(&self, list: ListKind, entry: &Json) -> Option<&Arc<str>> {
        let member = |name: &str| entry[name].as_str();
        match list {
            ListKind::Tools => None,
            ListKind::Prompts => self.prompts.get(member("name")?).map(|it| &it.server),
            ListKind::Resources => self.resources.get(member("uri")?),
            ListKind::ResourceTemplates => {
                let template = member("uriTemplate")?;
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

    /// The dedicated connection that a client uses for a server; None for the shared one.
    pub(crate) fn dedicated_connection(
        &self,
        client: &Client,
        server: &str,
        lease: Option<&ConnectionLease>,
    ) -> Option<DedicatedConnection> {
        let server = self.servers.iter().find(|it| *it.server == *server)?;
        self.sharing.dedicated_connection(client, server, lease)
    }

    /// Does a request of the client to this server need a connection for itself?
    pub(crate) fn needs_lease(&self, client: &Client, server: &str) -> bool {
        let server = self.servers.iter().find(|it| *it.server == *server);
        server.is_some_and(|it| self.sharing.needs_lease(client, it))
    }

    /// The key of the connections that a client shares with no other, where it has such connections.
    pub(crate) fn own_connection_key(&self, client: &Client) -> Option<String> {
        self.sharing.own_connection_key(client, &self.servers)
    }

    /// The server of an extension's method: an extension `a/b` owns the methods `b/…` and `a/b/…`.
    pub(crate) fn server_for_method(&self, method: &str) -> Option<&ExposedServer> {
        let owns = |extension: &str| {
            let short = extension.rsplit('/').next().unwrap_or(extension);
            [extension, short]
                .iter()
                .any(|it| method.strip_prefix(it).is_some_and(|rest| rest.starts_with('/')))
        };
        self.servers.iter().find(|it| it.extensions().any(owns))
    }

    fn aggregate_capabilities(&self, era: Era) -> Map<String, Json> {
        let expected = match self.connecting.is_empty() {
            true => MoreServers::None,
            false => MoreServers::Connecting,
        };
        capabilities::aggregate(&self.servers, expected, era)
    }
}

/// What is known of the lists of a server, if it is connecting.
fn known_lists(view: &ServerView) -> Option<KnownLists> {
    match (&view.status, &view.remembered) {
        (Status::Pending { .. }, Some(_)) => Some(KnownLists::Remembered),
        (Status::Pending { .. }, None) => Some(KnownLists::Nothing),
        (
            Status::Connected
            | Status::Failed(_)
            | Status::NeedsAuth(_)
            | Status::SessionRefused(_)
            | Status::Disabled,
            Some(_) | None,
        ) => None,
    }
}

fn items<'a>(
    views: &'a [&'a ServerView],
    list: ListKind,
) -> impl Iterator<Item = (&'a ServerView, &'a ListItem)> {
    views.iter().flat_map(move |view| view.listed().items(list).iter().map(move |it| (*view, it)))
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

/// A definition under its exposed name. All other members stay as the server sent them.
fn with_name(raw: &Payload, own_name: &str, exposed_name: &str) -> Payload {
    if own_name == exposed_name {
        return raw.clone();
    }
    let Ok(mut map) = raw.decode::<Map<String, Json>>() else { return raw.clone() };
    map.insert("name".to_owned(), exposed_name.into());
    payload(&Json::Object(map))
}

/// The part of a template before its first placeholder.
fn literal_prefix(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

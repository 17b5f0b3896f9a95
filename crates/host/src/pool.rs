//! The pool: all tools of all servers under their exposed names, as one snapshot for models and callers. A new pool
//! is built from the catalogues whenever one changes; building does no I/O.
//!
//! [`naming`] chooses the exposed names. A tool whose definition cannot be shown to a model is quarantined with a
//! reason; the server's other tools stay.

pub(crate) mod argument_check;
pub(crate) mod diff;
pub(crate) mod hidden_text;
pub mod naming;
pub(crate) mod schema;
pub(crate) mod search;
mod similar_names;
pub(crate) mod tool;
pub(crate) mod updater;

pub use argument_check::{ArgumentFault, ArgumentFaultKind};
pub use diff::{ChangedTool, PoolDiff, diff};
pub use hidden_text::HiddenText;
pub use schema::{MAX_BYTES, MAX_DEPTH, Pointer, QuarantineReason};
pub use search::ToolMatch;
pub use tool::{
    Annotations, DEFERRAL_THRESHOLD, LoadPolicy, MAX_DESCRIPTION_CHARS, Tool, ToolKind,
};
pub use updater::PoolWatch;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use switchboard_config::entry::server::ToolFilter;

use crate::catalogue::lists::ListItem;
use naming::{Candidate, ContestedNames, NameOrigin, PrefixUse};
use search::SearchIndex;
use similar_names::NameQuery;
use tool::{ParsedTool, ToolOwner};

/// A server and its tools. Known servers that are not connected are included, with no tools, because their names
/// count when exposed names are chosen.
#[derive(Debug, Clone, Copy)]
pub struct ServerTools<'a> {
    /// The server's name.
    pub server: &'a str,
    /// The kind of name.
    pub origin: NameOrigin,
    /// The tools as listed.
    pub tools: &'a [ListItem],
    /// Whether the tools are the server's own or a placeholder. The filter does not apply to placeholders.
    pub kind: ToolKind,
    /// The filter for the server's tools.
    pub filter: &'a ToolFilter,
}

/// Rules for all servers.
#[derive(Clone, Copy)]
pub struct PoolRules<'a> {
    /// Whether a permission rule hides a tool. Called with the server's prefix and the tool's own name.
    pub hidden: &'a dyn Fn(&str, &str) -> bool,
    /// The built-in tools. Their exposed names are reserved.
    pub built_in: &'a [Arc<Tool>],
}

impl fmt::Debug for PoolRules<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolRules").field("built_in", &self.built_in.len()).finish_non_exhaustive()
    }
}

/// What in a value does not match a JSON schema. A schema that cannot be compiled matches everything.
pub fn value_faults(
    schema: &serde_json::Value,
    value: &serde_json::Value,
) -> Vec<argument_check::ArgumentFault> {
    argument_check::ArgumentChecker::of(schema).faults(value)
}

/// A tool that is hidden from models.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuarantineEntry {
    /// The server's name.
    pub server: String,
    /// The tool's name on the server.
    pub tool: String,
    /// The reason.
    pub reason: QuarantineReason,
}

/// A quarantined tool, and its definition for other programs if it could be parsed.
type QuarantinedTool = (QuarantineEntry, Option<Arc<Tool>>);

/// All tools at one moment.
#[derive(Debug, Default)]
pub struct Pool {
    revision: u64,
    /// Sorted by exposed name.
    tools: Vec<Arc<Tool>>,
    quarantined: Vec<QuarantineEntry>,
    /// The quarantined tools that other programs may see, by exposed name.
    quarantined_tools: Vec<Arc<Tool>>,
    contested: ContestedNames,
    /// Built with the first search.
    index: OnceLock<SearchIndex>,
}

impl Pool {
    /// Builds the next pool. Unchanged tools are reused.
    pub fn next_revision<'a>(
        &self,
        sources: impl IntoIterator<Item = ServerTools<'a>>,
        rules: &PoolRules<'_>,
    ) -> Pool {
        let mut sources: Vec<ServerTools<'_>> = sources.into_iter().collect();
        // The same order that their tools will have in most cases.
        sources.sort_by_cached_key(|it| (naming::prefix(it.server, it.origin) + "__", it.server));
        let listed = listed_tools(&sources);
        let candidates: Vec<Candidate<'_>> = listed.iter().map(ListedTool::candidate).collect();
        let is_reserved = |name: &str| rules.built_in.iter().any(|it| it.exposed_name == name);
        let (names, contested) = naming::names(&candidates, &is_reserved, self.contested.clone());
        let is_visible = |it: &ListedTool<'_>| {
            let tool = &it.item.name;
            let is_placeholder = it.source.kind == ToolKind::LoginPlaceholder;
            (is_placeholder || passes_filter(it.source.filter, tool))
                && !(rules.hidden)(&it.prefix, tool)
        };
        let visible: Vec<(&ListedTool<'_>, &str)> = (listed.iter().zip(&names))
            .filter(|(it, _)| is_visible(it))
            .map(|(it, name)| (it, name.as_str()))
            .collect();
        let mut pool = Pool { revision: self.revision + 1, contested, ..Pool::default() };
        pool.tools.reserve(visible.len() + rules.built_in.len());
        for read in parallel_map(&visible, |(listed, exposed)| self.read_tool(listed, exposed)) {
            match read {
                Ok(tool) => pool.tools.push(tool),
                Err((quarantined, tool)) => {
                    pool.quarantined.push(quarantined);
                    pool.quarantined_tools.extend(tool);
                }
            }
        }
        pool.quarantined_tools.sort_by(|a, b| a.exposed_name.cmp(&b.exposed_name));
        pool.quarantined.sort_by(|a, b| (&a.server, &a.tool).cmp(&(&b.server, &b.tool)));
        pool.tools.extend(rules.built_in.iter().cloned());
        // They are nearly sorted, which is fast for a merge sort.
        pool.tools.sort_by(|a, b| a.exposed_name.cmp(&b.exposed_name));
        pool
    }

    /// The tool of this pool if it is unchanged, otherwise the parsed tool or the reason for its quarantine.
    fn read_tool(
        &self,
        listed: &ListedTool<'_>,
        exposed: &str,
    ) -> Result<Arc<Tool>, QuarantinedTool> {
        if let Some(tool) = self.reuse(listed, exposed) {
            return Ok(tool);
        }
        let (server, item) = (listed.source.server, listed.item);
        let owner = ToolOwner { server, prefix: &listed.prefix, kind: listed.source.kind };
        let (reason, tool) = match tool::parse(owner, &item.name, exposed, &item.raw) {
            Ok(ParsedTool::Usable(tool)) => return Ok(Arc::new(tool)),
            Ok(ParsedTool::Quarantined(tool, reason)) => (reason, Some(Arc::new(tool))),
            Err(reason) => (reason, None),
        };
        let quarantined =
            QuarantineEntry { server: server.to_owned(), tool: item.name.clone(), reason };
        Err((quarantined, tool))
    }

    /// The tool of this pool if its definition is byte-identical.
    fn reuse(&self, listed: &ListedTool<'_>, exposed: &str) -> Option<Arc<Tool>> {
        let tool = self.find(exposed)?;
        let is_same = tool.server == listed.source.server
            && *tool.prefix == *listed.prefix
            && tool.kind == listed.source.kind
            && tool.name == listed.item.name
            && tool.raw == listed.item.raw;
        is_same.then(|| tool.clone())
    }

    /// The revision, one higher than that of the previous pool.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// All tools, sorted by exposed name.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// The quarantined tools, sorted by server and tool.
    pub fn quarantined(&self) -> &[QuarantineEntry] {
        &self.quarantined
    }

    /// The quarantined tools that other programs may still see, sorted by exposed name. Their input schemas are
    /// unchanged.
    pub fn quarantined_tools(&self) -> &[Arc<Tool>] {
        &self.quarantined_tools
    }

    /// Whether a tool's definition is found by search instead of being sent to the model at once.
    pub fn is_deferred(&self, tool: &Tool) -> bool {
        tool.loading.is_deferred(self.tools.len())
    }

    /// The tool with this exposed name.
    pub fn find(&self, exposed: &str) -> Option<&Arc<Tool>> {
        let index =
            self.tools.binary_search_by(|tool| tool.exposed_name.as_str().cmp(exposed)).ok()?;
        Some(&self.tools[index])
    }

    /// The tool with this name on this server.
    pub fn find_by_server(&self, server: &str, tool: &str) -> Option<&Arc<Tool>> {
        self.tools.iter().find(|it| it.server == server && it.name == tool)
    }

    /// The tools that match a query, best first, at most `max`. Exact names come first.
    pub fn search(&self, query: &str, max: usize) -> Vec<ToolMatch> {
        let index = self.index.get_or_init(|| SearchIndex::of(&self.tools));
        let found = index.find(query, self.tools.len(), max);
        let tool = |position: u32| self.tools[position as usize].clone();
        found
            .into_iter()
            .map(|(position, score)| ToolMatch { tool: tool(position), score })
            .collect()
    }

    /// The tools whose names are most similar to an unknown name, most similar first, at most `max`.
    pub fn nearest(&self, name: &str, max: usize) -> Vec<&Arc<Tool>> {
        let visible = NameQuery::new(name);
        let mut nearest: Vec<(usize, &Arc<Tool>)> = Vec::with_capacity(max + 1);
        // The tools are sorted by name, so that ties keep that order.
        for tool in &self.tools {
            let limit = match nearest.last() {
                Some((worst, _)) if nearest.len() == max => *worst,
                Some(_) | None => usize::MAX,
            };
            if let Some(distance) = visible.distance(tool, limit) {
                let index = nearest.partition_point(|it| it.0 <= distance);
                nearest.insert(index, (distance, tool));
                nearest.truncate(max);
            }
        }
        nearest.into_iter().map(|(_, tool)| tool).collect()
    }
}

/// Maps items in order, on several threads where that is faster.
fn parallel_map<T: Copy + Sync, U: Send>(items: &[T], map: impl Fn(T) -> U + Sync) -> Vec<U> {
    /// Starting a thread takes as long as parsing a hundred tools.
    const ITEMS_PER_THREAD: usize = 1000;
    const MAX_THREADS: usize = 4;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let threads = cores.min(MAX_THREADS).min(items.len() / ITEMS_PER_THREAD);
    if threads <= 1 {
        return items.iter().map(|it| map(*it)).collect();
    }
    let chunk = items.len().div_ceil(threads);
    let work = |chunk: &[T]| chunk.iter().map(|it| map(*it)).collect::<Vec<U>>();
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> =
            items.chunks(chunk).map(|chunk| scope.spawn(move || work(chunk))).collect();
        let done = handles.into_iter().map(std::thread::ScopedJoinHandle::join);
        done.flat_map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// A listed tool, visible or not.
struct ListedTool<'a> {
    source: &'a ServerTools<'a>,
    item: &'a ListItem,
    prefix: Arc<str>,
    shared: PrefixUse,
    /// The index of the server among the sources.
    rank: usize,
}

impl<'a> ListedTool<'a> {
    fn candidate(&self) -> Candidate<'a> {
        let (server, tool) = (self.source.server, self.item.name.as_str());
        match self.source.origin {
            NameOrigin::Embedded => Candidate::embedded(server, tool),
            NameOrigin::Configured | NameOrigin::Connector => {
                Candidate::new(server, &self.prefix, tool, self.shared)
            }
        }
    }
}

/// All tools of all servers, sorted by server and name, without duplicates.
fn listed_tools<'a>(sources: &'a [ServerTools<'a>]) -> Vec<ListedTool<'a>> {
    let mut owners: HashMap<String, BTreeSet<&str>> = HashMap::new();
    for source in sources {
        let prefix = naming::prefix(source.server, source.origin);
        owners.entry(prefix).or_default().insert(source.server);
    }
    let mut items: Vec<ListedTool<'_>> = Vec::new();
    for source in sources {
        let prefix = naming::prefix(source.server, source.origin);
        let is_shared = owners.get(&prefix).is_some_and(|owners| owners.len() > 1);
        let shared = if is_shared { PrefixUse::Shared } else { PrefixUse::Unique };
        let prefix: Arc<str> = prefix.into();
        // The parts of a server that comes in two parts are adjacent.
        let rank = match items.last() {
            Some(last) if last.source.server == source.server => last.rank,
            Some(last) => last.rank + 1,
            None => 0,
        };
        let to_listed = |item| ListedTool { source, item, prefix: prefix.clone(), shared, rank };
        let first = items.len();
        items.extend(source.tools.iter().map(to_listed));
        items[first..].sort_by(|a, b| a.item.name.cmp(&b.item.name));
    }
    // This only moves the tools of a server that comes in two parts.
    items.sort_by(|a, b| key(a).cmp(&key(b)));
    items.dedup_by(|a, b| key(a) == key(b));
    items
}

fn key<'a>(listed: &ListedTool<'a>) -> (usize, &'a str) {
    (listed.rank, &listed.item.name)
}

fn passes_filter(filter: &ToolFilter, tool: &str) -> bool {
    let contains = |list: &[String]| list.iter().any(|it| it == tool);
    filter.allow.as_deref().is_none_or(contains) && !contains(&filter.deny)
}

#[cfg(test)]
mod tests;

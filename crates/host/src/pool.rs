//! All tools of all servers under their exposed names, as one snapshot: what a model is shown and may call.
//! Made anew from catalogues whenever one changes; nothing here waits, reads or writes.
//!
//! How names are chosen and why they stay is told in [`naming`]. A tool whose definition cannot be shown is kept
//! apart with the reason, and everything else of its server stays.

pub mod argument_check;
pub mod diff;
pub mod hidden_text;
pub mod naming;
pub mod schema;
pub mod search;
mod similar_names;
pub mod tool;
pub mod updater;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use switchboard_config::entry::server::ToolFilter;

use crate::catalogue::lists::ListItem;
use naming::{Candidate, Contested, NameOrigin, PrefixUse};
use schema::QuarantineReason;
use search::{SearchIndex, ToolMatch};
use similar_names::NameQuery;
use tool::{ParsedTool, Tool, ToolKind, ToolOwner};

/// A server and its tools. A server that is known but not connected belongs here too, with no tools: its name counts
/// when names are chosen.
#[derive(Debug, Clone, Copy)]
pub struct ServerTools<'a> {
    /// Its name.
    pub server: &'a str,
    /// What kind of name that is.
    pub origin: NameOrigin,
    /// Its tools, as they were listed.
    pub tools: &'a [ListItem],
    /// Whose they are: the server's, or one of ours that stands for it. What stands for a server is always wanted.
    pub kind: ToolKind,
    /// Which of them are wanted.
    pub filter: &'a ToolFilter,
}

/// What holds for all servers.
#[derive(Clone, Copy)]
pub struct PoolRules<'a> {
    /// Does a rule take this tool out? Asked with the server's name as rules write it, and the tool's own.
    pub hidden: &'a dyn Fn(&str, &str) -> bool,
    /// Tools of our own. Their names are theirs, whatever servers call theirs.
    pub built_in: &'a [Arc<Tool>],
}

impl fmt::Debug for PoolRules<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("built_in", &self.built_in.len()).finish_non_exhaustive()
    }
}

/// A tool that is kept from the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Whose it is.
    pub server: String,
    /// What its server calls it.
    pub tool: String,
    /// Why.
    pub reason: QuarantineReason,
}

/// A tool that is kept from the model, and what programs can be shown of it.
type QuarantinedTool = (Quarantined, Option<Arc<Tool>>);

/// All tools at one moment.
#[derive(Debug, Default)]
pub struct Pool {
    revision: u64,
    /// By exposed name.
    tools: Vec<Arc<Tool>>,
    quarantined: Vec<Quarantined>,
    /// Those of the quarantined that programs can be shown, by exposed name.
    quarantined_tools: Vec<Arc<Tool>>,
    contested: Contested,
    /// Made when somebody searches for the first time.
    index: OnceLock<SearchIndex>,
}

impl Pool {
    /// The pool that comes after this one. What did not change is taken over as it is.
    pub fn next_revision<'a>(
        &self,
        sources: impl IntoIterator<Item = ServerTools<'a>>,
        rules: &PoolRules<'_>,
    ) -> Pool {
        let mut sources: Vec<ServerTools<'_>> = sources.into_iter().collect();
        // As their tools are going to be sorted, nearly always.
        sources.sort_by_cached_key(|it| (naming::prefix(it.server, it.origin) + "__", it.server));
        let listed = listed_tools(&sources);
        let candidates: Vec<Candidate<'_>> = listed.iter().map(ListedTool::candidate).collect();
        let is_reserved = |name: &str| rules.built_in.iter().any(|it| it.exposed_name == name);
        let (names, contested) = naming::names(&candidates, &is_reserved, self.contested.clone());
        let is_seen = |it: &ListedTool<'_>| {
            let tool = &it.item.name;
            let is_ours = it.source.kind != ToolKind::Server;
            (is_ours || passes_filter(it.source.filter, tool)) && !(rules.hidden)(&it.prefix, tool)
        };
        let wanted: Vec<(&ListedTool<'_>, &str)> = (listed.iter().zip(&names))
            .filter(|(it, _)| is_seen(it))
            .map(|(it, name)| (it, name.as_str()))
            .collect();
        let mut pool = Pool { revision: self.revision + 1, contested, ..Pool::default() };
        pool.tools.reserve(wanted.len() + rules.built_in.len());
        for read in parallel_map(&wanted, |(listed, exposed)| self.read_tool(listed, exposed)) {
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
        // They are nearly in order, which this kind of sorting makes use of.
        pool.tools.sort_by(|a, b| a.exposed_name.cmp(&b.exposed_name));
        pool
    }

    /// The tool as this pool has it or as it is read now, or why it is kept apart.
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
            Quarantined { server: server.to_owned(), tool: item.name.clone(), reason };
        Err((quarantined, tool))
    }

    /// The tool as this pool has it, where it is the same to the byte.
    fn reuse(&self, listed: &ListedTool<'_>, exposed: &str) -> Option<Arc<Tool>> {
        let tool = self.find(exposed)?;
        let is_same = tool.server == listed.source.server
            && *tool.prefix == *listed.prefix
            && tool.kind == listed.source.kind
            && tool.name == listed.item.name
            && tool.raw == listed.item.raw;
        is_same.then(|| tool.clone())
    }

    /// One more with every pool that is made from the one before.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Every tool, sorted by exposed name.
    pub fn tools(&self) -> &[Arc<Tool>] {
        &self.tools
    }

    /// The tools that are kept from the model, by server and tool.
    pub fn quarantined(&self) -> &[Quarantined] {
        &self.quarantined
    }

    /// Tools that are kept from the model and that other programs may still be shown, sorted by exposed name. What
    /// they take is as their servers wrote it.
    pub fn quarantined_tools(&self) -> &[Arc<Tool>] {
        &self.quarantined_tools
    }

    /// Is the tool's definition found by search, instead of being sent to the model at once?
    pub fn is_deferred(&self, tool: &Tool) -> bool {
        tool.loading.is_deferred(self.tools.len())
    }

    /// The tool with this exposed name.
    pub fn find(&self, exposed: &str) -> Option<&Arc<Tool>> {
        let at =
            self.tools.binary_search_by(|tool| tool.exposed_name.as_str().cmp(exposed)).ok()?;
        Some(&self.tools[at])
    }

    /// The tool that its server calls so.
    pub fn find_by_server(&self, server: &str, tool: &str) -> Option<&Arc<Tool>> {
        self.tools.iter().find(|it| it.server == server && it.name == tool)
    }

    /// The tools that fit a query of words, best first, at most so many. An exact name comes before all else.
    pub fn search(&self, query: &str, max: usize) -> Vec<ToolMatch> {
        let index = self.index.get_or_init(|| SearchIndex::of(&self.tools));
        let found = index.find(query, self.tools.len(), max);
        let tool = |place: u32| self.tools[place as usize].clone();
        found.into_iter().map(|(place, score)| ToolMatch { tool: tool(place), score }).collect()
    }

    /// The tools whose names are closest to a name that nobody has, closest first, at most so many.
    pub fn nearest(&self, name: &str, max: usize) -> Vec<&Arc<Tool>> {
        let wanted = NameQuery::new(name);
        let mut close: Vec<(usize, &Arc<Tool>)> = Vec::with_capacity(max + 1);
        // They come by name: of two that are as close, the first one stays before the second.
        for tool in &self.tools {
            let limit = match close.last() {
                Some((worst, _)) if close.len() == max => *worst,
                Some(_) | None => usize::MAX,
            };
            if let Some(distance) = wanted.distance(tool, limit) {
                let at = close.partition_point(|it| it.0 <= distance);
                close.insert(at, (distance, tool));
                close.truncate(max);
            }
        }
        close.into_iter().map(|(_, tool)| tool).collect()
    }
}

/// Does the same to all of many, on several threads where that is quicker, and keeps their order.
fn parallel_map<T: Copy + Sync, U: Send>(all: &[T], act: impl Fn(T) -> U + Sync) -> Vec<U> {
    /// Starting a thread takes as long as a hundred tools do.
    const ITEMS_PER_THREAD: usize = 1000;
    const MAX_THREADS: usize = 4;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let threads = cores.min(MAX_THREADS).min(all.len() / ITEMS_PER_THREAD);
    if threads <= 1 {
        return all.iter().map(|it| act(*it)).collect();
    }
    let piece = all.len().div_ceil(threads);
    let work = |piece: &[T]| piece.iter().map(|it| act(*it)).collect::<Vec<U>>();
    std::thread::scope(|scope| {
        let work = &work;
        let begun: Vec<_> =
            all.chunks(piece).map(|piece| scope.spawn(move || work(piece))).collect();
        let done = begun.into_iter().map(std::thread::ScopedJoinHandle::join);
        done.flat_map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// A tool that was listed, whether it is shown or not.
struct ListedTool<'a> {
    source: &'a ServerTools<'a>,
    item: &'a ListItem,
    prefix: Arc<str>,
    shared: PrefixUse,
    /// The place of its server among the sources.
    rank: usize,
}

impl<'a> ListedTool<'a> {
    fn candidate(&self) -> Candidate<'a> {
        Candidate::new(self.source.server, &self.prefix, &self.item.name, self.shared)
    }
}

/// Every tool of every server, in the order of the servers and by name, each of them once.
fn listed_tools<'a>(sources: &'a [ServerTools<'a>]) -> Vec<ListedTool<'a>> {
    let mut owners: HashMap<String, BTreeSet<&str>> = HashMap::new();
    for source in sources {
        let prefix = naming::prefix(source.server, source.origin);
        owners.entry(prefix).or_default().insert(source.server);
    }
    let mut all: Vec<ListedTool<'_>> = Vec::new();
    for source in sources {
        let prefix = naming::prefix(source.server, source.origin);
        let is_shared = owners.get(&prefix).is_some_and(|owners| owners.len() > 1);
        let shared = if is_shared { PrefixUse::Shared } else { PrefixUse::Unique };
        let prefix: Arc<str> = prefix.into();
        // A server that comes in two parts has them side by side.
        let rank = match all.last() {
            Some(last) if last.source.server == source.server => last.rank,
            Some(last) => last.rank + 1,
            None => 0,
        };
        let one = |item| ListedTool { source, item, prefix: prefix.clone(), shared, rank };
        let first = all.len();
        all.extend(source.tools.iter().map(one));
        all[first..].sort_by(|a, b| a.item.name.cmp(&b.item.name));
    }
    // This only moves what one server sent in two parts.
    all.sort_by(|a, b| key(a).cmp(&key(b)));
    all.dedup_by(|a, b| key(a) == key(b));
    all
}

fn key<'a>(listed: &ListedTool<'a>) -> (usize, &'a str) {
    (listed.rank, &listed.item.name)
}

fn passes_filter(filter: &ToolFilter, tool: &str) -> bool {
    let names = |list: &[String]| list.iter().any(|it| it == tool);
    filter.allow.as_deref().is_none_or(names) && !names(&filter.deny)
}

#[cfg(test)]
mod tests;

//! Which tools a model is shown: those of the pool that are not deferred, those that it found or used, and one of our
//! own that finds. What was once shown stays shown while it is there, and new ones come last, so that what a provider
//! remembers of the list holds as long as it can.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard::pool::Pool;
use switchboard::pool::tool::Tool;

use crate::language_model::ToolOffer;
use crate::utterance::{Part, Utterance};

/// What the tool that finds others is called. Servers' tools have names with a prefix, so none of theirs is called so.
pub const SEARCH: &str = "search_tools";
/// How many tools a search finds, unless told otherwise, and at most.
const USUAL: usize = 8;
const MOST: usize = 20;
/// The most tools that a model is shown because it found or used them; the oldest are left out.
const MOST_LEARNT: usize = 64;

/// The tools that a model is shown.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    /// Names of deferred tools that were found or used, in that order.
    learnt: Vec<String>,
    /// What was last offered, of which revision of the pool, with how much learnt.
    last: Option<(u64, Arc<[ToolOffer]>)>,
}

impl Offers {
    /// Tools that were used in a conversation that is gone on with.
    pub(crate) fn recall(&mut self, said: &[Utterance]) {
        let name = |part: &Part| match part {
            Part::Call(call) => Some(call.tool.clone()),
            Part::Text { .. } | Part::Picture { .. } | Part::Thought { .. } | Part::Result(_) => {
                None
            }
        };
        self.learn(said.iter().flat_map(|it| it.parts.iter().filter_map(name)).collect());
    }

    /// These are shown from now on.
    pub(crate) fn learn(&mut self, names: Vec<String>) {
        for name in names {
            if name != SEARCH && !self.learnt.contains(&name) {
                self.learnt.push(name);
                self.last = None;
            }
        }
        let surplus = self.learnt.len().saturating_sub(MOST_LEARNT);
        self.learnt.drain(..surplus);
    }

    /// What the model is shown of this pool.
    pub(crate) fn now(&mut self, pool: &Pool) -> Arc<[ToolOffer]> {
        if let Some((revision, offers)) = &self.last
            && *revision == pool.revision()
        {
            return offers.clone();
        }
        let (deferred, at_once): (Vec<&Arc<Tool>>, Vec<&Arc<Tool>>) =
            pool.tools().iter().partition(|it| pool.is_deferred(it));
        let mut offers = Vec::with_capacity(at_once.len() + self.learnt.len() + 1);
        if !deferred.is_empty() {
            offers.push(searcher(deferred.len()));
        }
        offers.extend(at_once.iter().map(|it| offer(it)));
        let learnt = self.learnt.iter().filter_map(|name| pool.find(name));
        offers.extend(learnt.filter(|it| pool.is_deferred(it)).map(|it| offer(it)));
        let offers: Arc<[ToolOffer]> = offers.into();
        self.last = Some((pool.revision(), offers.clone()));
        offers
    }
}

fn offer(tool: &Tool) -> ToolOffer {
    let schema = tool.input_schema.decode().unwrap_or_else(|_| json!({"type": "object"}));
    ToolOffer { name: tool.exposed.clone(), description: tool.description.clone(), schema }
}

fn searcher(hidden: usize) -> ToolOffer {
    ToolOffer {
        name: SEARCH.to_owned(),
        description: format!(
            "Finds tools by words. {hidden} tools are not listed here; what this finds can be called from then on."
        ),
        schema: json!({"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string", "description": "words that say what is to be done, or a tool's name"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
        }}),
    }
}

/// Finds tools: what is said of them, and their names.
pub(crate) fn search(pool: &Pool, arguments: &Json) -> (String, Vec<String>) {
    let query = arguments["query"].as_str().unwrap_or_default();
    let limit = arguments["limit"].as_u64().and_then(|it| usize::try_from(it).ok());
    let found = pool.search(query, limit.unwrap_or(USUAL).clamp(1, MOST));
    if found.is_empty() {
        return ("no tool fits these words".to_owned(), Vec::new());
    }
    let line = |tool: &Tool| {
        let first = tool.description.lines().next().unwrap_or_default();
        format!("{}: {first}", tool.exposed)
    };
    let lines: Vec<String> = found.iter().map(|it| line(&it.tool)).collect();
    (lines.join("\n"), found.iter().map(|it| it.tool.exposed.clone()).collect())
}

//! Which tools a model is shown: those of the pool that are not deferred, those that it found or used, and one of our
//! own that finds. What was once shown stays shown while it is there, and new ones come last, so that what a provider
//! remembers of the list holds as long as it can.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard::pool::Pool;
use switchboard::pool::tool::Tool;

use crate::message::{ContentBlock, Message};
use crate::model::language_model::ToolDefinition;

/// What the tool that finds others is called. Servers' tools have names with a prefix, so none of theirs is called so.
pub const SEARCH_TOOL: &str = "search_tools";
/// How many tools a search finds, unless told otherwise, and at most.
const DEFAULT_RESULTS: usize = 8;
const MAX_RESULTS: usize = 20;
/// The most tools that a model is shown because it found or used them; the oldest are left out.
const MAX_DISCOVERED: usize = 64;

/// The tools that a model is shown.
#[derive(Debug, Default)]
pub(crate) struct OfferedTools {
    /// Names of deferred tools that were found or used, in that order.
    discovered: Vec<String>,
    /// What was last offered, of which revision of the pool, with how much learnt.
    cached: Option<(u64, Arc<[ToolDefinition]>)>,
}

impl OfferedTools {
    /// Tools that were used in a conversation that is gone on with.
    pub(crate) fn restore(&mut self, messages: &[Message]) {
        let name = |part: &ContentBlock| match part {
            ContentBlock::ToolUse(call) => Some(call.tool.clone()),
            ContentBlock::Text { .. }
            | ContentBlock::Image { .. }
            | ContentBlock::Thinking { .. }
            | ContentBlock::ToolResult(_) => None,
        };
        self.add_discovered(
            messages.iter().flat_map(|it| it.content.iter().filter_map(name)).collect(),
        );
    }

    /// These are shown from now on.
    pub(crate) fn add_discovered(&mut self, names: Vec<String>) {
        for name in names {
            if name != SEARCH_TOOL && !self.discovered.contains(&name) {
                self.discovered.push(name);
                self.cached = None;
            }
        }
        let surplus = self.discovered.len().saturating_sub(MAX_DISCOVERED);
        self.discovered.drain(..surplus);
    }

    /// What the model is shown of this pool.
    pub(crate) fn definitions(&mut self, pool: &Pool) -> Arc<[ToolDefinition]> {
        if let Some((revision, definitions)) = &self.cached
            && *revision == pool.revision()
        {
            return definitions.clone();
        }
        let (deferred, immediate): (Vec<&Arc<Tool>>, Vec<&Arc<Tool>>) =
            pool.tools().iter().partition(|it| pool.is_deferred(it));
        let mut definitions = Vec::with_capacity(immediate.len() + self.discovered.len() + 1);
        if !deferred.is_empty() {
            definitions.push(search_tool_definition(deferred.len()));
        }
        definitions.extend(immediate.iter().map(|it| definition(it)));
        let discovered = self.discovered.iter().filter_map(|name| pool.find(name));
        definitions.extend(discovered.filter(|it| pool.is_deferred(it)).map(|it| definition(it)));
        let definitions: Arc<[ToolDefinition]> = definitions.into();
        self.cached = Some((pool.revision(), definitions.clone()));
        definitions
    }
}

fn definition(tool: &Tool) -> ToolDefinition {
    let schema = tool.input_schema.decode().unwrap_or_else(|_| json!({"type": "object"}));
    ToolDefinition {
        name: tool.exposed_name.clone(),
        description: tool.description.clone(),
        input_schema: schema,
    }
}

fn search_tool_definition(hidden: usize) -> ToolDefinition {
    ToolDefinition {
        name: SEARCH_TOOL.to_owned(),
        description: format!(
            "Finds tools by words. {hidden} tools are not listed here; what this finds can be called from then on."
        ),
        input_schema: json!({"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string", "description": "words that say what is to be done, or a tool's name"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "default": DEFAULT_RESULTS},
        }}),
    }
}

/// Finds tools: what is said of them, and their names.
pub(crate) fn search_tools(pool: &Pool, arguments: &Json) -> (String, Vec<String>) {
    let query = arguments["query"].as_str().unwrap_or_default();
    let limit = arguments["limit"].as_u64().and_then(|it| usize::try_from(it).ok());
    let found = pool.search(query, limit.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS));
    if found.is_empty() {
        return ("no tool fits these words".to_owned(), Vec::new());
    }
    let line = |tool: &Tool| {
        let first = tool.description.lines().next().unwrap_or_default();
        format!("{}: {first}", tool.exposed_name)
    };
    let lines: Vec<String> = found.iter().map(|it| line(&it.tool)).collect();
    (lines.join("\n"), found.iter().map(|it| it.tool.exposed_name.clone()).collect())
}

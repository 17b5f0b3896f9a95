//! The tools that a model is offered: the pool's tools that are not deferred, deferred ones that it found or used, and
//! `search_tools`. An offered tool stays in the list, and new ones are appended, so that the provider's prompt cache
//! stays valid.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use switchboard::pool::{Pool, Tool};

use crate::message::{ContentBlock, Message};
use crate::model::language_model::ToolDefinition;

/// The name of the tool that finds others. Exposed names of servers' tools have a prefix, so none is equal to it.
pub const SEARCH_TOOL: &str = "search_tools";
/// The number of tools that a search finds by default; at most [`MAX_RESULTS`].
const DEFAULT_RESULTS: usize = 8;
const MAX_RESULTS: usize = 20;
/// The most deferred tools that are offered; the oldest are dropped.
const MAX_DISCOVERED: usize = 64;

/// The tools that a model is offered.
#[derive(Debug, Default)]
pub(crate) struct OfferedTools {
    /// The deferred tools that the model found or used, in that order.
    discovered: Vec<String>,
    /// The last definitions, and the pool revision they are of.
    cached: Option<(u64, Arc<[ToolDefinition]>)>,
}

impl OfferedTools {
    /// Adds the tools used in the conversation that is continued.
    pub(crate) fn restore(&mut self, messages: &[Message]) {
        let name = |block: &ContentBlock| match block {
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

    /// Adds tools to the offered ones.
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

    /// The definitions of the tools that are offered from this pool.
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
            "query": {"type": "string", "description": "keywords of the task, or the name of a tool"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "default": DEFAULT_RESULTS},
        }}),
    }
}

/// Searches the pool. Returns a text for the model, and the names found.
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

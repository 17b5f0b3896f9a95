//! The tools, resources and prompts of one server for display: tools with their annotations and what they cost in
//! tokens.

use serde_json::Value as Json;
use switchboard::catalogue::ListKind;
use switchboard::connection::ServerView;
use switchboard::pool::Pool;

/// The approximate number of characters per token.
const CHARS_PER_TOKEN: usize = 4;

/// The catalogue of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerCatalogue {
    /// Its tools.
    pub tools: Vec<ToolEntry>,
    /// Its resources and resource templates.
    pub resources: Vec<CatalogueEntry>,
    /// Its prompts.
    pub prompts: Vec<CatalogueEntry>,
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolEntry {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: Option<String>,
    /// Its description.
    pub description: String,
    /// Its annotations, in a few words.
    pub annotations: Vec<&'static str>,
    /// The approximate number of tokens of its definition.
    pub tokens: usize,
    /// Whether models see it.
    pub exposure: ToolExposure,
}

/// Whether models see a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolExposure {
    /// Yes, under this name.
    ExposedAs(String),
    /// No, for this reason.
    Hidden(String),
}

/// A resource or a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// Its URI or name.
    pub name: String,
    /// Its title.
    pub title: Option<String>,
    /// Its description.
    pub description: String,
    /// Its MIME type or arguments.
    pub details: String,
}

impl ServerCatalogue {
    /// The catalogue of a server.
    pub fn for_server(view: &ServerView, pool: &Pool) -> ServerCatalogue {
        let items = |list: ListKind| {
            let items = view.catalogue.items(list).iter();
            items.map(|it| (it.name.as_str(), it.raw.decode::<Json>().unwrap_or_default()))
        };
        let tool =
            |(name, raw): (&str, Json)| tool_entry(name, &raw, exposure_of(view, pool, name));
        let thing = |(name, raw): (&str, Json)| catalogue_entry(name, &raw);
        ServerCatalogue {
            tools: items(ListKind::Tools).map(tool).collect(),
            resources: items(ListKind::Resources)
                .chain(items(ListKind::ResourceTemplates))
                .map(thing)
                .collect(),
            prompts: items(ListKind::Prompts).map(thing).collect(),
        }
    }

    /// The approximate number of tokens of all tools that models see.
    pub fn tokens(&self) -> usize {
        let offered =
            self.tools.iter().filter(|it| matches!(it.exposure, ToolExposure::ExposedAs(_)));
        offered.map(|it| it.tokens).sum()
    }
}

fn exposure_of(view: &ServerView, pool: &Pool, name: &str) -> ToolExposure {
    if let Some(tool) = pool.find_by_server(&view.name, name) {
        return ToolExposure::ExposedAs(tool.exposed_name.clone());
    }
    let is_it =
        |it: &&switchboard::pool::QuarantineEntry| it.server == view.name && it.tool == name;
    match pool.quarantined().iter().find(is_it) {
        Some(quarantined) => ToolExposure::Hidden(quarantined.reason.to_string()),
        None => ToolExposure::Hidden("excluded by a rule or by its entry".to_owned()),
    }
}

fn text(raw: &Json, key: &str) -> Option<String> {
    raw[key].as_str().map(str::to_owned)
}

fn tool_entry(name: &str, raw: &Json, offer: ToolExposure) -> ToolEntry {
    let hint = |key: &str| raw["annotations"][key].as_bool();
    let mut annotations = Vec::new();
    match (hint("readOnlyHint"), hint("destructiveHint")) {
        (Some(true), _) => annotations.push("read-only"),
        (_, Some(true)) => annotations.push("destructive"),
        (_, Some(false)) => annotations.push("writes"),
        (_, None) => {}
    }
    if hint("idempotentHint") == Some(true) {
        annotations.push("idempotent");
    }
    match hint("openWorldHint") {
        Some(true) => annotations.push("open world"),
        Some(false) => annotations.push("closed world"),
        None => {}
    }
    let description = text(raw, "description").unwrap_or_default();
    let schema = raw.get("inputSchema").map(Json::to_string).unwrap_or_default();
    let length = [name, &description, &schema].map(|it| it.chars().count()).iter().sum::<usize>();
    let title = text(raw, "title").or_else(|| text(&raw["annotations"], "title"));
    ToolEntry {
        name: name.to_owned(),
        title,
        description,
        annotations,
        tokens: length.div_ceil(CHARS_PER_TOKEN),
        exposure: offer,
    }
}

fn catalogue_entry(name: &str, raw: &Json) -> CatalogueEntry {
    let arguments = raw["arguments"].as_array().into_iter().flatten().filter_map(|it| {
        let name = it["name"].as_str()?;
        Some(match it["required"].as_bool() {
            Some(true) => format!("{name}*"),
            Some(false) | None => name.to_owned(),
        })
    });
    let arguments = arguments.collect::<Vec<_>>().join(", ");
    let more = match text(raw, "mimeType") {
        Some(kind) => kind,
        None if arguments.is_empty() => String::new(),
        None => format!("takes {arguments}"),
    };
    let own = text(raw, "name").filter(|it| it != name);
    CatalogueEntry {
        name: name.to_owned(),
        title: text(raw, "title").or(own),
        description: text(raw, "description").unwrap_or_default(),
        details: more,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_is_told_by_its_words_and_its_price() {
        let raw = json!({
            "name": "read", "title": "Read", "description": "Reads a file.",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true, "destructiveHint": true, "openWorldHint": false},
        });
        let card = tool_entry("read", &raw, ToolExposure::ExposedAs("mcp__fs__read".to_owned()));
        assert_eq!(card.annotations, ["read-only", "closed world"]);
        // read + Reads a file. + {"type":"object"}
        assert_eq!(card.tokens, (4 + 13 + 17usize).div_ceil(4));
        assert_eq!(card.title.as_deref(), Some("Read"));
    }

    #[test]
    fn a_prompt_is_listed_with_its_arguments() {
        let raw = json!({"name": "review", "arguments": [{"name": "file", "required": true}, {"name": "style"}]});
        assert_eq!(catalogue_entry("review", &raw).details, "takes file*, style");
        let raw = json!({"uri": "file:///a", "name": "a", "mimeType": "text/plain"});
        let resource = catalogue_entry("file:///a", &raw);
        assert_eq!(
            (resource.title.as_deref(), resource.details.as_str()),
            (Some("a"), "text/plain")
        );
    }
}

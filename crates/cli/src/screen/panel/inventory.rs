//! What one server has, in lines that people read: tools with what their server says of them and what they cost a
//! model, resources, prompts.

use serde_json::Value as Json;
use switchboard::catalogue::List;
use switchboard::connection::View;
use switchboard::pool::Pool;

/// How many characters make a token, roughly.
const TOKEN: usize = 4;

/// What one server has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Its tools.
    pub tools: Vec<ToolCard>,
    /// Its resources, and its templates of such.
    pub resources: Vec<Thing>,
    /// Its prompts.
    pub prompts: Vec<Thing>,
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCard {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// What its server says of its effects, in few words.
    pub annotations: Vec<&'static str>,
    /// About how many tokens its definition takes.
    pub tokens: usize,
    /// Is a model told of it?
    pub offer: Offer,
}

/// Is a model told of a tool?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// Yes, under this name.
    As(String),
    /// No, and why.
    Not(String),
}

/// A resource or a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
    /// What it is asked for by.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What is said of it.
    pub description: String,
    /// What else: a type, arguments.
    pub more: String,
}

impl Inventory {
    /// Of a server.
    pub fn of(view: &View, pool: &Pool) -> Inventory {
        let items = |list: List| {
            let items = view.catalogue.items(list).iter();
            items.map(|it| (it.name.as_str(), it.raw.decode::<Json>().unwrap_or_default()))
        };
        let tool = |(name, raw): (&str, Json)| tool(name, &raw, offer(view, pool, name));
        let thing = |(name, raw): (&str, Json)| thing(name, &raw);
        Inventory {
            tools: items(List::Tools).map(tool).collect(),
            resources: items(List::Resources).chain(items(List::Templates)).map(thing).collect(),
            prompts: items(List::Prompts).map(thing).collect(),
        }
    }

    /// About how many tokens the tools that a model is told of take.
    pub fn tokens(&self) -> usize {
        let offered = self.tools.iter().filter(|it| matches!(it.offer, Offer::As(_)));
        offered.map(|it| it.tokens).sum()
    }
}

fn offer(view: &View, pool: &Pool, name: &str) -> Offer {
    if let Some(tool) = pool.find_on(&view.name, name) {
        return Offer::As(tool.exposed.clone());
    }
    let is_it = |it: &&switchboard::pool::Quarantined| it.server == view.name && it.tool == name;
    match pool.quarantined().iter().find(is_it) {
        Some(quarantined) => Offer::Not(quarantined.reason.to_string()),
        None => Offer::Not("a rule or its entry leaves it out".to_owned()),
    }
}

fn text(raw: &Json, key: &str) -> Option<String> {
    raw[key].as_str().map(str::to_owned)
}

fn tool(name: &str, raw: &Json, offer: Offer) -> ToolCard {
    let said = |key: &str| raw["annotations"][key].as_bool();
    let mut annotations = Vec::new();
    match (said("readOnlyHint"), said("destructiveHint")) {
        (Some(true), _) => annotations.push("read-only"),
        (_, Some(true)) => annotations.push("destructive"),
        (_, Some(false)) => annotations.push("additive"),
        (_, None) => {}
    }
    if said("idempotentHint") == Some(true) {
        annotations.push("idempotent");
    }
    match said("openWorldHint") {
        Some(true) => annotations.push("open world"),
        Some(false) => annotations.push("closed world"),
        None => {}
    }
    let description = text(raw, "description").unwrap_or_default();
    let schema = raw.get("inputSchema").map(Json::to_string).unwrap_or_default();
    let length = [name, &description, &schema].map(|it| it.chars().count()).iter().sum::<usize>();
    let title = text(raw, "title").or_else(|| text(&raw["annotations"], "title"));
    ToolCard {
        name: name.to_owned(),
        title,
        description,
        annotations,
        tokens: length.div_ceil(TOKEN),
        offer,
    }
}

fn thing(name: &str, raw: &Json) -> Thing {
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
    Thing {
        name: name.to_owned(),
        title: text(raw, "title").or(own),
        description: text(raw, "description").unwrap_or_default(),
        more,
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
        let card = tool("read", &raw, Offer::As("mcp__fs__read".to_owned()));
        assert_eq!(card.annotations, ["read-only", "closed world"]);
        // read + Reads a file. + {"type":"object"}
        assert_eq!(card.tokens, (4 + 13 + 17usize).div_ceil(4));
        assert_eq!(card.title.as_deref(), Some("Read"));
    }

    #[test]
    fn a_prompt_is_told_with_what_it_takes() {
        let raw = json!({"name": "review", "arguments": [{"name": "file", "required": true}, {"name": "style"}]});
        assert_eq!(thing("review", &raw).more, "takes file*, style");
        let raw = json!({"uri": "file:///a", "name": "a", "mimeType": "text/plain"});
        let resource = thing("file:///a", &raw);
        assert_eq!((resource.title.as_deref(), resource.more.as_str()), (Some("a"), "text/plain"));
    }
}

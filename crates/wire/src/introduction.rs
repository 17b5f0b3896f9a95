//! Who the two sides are and what they can do: what we say of ourselves, and what a server says of itself.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::era::{Era, key};
use crate::message::Payload;

/// The longest instructions that are kept, in characters.
const LONGEST_INSTRUCTIONS: usize = 2048;
/// The longest name or version that is kept, in characters.
const LONGEST_NAME: usize = 200;

/// What we say of ourselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Our name, for programs.
    pub name: String,
    /// Our name, for people.
    pub title: String,
    /// Our version.
    pub version: String,
    /// What we can do for a server.
    pub abilities: Vec<Ability>,
}

/// Something that a client can do for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Say which folders somebody works in.
    Roots,
    /// Ask the person, by form and by URL.
    Elicitation,
    /// Ask a model.
    Sampling,
}

impl Offer {
    pub(crate) fn client_info(&self) -> Json {
        json!({"name": self.name, "title": self.title, "version": self.version})
    }

    pub(crate) fn capabilities(&self, era: Era) -> Json {
        let mut map = Map::new();
        for ability in &self.abilities {
            let (name, value) = match (ability, era) {
                (Ability::Roots, Era::Legacy) => ("roots", json!({"listChanged": true})),
                (Ability::Roots, Era::Modern) => ("roots", json!({})),
                (Ability::Elicitation, _) => ("elicitation", json!({"form": {}, "url": {}})),
                (Ability::Sampling, _) => ("sampling", json!({})),
            };
            map.insert(name.to_owned(), value);
        }
        Json::Object(map)
    }
}

/// What a server says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// How it wants to be spoken to.
    pub era: Era,
    /// The protocol's version.
    pub version: String,
    /// Its name; empty where it says none.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Its own version.
    pub server_version: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// How to use it, cut to a bound.
    pub instructions: Option<String>,
    /// All of it, as it came.
    pub raw: Payload,
}

/// What a server can do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// It has tools.
    pub tools: Option<Listing>,
    /// It has resources.
    pub resources: Option<Listing>,
    /// It has prompts.
    pub prompts: Option<Listing>,
    /// Others, by name: `logging`, `completions`, extensions.
    pub others: Vec<String>,
}

/// How a server keeps a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listing {
    /// It says when the list changes.
    pub announces_changes: bool,
    /// It says when one of the things changes that we subscribed to.
    pub takes_subscriptions: bool,
}

#[derive(Deserialize)]
struct Words {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: Json,
    #[serde(default)]
    title: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    #[serde(default)]
    protocol_version: Option<String>,
    #[serde(default)]
    capabilities: Map<String, Json>,
    #[serde(default)]
    server_info: Option<Json>,
    #[serde(default)]
    instructions: Option<Json>,
    #[serde(default)]
    supported_versions: Vec<String>,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Json>,
}

impl Introduction {
    /// Reads the answer to `initialize`.
    pub(crate) fn legacy(raw: Payload) -> Result<Introduction, serde_json::Error> {
        let said: Said = raw.decode()?;
        let version = said.protocol_version.clone().unwrap_or_default();
        let server = said.server_info.clone();
        Ok(Introduction::new(Era::Legacy, version, said, server, raw))
    }

    /// Reads the answer to `server/discover`, to be spoken to in this version.
    pub(crate) fn modern(raw: Payload, version: &str) -> Result<Introduction, serde_json::Error> {
        let said: Said = raw.decode()?;
        let server = said.meta.get(key::SERVER).cloned();
        Ok(Introduction::new(Era::Modern, version.to_owned(), said, server, raw))
    }

    fn new(era: Era, version: String, said: Said, server: Option<Json>, raw: Payload) -> Self {
        let nameless = Words { name: String::new(), version: Json::Null, title: None };
        let words: Words =
            server.and_then(|it| serde_json::from_value(it).ok()).unwrap_or(nameless);
        let server_version = match words.version {
            Json::String(text) => text,
            Json::Null => String::new(),
            other @ (Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
                other.to_string()
            }
        };
        let instructions = said.instructions.as_ref().and_then(Json::as_str);
        Introduction {
            era,
            version: cut(&version, LONGEST_NAME),
            name: cut(&words.name, LONGEST_NAME),
            title: words.title.map(|title| cut(&title, LONGEST_NAME)),
            server_version: cut(&server_version, LONGEST_NAME),
            capabilities: Capabilities::of(&said.capabilities),
            instructions: instructions
                .filter(|text| !text.trim().is_empty())
                .map(|text| cut(text, LONGEST_INSTRUCTIONS)),
            raw,
        }
    }
}

/// The versions that an answer to `server/discover` names, or the data of a refused version.
pub(crate) fn supported_versions(raw: &Payload) -> Vec<String> {
    #[derive(Deserialize)]
    struct Refused {
        #[serde(default)]
        supported: Vec<String>,
    }
    let of_answer = raw.decode::<Said>().map(|it| it.supported_versions).unwrap_or_default();
    match of_answer.is_empty() {
        true => raw.decode::<Refused>().map(|it| it.supported).unwrap_or_default(),
        false => of_answer,
    }
}

impl Capabilities {
    fn of(map: &Map<String, Json>) -> Capabilities {
        const LISTS: [&str; 3] = ["tools", "resources", "prompts"];
        const MOST: usize = 50;
        let listing = |name: &str| {
            let said = map.get(name).filter(|it| !matches!(it, Json::Null | Json::Bool(false)))?;
            Some(Listing {
                announces_changes: said["listChanged"] == true,
                takes_subscriptions: said["subscribe"] == true,
            })
        };
        let nested = |name: &str| map.get(name).and_then(Json::as_object).into_iter().flatten();
        let plain = map
            .keys()
            .filter(|it| !LISTS.contains(&it.as_str()))
            .filter(|it| !["extensions", "experimental"].contains(&it.as_str()));
        let others = plain
            .chain(nested("extensions").map(|(name, _)| name))
            .chain(nested("experimental").map(|(name, _)| name));
        Capabilities {
            tools: listing("tools"),
            resources: listing("resources"),
            prompts: listing("prompts"),
            others: others.take(MOST).map(|name| cut(name, LONGEST_NAME)).collect(),
        }
    }
}

/// The beginning of a text, in whole characters.
fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}… [truncated]", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(json: &Json) -> Payload {
        Payload::of(json).expect("JSON")
    }

    #[test]
    fn a_legacy_server_introduces_itself() {
        let said = json!({
            "protocolVersion": "2025-06-18",
            "serverInfo": {"name": "files", "version": "1.2", "title": "Files", "icons": []},
            "capabilities": {
                "tools": {"listChanged": true}, "resources": {"subscribe": true}, "prompts": null,
                "logging": {}, "experimental": {"x/y": {}}
            },
            "instructions": "be careful",
        });
        let it = Introduction::legacy(payload(&said)).expect("it can be read");
        let listing = |announces_changes, takes_subscriptions| {
            Some(Listing { announces_changes, takes_subscriptions })
        };
        let expected = Introduction {
            era: Era::Legacy,
            version: "2025-06-18".to_owned(),
            name: "files".to_owned(),
            title: Some("Files".to_owned()),
            server_version: "1.2".to_owned(),
            capabilities: Capabilities {
                tools: listing(true, false),
                resources: listing(false, true),
                prompts: None,
                others: vec!["logging".to_owned(), "x/y".to_owned()],
            },
            instructions: Some("be careful".to_owned()),
            raw: payload(&said),
        };
        assert_eq!(it, expected);
    }

    #[test]
    fn a_modern_server_introduces_itself_in_the_metadata() {
        let said = json!({
            "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "m", "version": 3}},
        });
        let it = Introduction::modern(payload(&said), "2026-07-28").expect("it can be read");
        assert_eq!((it.name.as_str(), it.server_version.as_str()), ("m", "3"));
        assert_eq!(supported_versions(&payload(&said)), ["2026-07-28"]);
        assert_eq!(supported_versions(&payload(&json!({"supported": ["a"]}))), ["a"]);
    }

    #[test]
    fn a_server_that_says_next_to_nothing_is_taken_all_the_same() {
        let it = Introduction::legacy(payload(&json!({"instructions": 5, "serverInfo": "x"})));
        let it = it.expect("it can be read");
        assert_eq!((it.name.as_str(), it.instructions), ("", None));
    }

    #[test]
    fn long_instructions_are_cut_between_characters() {
        let said = json!({"instructions": "é".repeat(3000)});
        let it = Introduction::legacy(payload(&said)).expect("it can be read");
        let instructions = it.instructions.expect("there are some");
        assert_eq!(instructions, format!("{}… [truncated]", "é".repeat(2048)));
    }

    #[test]
    fn roots_announce_changes_in_the_legacy_era_only() {
        let offer = Offer {
            name: "swb".into(),
            title: "S".into(),
            version: "1".into(),
            abilities: vec![Ability::Roots, Ability::Elicitation],
        };
        assert_eq!(
            offer.capabilities(Era::Legacy),
            json!({"roots": {"listChanged": true}, "elicitation": {"form": {}, "url": {}}})
        );
        assert_eq!(
            offer.capabilities(Era::Modern),
            json!({"roots": {}, "elicitation": {"form": {}, "url": {}}})
        );
    }
}
